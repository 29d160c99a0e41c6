"""Attention: scaled dot-product, multi-head, and restricted (sections 3.2 and 4)."""

import functools
from typing import Any

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.layers.base import (
    AS_IS,
    Dropout,
    ShapePreservingLayer,
    check_no_floats,
    check_shape,
    check_sizes,
)
from t2t_keras.layers.embedding import rotated

# In place of the paper's -inf: its exponential is exactly 0 in float32, and a row without any
# visible key stays finite.
_HIDDEN = -1e9
# The products of shorter blocks cost more to launch than to compute.
_SHORTEST_BLOCK = 16


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
    query = query * query.shape[-1] ** -0.5
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
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
    query = query * query.shape[-1] ** -0.5
    scores = [ops.matmul(query, ops.swapaxes(part["key"], -1, -2)) for part in parts]
    scores = ops.concatenate(scores, axis=-1)
    weights = _attention_weights(scores, mask, parts[0]["value"].dtype)
    rest, attended = weights, []
    for part in reversed(parts[1:]):
        length = part["key"].shape[-2]
        attended.append(ops.matmul(rest[..., -length:], part["value"]))
        rest = rest[..., :-length]
    return sum(attended, ops.matmul(rest, parts[0]["value"])), weights


def _attention_weights(scores, mask, dtype):
    scores = ops.cast(scores, "float32")
    scores = scores if mask is None else ops.where(mask, scores, _HIDDEN)
    weights = ops.softmax(scores, axis=-1)
    return ops.cast(weights if mask is None else ops.where(mask, weights, 0.0), dtype)


def visible_keys(mask):
    """Returns a mask of keys with an axis for heads.

    Args:
      mask: boolean [batch, key length] or [batch, query length, key length]; True = visible.

    Returns:
      Boolean, broadcastable to [batch, heads, query length, key length].
    """
    mask = ops.cast(mask, "bool")
    return mask[:, None, None, :] if len(mask.shape) == 2 else mask[:, None, :, :]


def _ahead(length):
    """Returns how far key j is ahead of query i, j - i, [length, length]."""
    position = ops.arange(length)
    return position[None, :] - position[:, None]


