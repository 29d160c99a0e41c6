"""Word alignments of lines with their translations, as they were translated: cut, or in parts."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.source_text import Source, encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.word_alignment import Aligner, word_alignment


def line_alignments(
    sources: Sequence[Source],
    translations: Sequence[Translation],
    tokenizer: Tokenizer,
    attention: Callable[[list[np.ndarray], list[np.ndarray]], Iterator[tuple[int, np.ndarray]]],
    aligned: Aligner,
) -> list[list[tuple[int, int]]]:
    """Aligns the words of the translations with those of their sources.

    A word that a line was cut before is aligned with none. The sentences of a line that was split
    are aligned one by one.

    Args:
      sources: the lines.
      translations: of the lines.
      tokenizer: the vocabulary.
      attention: yields numbers of pairs and where their translations look, as
        `GivenPairs.cross_attention`.
      aligned: chooses the pairs of words.

    Returns:
      For each line, pairs (source word, target word) of `word_numbers`, by target word.
    """
    # A line of the table for each part: the line's number, its ids, its translation, and the words
    # of the line and of its translation that stand before it.
    parts = []
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        words = 0
        for ids, first, text in zip(
            source.parts, source.first_words, translation.parts, strict=True
        ):
            parts.append((number, ids, text, first, words))
            words += len(text.split())
    ids = [ids for _, ids, _, _, _ in parts]
    targets = encode_text([text for _, _, text, _, _ in parts], tokenizer)
    alignments: list[list[tuple[int, int]]] = [[] for _ in sources]
    for part, weights in attention(ids, targets):
        number, _, _, first, words = parts[part]
        pieces = (tokenizer.pieces(each[part]) for each in (ids, targets))
        alignments[number] += [
            (first + source, words + target)
            for source, target in word_alignment(*pieces, weights, aligned)
        ]
    return [sorted(alignment, key=lambda pair: pair[1]) for alignment in alignments]
