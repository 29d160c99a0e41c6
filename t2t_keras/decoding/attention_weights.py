"""Where a model looks when it reads a sentence and writes its translation."""

import dataclasses

import numpy as np


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
