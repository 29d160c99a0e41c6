"""Self-attention restricted to a neighbourhood (section 4, Table 1), at its cost of r·n·d."""

from keras import ops

from t2t_keras.layers.scaled_dot_product import scaled_dot_product_attention

# The products of shorter blocks cost more to launch than to compute.
_SHORTEST_BLOCK = 16


def restricted_self_attention(
    query, key, value, radius, mask=None, causal=False, dropout=None, training=None
):
    """Attention in which position i sees the positions j with |i - j| <= radius.

    The paper's neighbourhood of size r, centred on the position, has r = 2·radius + 1. Positions
    are cut into blocks not shorter than the radius, so that a block's neighbourhood lies within
    itself and the blocks beside it; what lies too far or outside the sentence is masked. A sentence
    shorter than a block is one block. A query without any visible key gets zeros.

    Args:
      query: [batch, heads, length, d_k].
      key: as `query`.
      value: [batch, heads, length, d_v].
      radius: an integer >= 1.
      mask: boolean [batch, length], True = visible; None = all.
      causal: whether i sees only i - radius <= j <= i.
      dropout: a layer applied to the attention weights, or None.
      training: whether `dropout` acts.

    Returns:
      [batch, heads, length, d_v].
    """
    batch, heads, length, _ = ops.shape(query)
    block = block_length(radius, length)
    blocks = (length + block - 1) // block
    beside = 1 if causal else 2
    mask = ops.ones((batch, length), "bool") if mask is None else ops.cast(mask, "bool")

    # Padding on the right is block - 1 whatever the length is, and what exceeds the last block is
    # cut: shapes may be unknown while a graph is built.
    def own_block(x):
        x = ops.pad(x, [[0, 0], [0, 0], [0, block - 1], [0, 0]])[:, :, : blocks * block]
        return ops.reshape(x, (batch, heads, blocks, block, x.shape[-1]))

    def neighbourhood(x):
        _, around, _, *rest = ops.shape(x)
        after = block - 1 if causal else 2 * block - 1
        x = ops.pad(x, [[0, 0], [0, 0], [block, after]] + [[0, 0]] * len(rest))
        x = x[:, :, : (blocks + beside) * block]
        x = ops.reshape(x, (batch, around, blocks + beside, block, *rest))
        return ops.concatenate([x[:, :, i : blocks + i] for i in range(beside + 1)], axis=3)

    ahead = ops.arange(-block, block if causal else 2 * block) - ops.arange(block)[:, None]
    near = ops.logical_and(ahead >= -radius, ahead <= (0 if causal else radius))
    # [batch, 1, blocks, query, key].
    visible = ops.logical_and(neighbourhood(mask[:, None])[:, :, :, None, :], near)
    attended, _ = scaled_dot_product_attention(
        own_block(query), neighbourhood(key), neighbourhood(value), visible, dropout, training
    )
    attended = ops.reshape(attended, (batch, heads, blocks * block, value.shape[-1]))
    return attended[:, :, :length]


def block_length(radius, length):
    """Returns how many positions a block has in sentences of a length, which may be a tensor."""
    block = max(radius, _SHORTEST_BLOCK)
    if isinstance(length, int):
        return max(min(block, length), 1)
    return ops.clip(length, 1, block)
