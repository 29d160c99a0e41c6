"""Where a model looks when it reads a sentence and writes its translation."""

import dataclasses

import numpy as np

from t2t_keras.data.word_ids import SPACE


@dataclasses.dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of every layer and head for one sentence and its translation.

    Attributes:
      source: pieces of the source, the end of sentence included.
      target: pieces of the translation, the end included.
      encoder: float32 [layers, heads, source, source]; a row is a query.
      decoder: float32 [layers, heads, target, target]; row i is for the prediction of target i,
        column j for the input read there: target j - 1, and the start at j = 0.
      cross: float32 [layers, heads, target, source]; row i is for the prediction of target i.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray


def word_alignment(weights: AttentionWeights, layer: int | None = None) -> list[tuple[int, int]]:
    """Aligns each word of a translation with the source word that it attends to most.

    The weights are the mean over the heads of one layer. They are summed up over the pieces of a
    source word, and averaged over those of a target word; the ends of the sentences are no words.

    Args:
      weights: of the pair.
      layer: which layer of the decoder, from 0; default: the last but one, whose attention agrees
        best with alignments made by people (Garg et al., 2019).

    Returns:
      Pairs (source word, target word), counted from 0 as spaces divide them, by target word.
    """
    layers = len(weights.cross)
    layer = max(layers - 2, 0) if layer is None else layer
    cross = weights.cross[layer].mean(axis=0)  # [target, source]
    sources, targets = word_numbers(weights.source[:-1]), word_numbers(weights.target[:-1])
    if not sources or not targets:
        return []
    between_words = np.zeros([max(targets) + 1, max(sources) + 1])
    for row, target in enumerate(targets):
        np.add.at(between_words[target], sources, cross[row, : len(sources)])
    # The mean over a target word's pieces has the same largest one as their sum.
    return [(int(source), target) for target, source in enumerate(between_words.argmax(axis=1))]


def word_numbers(pieces: tuple[str, ...]) -> list[int]:
    """Returns to which word each piece belongs, from 0; a piece with a leading space begins one."""
    numbers, number = [], -1
    for position, piece in enumerate(pieces):
        # A space alone begins the word that the next piece goes on with.
        after_space = position > 0 and pieces[position - 1] == SPACE
        number += position == 0 or (piece.startswith(SPACE) and not after_space)
        numbers.append(number)
    return numbers


def pharaoh(alignment: list[tuple[int, int]]) -> str:
    """Writes an alignment as "0-0 1-2", source before target (Koehn's Pharaoh format)."""
    return " ".join(f"{source}-{target}" for source, target in alignment)
