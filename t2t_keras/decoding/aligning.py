"""Word alignments of lines with their translations, by the attention of a model."""

from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.decoding.engines.base import Engine
from t2t_keras.decoding.source_text import Source, encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.text.alignment import Alignment, count_words, word_alignment
from t2t_keras.text.hints import of_words_without_hints
from t2t_keras.text.tokenizer import Tokenizer


def align_parts(
    engine: Engine,
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    translations: Sequence[Translation],
    align: Callable[[Sequence[str], np.ndarray], Alignment],
) -> list[list[tuple[int, int]]]:
    """Returns for each line pairs (source word, target word) of `word_numbers`, by target word.

    Words of a hint count as the word that it stands behind.

    Args:
      engine: gives the attention.
      tokenizer: the vocabulary.
      sources: lines, in parts.
      translations: of them, in as many parts.
      align: chooses the pairs, as `Problem.align`.
    """
    # Of each part: the number of its line, and of the words before it on both sides.
    offsets = []
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        words = 0
        for first, text in zip(source.first_words, translation.parts, strict=True):
            offsets.append((number, first, words))
            words += count_words(text)
    ids = [part for source in sources for part in source.parts]
    texts = [part for translation in translations for part in translation.parts]
    targets = encode_text(texts, tokenizer)
    alignments: list[list[tuple[int, int]]] = [[] for _ in sources]
    for part, weights in engine.cross_attention(ids, targets):
        number, first, words = offsets[part]
        pieces = tokenizer.source.pieces(ids[part])
        target = tokenizer.pieces(targets[part][: len(weights) + 1])
        pairs = word_alignment(pieces, target, weights, align)
        alignments[number] += [(first + source, words + target) for source, target in pairs]
    for number, translation in enumerate(translations):
        if translation.hinted:
            alignments[number] = of_words_without_hints(alignments[number], translation.hinted)
    return [sorted(alignment, key=lambda pair: pair[1]) for alignment in alignments]
