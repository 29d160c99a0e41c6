"""Scaled dot-product attention and its masks (sections 3.2.1 and 3.2.3)."""

from keras import ops

# Stands for the paper's -inf: its exponential is exactly 0 in float32, and a row without any legal
# key stays finite.
_ILLEGAL = -1e9


def scaled_dot_product_attention(query, key, value, mask=None, dropout=None, training=None):
    """softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, equation 1).

    The softmax is computed in float32. A query without any legal key gets zeros.

    Args:
      query: [batch, query length, heads, d_k].
      key: [batch, key length, heads, d_k].
      value: [batch, key length, heads, d_v].
      mask: boolean, broadcastable to [batch, heads, query length, key length]; True = legal.
      dropout: a layer applied to the attention weights, or None.
      training: whether `dropout` acts.

    Returns:
      [batch, query length, heads, d_v], and the weights [batch, heads, query length, key length].
    """
    scores = ops.einsum("bqhd,bkhd->bhqk", query * key.shape[-1] ** -0.5, key)
    scores = ops.cast(scores, "float32")
    if mask is None:
        weights = ops.softmax(scores, axis=-1)
    else:
        weights = ops.softmax(ops.where(mask, scores, _ILLEGAL), axis=-1)
        weights = ops.where(mask, weights, 0.0)
    weights = ops.cast(weights, value.dtype)
    if dropout is not None:
        weights = dropout(weights, training=training)
    return ops.einsum("bhqk,bkhd->bqhd", weights, value), weights


def attention_mask(mask=None, causal_length=None):
    """Returns which keys each query may attend to, broadcastable over heads; None = all.

    Args:
      mask: boolean [batch, key length] or [batch, query length, key length], or None.
      causal_length: the number of positions, each of which may see itself and those before it
        (section 3.2.3); None = no such limit.

    Returns:
      Boolean, broadcastable to [batch, heads, query length, key length], or None.
    """
    if mask is not None:
        mask = ops.cast(mask, "bool")
        mask = mask[:, None, None, :] if len(mask.shape) == 2 else mask[:, None, :, :]
    if causal_length is None:
        return mask
    position = ops.arange(causal_length)
    causal = (position[None, :] <= position[:, None])[None, None]
    return causal if mask is None else ops.logical_and(mask, causal)
