"""Word alignments of translations with their sources, by an engine's attention."""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.decoding.engines.base import Engine
from t2t_keras.decoding.source_text import Source, encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.text.alignment import count_words, span_weights, word_alignment
from t2t_keras.text.placeholders.symbols import Shield
from t2t_keras.text.terms.hints import of_words_without_hints, without_hints
from t2t_keras.text.tokenizer import Tokenizer


def align_lines(
    engine: Engine,
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    translations: Sequence[Translation],
    align: Callable,
) -> list[list[tuple[int, int]]]:
    """Returns for each line pairs (source word, target word) of `word_numbers`, by target word."""
    found = align_as_seen(engine, tokenizer, sources, translations, align)
    return list(map(_restored, sources, translations, found))


def align_as_seen(
    engine: Engine,
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    translations: Sequence[Translation],
    align: Callable,
) -> list[list[tuple[int, int]]]:
    """`align_lines` of words as the model has them, with symbols for placeholders.

    Words of a hint count as the word that it stands after.
    """
    # Of each part: the number of its line, its own, and that of the target words before it.
    offsets = []
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        words = 0
        for part, (_, text) in enumerate(zip(source.parts, translation.parts, strict=True)):
            offsets.append((number, part, words))
            words += count_words(text)
    ids = [part for source in sources for part in source.parts]
    texts = [part for translation in translations for part in translation.parts]
    alignments: list[list[tuple[int, int]]] = [[] for _ in sources]
    found = align_pairs(engine, tokenizer, ids, texts, align)
    for (number, part, words), pairs in zip(offsets, found, strict=True):
        word = functools.partial(sources[number].word, part)
        alignments[number] += [(word(source), words + target) for source, target in pairs]
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        if translation.hinted:
            alignments[number] = of_words_without_hints(alignments[number], source.line)
    return alignments


def align_pairs(
    engine: Engine,
    tokenizer: Tokenizer,
    sources: Sequence[np.ndarray],
    texts: Sequence[str],
    align: Callable,
) -> list[list[tuple[int, int]]]:
    """Returns pairs of words for ids of sources with their ends, and texts of their translations.

    `align` chooses the pairs, as `Problem.align`.
    """
    targets = encode_text(texts, tokenizer)
    alignments: list[list[tuple[int, int]]] = [[] for _ in sources]
    if sources:
        for number, weights in engine.cross_attention(sources, targets):
            pieces = (
                tokenizer.source.pieces(sources[number]),
                tokenizer.pieces(targets[number][: len(weights) + 1]),
            )
            alignments[number] = word_alignment(*pieces, weights, align)
    return alignments


def spans_of_pairs(
    engine: Engine,
    tokenizer: Tokenizer,
    sources: Sequence[np.ndarray],
    pairs: Sequence[tuple[tuple[str, Sequence], tuple[str, Sequence]]],
) -> list[np.ndarray]:
    """Returns the attention of spans to spans, see `span_weights`.

    Args:
      engine: has the attention.
      tokenizer: of both sides.
      sources: ids with their ends.
      pairs: the text of each source and spans in it, and its translation and spans in that.
    """
    targets = encode_text([text for _, (text, _) in pairs], tokenizer)
    found = [np.zeros([len(target), len(source)]) for (_, source), (_, target) in pairs]
    if sources:
        for number, weights in engine.cross_attention(sources, targets):
            pieces = (
                tokenizer.source.pieces(sources[number]),
                tokenizer.pieces(targets[number][: len(weights) + 1]),
            )
            found[number] = span_weights(*pieces, weights, *pairs[number])
    return found


def _restored(
    source: Source, translation: Translation, alignment: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns pairs by target word, of the words of texts with placeholders for symbols."""
    if source.shield.originals:
        texts = without_hints(source.line), " ".join(translation.parts)
        sides = [words_of_words(text, source.shield) for text in texts]
        alignment = [
            pair
            for numbers in alignment
            for pair in itertools.product(
                *(words[number] for words, number in zip(sides, numbers, strict=True))
            )
        ]
    return sorted(alignment, key=lambda pair: pair[1])


def words_of_words(text: str, shield: Shield) -> list[range]:
    """Returns the numbers of the words that each word has when its symbols are restored."""
    counts = [count_words(shield.restore(word.decode("utf-8"))) for word in text.encode().split()]
    return list(map(range, itertools.accumulate([0, *counts]), itertools.accumulate(counts)))
