"""The attention weights of a model's layers, for those who want to look at them."""

import contextlib
import contextvars

from keras import ops

_RECORD = contextvars.ContextVar("attention_record", default=None)


@contextlib.contextmanager
def recorded_attention():
    """Keeps the weights of every `MultiHeadAttention` that is called inside the block.

    Yields:
      A dictionary that fills up: layer -> the weights of its last call, float32 [batch, heads,
      query length, key length]. Positions of a packed batch are where they were before packing.

    Example:
      >>> with recorded_attention() as weights:
      ...     memory, mask = transformer.encode(source)
      >>> weights[transformer.encoder[0].self_attention].shape
      (2, 8, 5, 5)
    """
    weights = {}
    token = _RECORD.set(weights)
    try:
        yield weights
    finally:
        _RECORD.reset(token)


def is_recorded():
    """Returns whether somebody wants the weights."""
    return _RECORD.get() is not None


def record_attention(layer, weights):
    """Keeps the weights of a layer if somebody wants them."""
    if is_recorded():
        # Whatever the layer computes in: sums over half precision would be rounded again.
        _RECORD.get()[layer] = ops.cast(weights, "float32")
