"""Word alignments of translations with their sources, by an engine's attention."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.decoding.engines.base import Engine
from t2t_keras.decoding.inputs import encode_text
from t2t_keras.text.alignment import count_words, span_weights, word_alignment
from t2t_keras.text.tokenizer import Tokenizer


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


def restored_words(text: str, restore: Callable[[str], str]) -> list[range]:
    """Returns the numbers of the words that each word of an output has once it is restored."""
    counts = [count_words(restore(word.decode("utf-8"))) for word in text.encode().split()]
    return list(map(range, itertools.accumulate([0, *counts]), itertools.accumulate(counts)))