@keras.saving.register_keras_serializable(package="t2t_keras")
class MultiHeadAttention(ShapePreservingLayer):
    """Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Section 3.2.2. h·d_k need not equal d_model. W^Q, W^K and W^V are initialised as one Glorot
    uniform matrix, side by side, as tensor2tensor first did.

    Args:
      num_heads: h.
      d_k: width of each head's queries and keys.
      d_v: width of each head's values; default d_k.
      dropout: share of attention weights dropped (0 in the paper).
      bias: whether the projections have biases (none in the paper).
      rotary: whether queries and keys are turned by their positions; for self-attention.
      table_length: of rotary positions, see `sinusoids`.

    Call arguments:
      query: [batch, query length, d_model], or in another layout.
      value: [batch, key length, width] that keys and values are made from; default `query`
        (self-attention).
      mask: boolean, True = visible; [batch, key length], or [batch, query length, key length].
        Default: the Keras mask of `value`.
      attention_mask: as in Keras's layer, boolean, broadcastable to [batch, heads, query length,
        key length], where [query length, key length] and [batch, query length, key length] are
        known by their rank. Either mask hides a position; its values must be finite all the same,
        as 0 times NaN or infinity is NaN.
      causal: whether position i may attend to positions up to i only (section 3.2.3). Needs a
        query and a value of the same length.
      layout: the `Layout` of the query. In a `RaggedLayout` self-attention needs a mask, unless
        `causal` already hides all padding.
      return_attention_scores: whether the attention weights are returned as well.
      training: whether dropout acts.

    Returns:
      [batch, query length, d_model], in the layout of the query; and the weights after softmax and
      dropout, [batch, heads, query length, key length], if they are asked for.

    Example:
      >>> x = keras.random.normal((2, 5, 512))
      >>> MultiHeadAttention(num_heads=8, d_k=64)(x, causal=True).shape
      (2, 5, 512)
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotary: bool = False,
        table_length: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if rotary and d_k % 2:
            raise UserError(
                f"rotary turns pairs: expected an even d_k, got {d_k}.", code="bad_size"
            )
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v or d_k
        self.bias = bias
        self.rotary = rotary
        self.table_length = table_length
        self.attention_dropout = Dropout(dropout, dtype=self.dtype_policy)
        check_sizes(self, num_heads=1, d_k=1, d_v=1)

    def build(self, query_shape, value_shape=None):
        """Makes W^Q, W^K, W^V (each for all heads side by side) and W^O."""
        d_model, width = query_shape[-1], (value_shape or query_shape)[-1]
        keys, values = self.num_heads * self.d_k, self.num_heads * self.d_v

        def projection(name, width, new_width, fans):
            limit = (6 / fans) ** 0.5
            uniform = keras.initializers.RandomUniform(-limit, limit)
            options = dict(use_bias=self.bias, kernel_initializer=uniform, dtype=self.dtype_policy)
            dense = keras.layers.Dense(new_width, **options, name=name)
            dense.build((None, width))
            return dense

        # With three separate Glorot matrices, what is averaged over a sentence is larger, and its
        # positions become more alike from layer to layer: attention is learned late, or never.
        together = d_model + 2 * keys + values
        self.query_projection = projection("query", d_model, keys, fans=together)
        self.key_projection = projection("key", width, keys, fans=together)
        self.value_projection = projection("value", width, values, fans=together)
        self.output_projection = projection("output", values, d_model, fans=values + d_model)

    def call(
        self,
        query,
        value=None,
        mask=None,
        value_mask=None,
        attention_mask=None,
        causal=False,
        layout=AS_IS,
        return_attention_scores=False,
        training=None,
    ):
        """See the class."""
        if causal and value is not None and len(query.shape) == len(value.shape) == 3:
            lengths = "batch", query.shape[1] or "query length", "width"
            check_shape(self, "value", value, lengths)
        value, value_layout = (query, layout) if value is None else (value, AS_IS)
        # With an attention_mask beside it, Keras hands on that of no argument called `mask`.
        masks = (mask, value_mask, getattr(value, "_keras_mask", None))
        mask = next((each for each in masks if each is not None), None)
        part = self.keys_and_values(value, value_layout)
        return self.attend(
            query,
            [part],
            self.visible(part, mask, attention_mask, causal),
            layout=layout,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def keys_and_values(self, x, layout=AS_IS, position=None):
        """Projects x [batch, key length, width]; decoding caches what this returns.

        Args:
          x: what keys and values are made from.
          layout: its `Layout`.
          position: of all rows of x, an integer or an int32 scalar; None = 0, 1, 2, ...

        Returns:
          {"key": [batch, heads, key length, d_k], "value": [batch, heads, key length, d_v]}.
        """
        check_shape(self, "value", x, layout.axes)
        keys = self._split_heads(x, self.key_projection, self.d_k, layout)
        return {
            "key": rotated(keys, position, self.table_length) if self.rotary else keys,
            "value": self._split_heads(x, self.value_projection, self.d_v, layout),
        }

    def visible(self, part, mask=None, attention_mask=None, causal=False):
        """Returns which keys each query may attend to; None = all.

        Args:
          part: a result of `keys_and_values`.
          mask: see the class.
          attention_mask: likewise.
          causal: likewise.

        Returns:
          Boolean, broadcastable to [batch, heads, query length, key length], or None.
        """
        check_no_floats(self, mask=mask, attention_mask=attention_mask)
        masks = []
        if mask is not None:
            keys = part["key"].shape[2] or "keys"
            check_shape(self, "mask", mask, ("batch", keys), ("batch", "queries", keys))
            masks.append(visible_keys(mask))
        if causal:
            masks.append(_ahead(ops.shape(part["key"])[2]) <= 0)
        if attention_mask is not None:
            by_rank = ops.cast(attention_mask, "bool")
            masks.append(by_rank[:, None] if len(by_rank.shape) == 3 else by_rank)
        return functools.reduce(ops.logical_and, masks) if masks else None

    def attend(
        self,
        query,
        parts,
        mask=None,
        position=None,
        layout=AS_IS,
        return_attention_scores=False,
        training=None,
    ):
        """Attends to keys and values that are already projected.

        Args:
          query: [batch, query length, d_model], or in another layout.
          parts: results of `keys_and_values`, whose keys follow each other. Attention to several
            is without dropout.
          mask: boolean, broadcastable to [batch, heads, query length, length of all keys]; True =
            visible.
          position: of all rows of the query; None = 0, 1, 2, ...
          layout: the `Layout` of the query.
          return_attention_scores: see the class.
          training: likewise.

        Returns:
          As a call.
        """
        queries = self._queries(query, layout, position)
        # A search starts with a part without keys.
        parts = [part for part in parts if part["key"].shape[-2] != 0]
        if len(parts) == 1:
            options = dict(dropout=self.attention_dropout, training=training)
            heads, weights = scaled_dot_product_attention(queries, **parts[0], mask=mask, **options)
        else:
            heads, weights = attention_over_parts(queries, parts, mask)
        joined = self._join_heads(heads, layout)
        return (joined, weights) if return_attention_scores else joined

    def _queries(self, x, layout, position=None):
        check_shape(self, "query", x, layout.axes)
        queries = self._split_heads(x, self.query_projection, self.d_k, layout)
        return rotated(queries, position, self.table_length) if self.rotary else queries

    def _split_heads(self, x, projection, width, layout):
        heads = layout.unpack(projection(x), self.num_heads, width)
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, heads, layout):
        heads = ops.transpose(heads, (0, 2, 1, 3))
        concatenated = layout.pack(heads, self.num_heads * self.d_v)
        return self.output_projection(concatenated)

    # Symbols pass through the call itself: it returns weights as well, and refuses wrong shapes.
    compute_output_spec = keras.Operation.compute_output_spec

    def compute_mask(self, query, previous_mask=None):
        """Returns the mask of the query (`previous_mask` can be that of the keys)."""
        return getattr(query, "_keras_mask", None)


@keras.saving.register_keras_serializable(package="t2t_keras")
class RestrictedSelfAttention(MultiHeadAttention):
    """Self-attention in which position i sees the positions j with |i - j| <= radius (section 4).

    Its cost is r·n·d for r = 2·radius + 1, where that of `MultiHeadAttention` is n²·d. With an
    `attention_mask`, or where the weights are returned, all of them are computed.

    Args:
      radius: at least 1.
      num_heads: this and the remaining arguments are those of `MultiHeadAttention`.

    Call arguments:
      query: [batch, length, d_model], or in another layout.
      mask: boolean [batch, length], True = visible; default: the Keras mask of the query.
      attention_mask, causal, layout, return_attention_scores, training: see `MultiHeadAttention`.

    Returns:
      See `MultiHeadAttention`.
    """

    def __init__(
        self,
        radius: int,
        num_heads: int,
        d_k: int,
        d_v: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotary: bool = False,
        table_length: int = 0,
        **kwargs: Any,
    ):
        super().__init__(num_heads, d_k, d_v, dropout, bias, rotary, table_length, **kwargs)
        self.radius = radius
        check_sizes(self, radius=1)

    def build(self, query_shape):  # type: ignore[override]
        """See `MultiHeadAttention`; Keras looks for an argument of `call` for each one here."""
        super().build(query_shape)

    def call(  # type: ignore[override]
        self,
        query,
        mask=None,
        attention_mask=None,
        causal=False,
        layout=AS_IS,
        return_attention_scores=False,
        training=None,
    ):
        """See the class."""
        options = dict(mask=mask, causal=causal, training=training)
        if attention_mask is not None or return_attention_scores:
            scores = dict(return_attention_scores=return_attention_scores)
            options |= dict(attention_mask=attention_mask, layout=layout, **scores)
            return super().call(query, **options)
        queries, part = self._queries(query, layout), self.keys_and_values(query, layout)
        check_no_floats(self, mask=mask)
        if mask is not None:
            check_shape(self, "mask", mask, ("batch", part["key"].shape[2] or "keys"))
        options |= dict(radius=self.radius, dropout=self.attention_dropout)
        return self._join_heads(restricted_self_attention(queries, **part, **options), layout)

    def visible(self, part, mask=None, attention_mask=None, causal=False):
        """See `MultiHeadAttention`."""
        near = ops.abs(_ahead(ops.shape(part["key"])[2])) <= self.radius
        visible = super().visible(part, mask, attention_mask, causal)
        return near if visible is None else ops.logical_and(visible, near)


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
