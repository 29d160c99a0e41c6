"""The three attentions of a sentence: which words read which."""

import dataclasses

import numpy as np

from t2t_keras.decoding.attention_weights import AttentionWeights
from t2t_keras.insights.pieces import START, ShownPiece, shown_pieces

KINDS = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """One kind of attention, with the words at both ends of its weights.

    Attributes:
      queries: the words that read. In the decoder, a word stands where it is predicted.
      keys: the words that are read. In the decoder's self-attention these are its inputs: the start
        and then the words before the one that is predicted.
      weights: float32 [layers, heads, queries, keys].
    """

    queries: list[ShownPiece]
    keys: list[ShownPiece]
    weights: np.ndarray


def attention_view(attention: AttentionWeights, kind: str) -> AttentionView:
    """Returns one kind of attention.

    Args:
      attention: all weights of a sentence.
      kind: "encoder" or "decoder" self-attention, or "cross", the decoder's attention to the
        source.
    """
    source, target = shown_pieces(attention.source), shown_pieces(attention.target)
    if kind == "encoder":
        return AttentionView(source, source, attention.encoder)
    if kind == "cross":
        return AttentionView(target, source, attention.cross)
    inputs = shown_pieces((START, *attention.target[:-1]))
    return AttentionView(target, inputs, attention.decoder)
