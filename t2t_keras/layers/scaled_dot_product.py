"""Scaled dot-product attention and its masks (sections 3.2.1 and 3.2.3)."""

import contextlib
import contextvars
from typing import Any

from keras import ops

# In place of the paper's -inf: its exponential is exactly 0 in float32, and a row without any
# visible key stays finite.
_HIDDEN = -1e9


def scaled_dot_product_attention(query, key, value, mask=None, dropout=None, training=None):
    """softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, equation 1).

    The softmax is computed in float32. A query without any visible key gets zeros.

    Args:
      query: [..., query length, d_k].
      key: [..., key length, d_k].
      value: [..., key length, d_v].
      mask: boolean, broadcastable to [..., query length, key length]; True = visible.
      dropout: a layer applied to the attention weights, or None.
      training: whether `dropout` acts.

    Returns:
      [..., query length, d_v], and the weights [..., query length, key length].
    """
    scores = ops.matmul(_scaled(query), ops.swapaxes(key, -1, -2))
    weights = _attention_weights(scores, mask, value.dtype)
    if dropout is not None:
        weights = dropout(weights, training=training)
    return ops.matmul(weights, value), weights


def attention_over_parts(query, parts, mask=None):
    """The same over keys and values in several tensors, without joining them, and without dropout.

    Args:
      query: [..., query length, d_k].
      parts: {"key": [..., length, d_k], "value": [..., length, d_v]} each. A graph must know the
        lengths of all but the first.
      mask: boolean, broadcastable to [..., query length, length of all parts]; True = visible.

    Returns:
      [..., query length, d_v], and the weights [..., query length, length of all parts].
    """
    # A search starts with a part without keys.
    parts = [part for part in parts if part["key"].shape[-2] != 0]
    if len(parts) == 1:
        return scaled_dot_product_attention(query, **parts[0], mask=mask)
    query = _scaled(query)
    scores = [ops.matmul(query, ops.swapaxes(part["key"], -1, -2)) for part in parts]
    scores = ops.concatenate(scores, axis=-1)
    weights = _attention_weights(scores, mask, parts[0]["value"].dtype)
    rest, attended = weights, []
    for part in reversed(parts[1:]):
        length = part["key"].shape[-2]
        attended.append(ops.matmul(rest[..., -length:], part["value"]))
        rest = rest[..., :-length]
    return sum(attended, ops.matmul(rest, parts[0]["value"])), weights


def _scaled(query):
    return query * query.shape[-1] ** -0.5


def _attention_weights(scores, mask, dtype):
    scores = ops.cast(scores, "float32")
    scores = scores if mask is None else ops.where(mask, scores, _HIDDEN)
    weights = ops.softmax(scores, axis=-1)
    return ops.cast(weights if mask is None else ops.where(mask, weights, 0.0), dtype)


def visible_keys(mask=None, length=None, causal=False, radius=0):
    """Returns which keys each query may attend to, broadcastable over heads; None = all.

    Args:
      mask: boolean [batch, key length] or [batch, query length, key length], or None.
      length: in self-attention, the number of positions.
      causal: whether each sees only itself and those before it (section 3.2.3).
      radius: how many positions away each sees (section 4); 0 = all.

    Returns:
      Boolean, broadcastable to [batch, heads, query length, key length], or None.
    """
    if mask is not None:
        mask = ops.cast(mask, "bool")
        mask = mask[:, None, None, :] if len(mask.shape) == 2 else mask[:, None, :, :]
    if not causal and not radius:
        return mask
    position = ops.arange(length)
    ahead = position[None, :] - position[:, None]
    visible = ahead <= (0 if causal else radius)
    if radius:
        visible = ops.logical_and(visible, ahead >= -radius)
    visible = visible[None, None]
    return visible if mask is None else ops.logical_and(mask, visible)


_RECORD: contextvars.ContextVar[dict[Any, Any] | None] = contextvars.ContextVar(
    "attention_record", default=None
)


@contextlib.contextmanager
def recorded_attention():
    """Records the weights of every `MultiHeadAttention` that is called inside the block.

    Yields:
      A dictionary that fills up: layer -> the weights of its last call, float32 [batch, heads,
      query length, key length]. Positions of a packed batch are where they were before packing.

    Example:
      >>> with recorded_attention() as weights:
      ...     memory, mask = transformer.encode(source)
      >>> weights[transformer.encoder[0].self_attention].shape
      (2, 8, 5, 5)
    """
    weights: dict[Any, Any] = {}
    token = _RECORD.set(weights)
    try:
        yield weights
    finally:
        _RECORD.reset(token)


def is_recorded():
    """Returns whether weights are being recorded."""
    return _RECORD.get() is not None


def record_attention(layer, weights):
    """Records the weights of a layer inside a `recorded_attention` block."""
    if (record := _RECORD.get()) is not None:
        # Sums over weights of half precision would be rounded again.
        record[layer] = ops.cast(weights, "float32")
