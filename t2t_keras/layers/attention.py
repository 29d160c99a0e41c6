"""Attention: scaled dot-product, multi-head, and restricted (sections 3.2 and 4)."""

import functools
from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask  # on JAX, masks are not attributes of tensors

from t2t_keras.errors import UserError
from t2t_keras.layers.base import (
    AS_IS,
    Dropout,
    ShapePreservingLayer,
    check_no_floats,
    check_shape,
    check_sizes,
    clone_weight_options,
    pop_alias,
    pop_weight_options,
    projection_layout,
    serialize_weight_options,
)
from t2t_keras.layers.embedding import rotate

# In place of the paper's -inf: its exponential is exactly 0 in float32, and a row without any
# visible key stays finite.
_HIDDEN_SCORE = -1e9
# The products of shorter blocks cost more to launch than to compute.
_MIN_BLOCK_LENGTH = 16


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
    """Attends to keys and values in several tensors, without joining them and without dropout.

    Args:
      query: [..., query length, d_k].
      parts: keys and values, each {"key": [..., length, d_k], "value": [..., length, d_v]}. In a
        graph, all lengths except the first must be known.
      mask: boolean, broadcastable to [..., query length, length of all parts]; True = visible.

    Returns:
      [..., query length, d_v], and the weights [..., query length, length of all parts].
    """
    query = query * query.shape[-1] ** -0.5
    scores = [ops.matmul(query, ops.swapaxes(part["key"], -1, -2)) for part in parts]
    scores = ops.concatenate(scores, axis=-1)
    weights = _attention_weights(scores, mask, parts[0]["value"].dtype)
    remaining_weights, outputs = weights, []
    for part in reversed(parts[1:]):
        length = part["key"].shape[-2]
        outputs.append(ops.matmul(remaining_weights[..., -length:], part["value"]))
        remaining_weights = remaining_weights[..., :-length]
    return sum(outputs, ops.matmul(remaining_weights, parts[0]["value"])), weights


def _attention_weights(scores, mask, dtype):
    scores = ops.cast(scores, "float32")
    scores = scores if mask is None else ops.where(mask, scores, _HIDDEN_SCORE)
    weights = ops.softmax(scores, axis=-1)
    return ops.cast(weights if mask is None else ops.where(mask, weights, 0.0), dtype)


def visible_keys(mask):
    """Returns a mask of keys, boolean [batch, key length], as [batch, 1, 1, key length]."""
    return ops.expand_dims(ops.cast(mask, "bool"), axis=(1, 2))


def _key_offsets(part, positions):
    """Returns each key's position minus each query's position, [query length, key length]."""
    return ops.arange(_key_length(part)) - ops.expand_dims(positions, axis=1)


def _key_length(part):
    return ops.shape(part["key"])[2]


@keras.saving.register_keras_serializable(package="t2t_keras")
class MultiHeadAttention(ShapePreservingLayer):
    """Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Section 3.2.2. Called like `keras.layers.MultiHeadAttention`, but four things differ:
    there are no biases by default; W^Q, W^K and W^V side by side are initialised as one Glorot
    uniform matrix, as in tensor2tensor's first versions; a query that sees no key gets heads
    of zeros; and scores are returned after dropout. num_heads · key_dim need not equal d_model.

    Args:
      num_heads: h.
      key_dim: d_k, the width of each head's queries and keys; `d_k` is an alias.
      value_dim: d_v, the width of each head's values, default `key_dim`; `d_v` is an alias.
      dropout: share of attention weights dropped (0 in the paper).
      use_bias: whether the projections have biases (none in the paper).
      seed: seed of the dropout.
      rotary: whether queries and keys are rotated by their positions; for self-attention.
      table_length: for rotary positions, see `sinusoids`.
      **kwargs: `kernel_initializer`, `bias_initializer`, `kernel_regularizer`, `bias_regularizer`,
        `kernel_constraint` and `bias_constraint` of the four projections, and arguments of every
        Keras layer.

    Call arguments:
      query: [batch, query length, d_model], or in another layout.
      value: [batch, key length, width]; default `query` (self-attention).
      key: [batch, key length, width]; default `value`.
      query_mask: boolean [batch, query length], True = a token; other queries attend to nothing.
        By default this mask and the next two are the Keras masks of their tensors.
      value_mask: boolean [batch, key length], True = visible. Hidden values must be finite too, as
        0 times NaN or infinity is NaN.
      key_mask: likewise, combined (AND) with `value_mask`.
      attention_mask: boolean, True = visible; [query length, key length], [batch, query length,
        key length] or [batch, heads, query length, key length]. Combined (AND) with the others.
      return_attention_scores: whether the attention weights are returned as well.
      training: whether dropout acts.
      use_causal_mask: whether position i may attend only to positions up to i (section 3.2.3).
        In another layout, query and value must have the same length.
      layout: the `Layout` of the query. In a `RaggedLayout` self-attention needs a `value_mask`,
        unless `use_causal_mask` already hides all padding.

    Returns:
      [batch, query length, d_model], in the layout of the query; and the weights after softmax and
      dropout, [batch, heads, query length, key length], if requested.

    Raises:
      UserError: a size below 1, an input or a mask of the wrong shape, or a mask of floats.

    Example:
      >>> x = keras.random.normal((2, 5, 512))
      >>> tuple(MultiHeadAttention(num_heads=8, key_dim=64)(x, x, use_causal_mask=True).shape)
      (2, 5, 512)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        seed: int | None = None,
        rotary: bool = False,
        table_length: int = 0,
        **kwargs: Any,
    ):
        key_dim = pop_alias(self, kwargs, "d_k", "key_dim", key_dim)
        value_dim = pop_alias(self, kwargs, "d_v", "value_dim", value_dim)
        if key_dim is None:
            raise TypeError(f"{type(self).__name__} needs key_dim.")
        self._weight_options = pop_weight_options(kwargs)
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.use_bias = use_bias
        self.seed = seed
        self.rotary = rotary
        self.table_length = table_length
        check_sizes(self, num_heads=1, key_dim=1, value_dim=1)
        if rotary and key_dim % 2:
            raise UserError(
                f"rotary rotates pairs: expected an even key_dim (d_k), got {key_dim}.",
                code="bad_size",
            )
        self.attention_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape, value_shape=None, key_shape=None):
        """Makes W^Q, W^K, W^V (each for all heads side by side) and W^O."""
        d_model = query_shape[-1]
        value_width = (value_shape or query_shape)[-1]
        key_width = (key_shape or value_shape or query_shape)[-1]
        keys_width, values_width = self.num_heads * self.key_dim, self.num_heads * self.value_dim

        def make_projection(name, width, new_width, fan_sum):
            limit = (6 / fan_sum) ** 0.5
            options = {"kernel_initializer": keras.initializers.RandomUniform(-limit, limit)}
            options |= clone_weight_options(self._weight_options)
            options |= {"use_bias": self.use_bias, "dtype": self.dtype_policy, "name": name}
            dense = keras.layers.Dense(new_width, **options)
            dense.build((None, width))
            return dense

        # With three separate Glorot matrices, averages over a sentence are larger, and its
        # positions become more alike from layer to layer: attention is learned late or never.
        fan_sum, output_fan_sum = d_model + 2 * keys_width + values_width, values_width + d_model
        self.query_projection = make_projection("query", d_model, keys_width, fan_sum)
        self.key_projection = make_projection("key", key_width, keys_width, fan_sum)
        self.value_projection = make_projection("value", value_width, values_width, fan_sum)
        self.output_projection = make_projection("output", values_width, d_model, output_fan_sum)

    def __call__(self, query, value=None, key=None, *args, **kwargs):
        """Calls the layer; if `value` is the query itself, it is self-attention."""
        # Compare identities before Keras casts the inputs, which would create two tensors.
        key = None if key is value else key
        value = None if value is query else value
        return super().__call__(query, value, key, *args, **kwargs)

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        layout=AS_IS,
    ):
        """See the class."""
        check_shape(self, "query", query, layout.axes)
        # The length of a query in rows is unknown; assume the length of the keys.
        query_length = None if value is None or layout is not AS_IS else ops.shape(query)[1]
        value, value_layout = (query, layout) if value is None else (value, AS_IS)
        # Keras itself passes masks only to a layer with several input tensors.
        query_mask = get_keras_mask(query) if query_mask is None else query_mask
        value_mask = get_keras_mask(value) if value_mask is None else value_mask
        if key is not None:
            key_mask = get_keras_mask(key) if key_mask is None else key_mask
            check_shape(self, "key", key, ("batch", value.shape[1] or "key length", "width"))
        part = self.keys_and_values(value, value_layout, key=key)
        masks = query_mask, value_mask, key_mask, attention_mask
        positions = None
        if use_causal_mask:
            positions = ops.arange(_key_length(part) if query_length is None else query_length)
        return self.attend(
            query,
            [part],
            self.visible(part, *masks, causal_positions=positions),
            layout=layout,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def keys_and_values(self, value, layout=AS_IS, position=None, key=None):
        """Projects keys and values; decoding caches the result.

        Args:
          value: [batch, key length, width], or in another layout.
          layout: the `Layout` of `value`.
          position: see `rotate`.
          key: [batch, key length, width], from which keys are made; default `value`.

        Returns:
          {"key": [batch, heads, key length, d_k], "value": [batch, heads, key length, d_v]}.
        """
        check_shape(self, "value", value, layout.axes)
        key, key_layout = (value, layout) if key is None else (key, AS_IS)
        check_shape(self, "key", key, key_layout.axes)
        keys = self._split_heads(key, self.key_projection, self.key_dim, key_layout)
        return {
            "key": rotate(keys, position, self.table_length) if self.rotary else keys,
            "value": self._split_heads(value, self.value_projection, self.value_dim, layout),
        }

    def visible(
        self,
        part,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        causal_positions=None,
    ):
        """Returns which keys each query may attend to; None = all.

        Args:
          part: a result of `keys_and_values`.
          query_mask: see the class.
          value_mask: likewise.
          key_mask: likewise.
          attention_mask: likewise.
          causal_positions: positions of the queries, integers [query length]; a query sees the
            keys up to its own position. None = all queries see all keys.

        Returns:
          Boolean, broadcastable to [batch, heads, query length, key length], or None.
        """
        masks = dict(query_mask=query_mask, value_mask=value_mask, key_mask=key_mask)
        masks = {name: mask for name, mask in masks.items() if mask is not None}
        key_axis, conditions = part["key"].shape[2] or "keys", []
        for name, mask in masks.items():
            is_query_mask = name == "query_mask"
            shape = "batch", "queries" if is_query_mask else key_axis
            mask = self._boolean_mask(name, mask, shape)
            conditions.append(ops.expand_dims(mask, axis=(1, 3) if is_query_mask else (1, 2)))
        if causal_positions is not None:
            conditions.append(_key_offsets(part, causal_positions) <= 0)
        if attention_mask is not None:
            score_axes = "queries", key_axis
            shapes = score_axes, ("batch", *score_axes), ("batch", self.num_heads, *score_axes)
            mask = self._boolean_mask("attention_mask", attention_mask, *shapes)
            rank = len(mask.shape)
            conditions.append(ops.expand_dims(mask, axis=1) if rank == 3 else mask)
        return functools.reduce(ops.logical_and, conditions) if conditions else None

    def _boolean_mask(self, name, mask, *shapes):
        """Converts a mask (a tensor or lists of booleans or integers) to a boolean tensor."""
        mask = ops.convert_to_tensor(mask)
        check_no_floats(self, name, mask)
        check_shape(self, name, mask, *shapes)
        return ops.cast(mask, "bool")

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
          parts: results of `keys_and_values`, in the order of the mask's keys. Attention to several
            parts has no dropout.
          mask: boolean, broadcastable to [batch, heads, query length, length of all keys]; True =
            visible.
          position: position of the query, see `rotate`.
          layout: the `Layout` of the query.
          return_attention_scores: see the class.
          training: likewise.

        Returns:
          See the class.
        """
        queries = self._project_queries(query, layout, position)
        # A search starts with a part that has no keys.
        parts = [part for part in parts if part["key"].shape[-2] != 0] or parts[:1]
        if len(parts) == 1:
            options = dict(dropout=self.attention_dropout, training=training)
            heads, weights = scaled_dot_product_attention(queries, **parts[0], mask=mask, **options)
        else:
            heads, weights = attention_over_parts(queries, parts, mask)
        output = self._join_heads(heads, layout)
        return (output, weights) if return_attention_scores else output

    def _project_queries(self, x, layout, position=None):
        check_shape(self, "query", x, layout.axes)
        queries = self._split_heads(x, self.query_projection, self.key_dim, layout)
        return rotate(queries, position, self.table_length) if self.rotary else queries

    def _split_heads(self, x, projection, width, layout):
        row_layout = projection_layout(x, layout)
        x = x if row_layout is layout else row_layout.pack(x)
        heads = row_layout.unpack(projection(x), self.num_heads, width)
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, heads, layout):
        heads = ops.transpose(heads, (0, 2, 1, 3))
        row_layout = projection_layout(heads, layout)
        output = self.output_projection(row_layout.pack(heads, self.num_heads * self.value_dim))
        return output if row_layout is layout else row_layout.unpack(output)

    # Symbolic tensors pass through `call`, which may return weights too and refuses wrong shapes.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the constructor's arguments."""
        names = ("num_heads", "key_dim", "value_dim", "use_bias", "seed", "rotary", "table_length")
        config = {name: getattr(self, name) for name in names}
        config["dropout"] = self.attention_dropout.rate
        return {**super().get_config(), **config, **serialize_weight_options(self._weight_options)}


@keras.saving.register_keras_serializable(package="t2t_keras")
class RestrictedSelfAttention(MultiHeadAttention):
    """Self-attention in which position i sees the positions j with |i - j| <= radius (section 4).

    It costs r·n·d for r = 2·radius + 1, where `MultiHeadAttention` costs n²·d. With an
    `attention_mask`, or if the attention weights are returned, it computes all n² weights.

    Args:
      radius: at least 1.
      num_heads: this and the remaining arguments are those of `MultiHeadAttention`.

    Call arguments:
      query: [batch, length, d_model], or in another layout; `value` and `key` may only be
        the same tensor.
      query_mask: this and the remaining arguments are those of `MultiHeadAttention`.

    Returns:
      See `MultiHeadAttention`.
    """

    def __init__(
        self,
        radius: int,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        seed: int | None = None,
        rotary: bool = False,
        table_length: int = 0,
        **kwargs: Any,
    ):
        sizes = num_heads, key_dim, value_dim
        super().__init__(*sizes, dropout, use_bias, seed, rotary, table_length, **kwargs)
        self.radius = radius
        check_sizes(self, radius=1)

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        layout=AS_IS,
    ):
        """See the class."""
        if value is not None or key is not None:
            raise UserError(
                "RestrictedSelfAttention: expected self-attention, got a value or a key that is "
                "not the query. Use MultiHeadAttention.",
                code="bad_value",
            )
        keras_mask = get_keras_mask(query)
        query_mask = keras_mask if query_mask is None else query_mask
        value_mask = keras_mask if value_mask is None else value_mask
        options = dict(use_causal_mask=use_causal_mask, training=training)
        if attention_mask is not None or return_attention_scores:
            masks = query_mask, value_mask, key_mask, attention_mask
            options |= dict(return_attention_scores=return_attention_scores, layout=layout)
            return super().call(query, None, None, *masks, **options)
        queries, part = self._project_queries(query, layout), self.keys_and_values(query, layout)
        # Turn [batch, 1, 1, length] into [batch, length].
        visible = super().visible(part, None, value_mask, key_mask)
        mask = None if visible is None else visible[:, 0, 0]
        heads = restricted_self_attention(
            queries,
            **part,
            radius=self.radius,
            mask=mask,
            causal=use_causal_mask,
            dropout=self.attention_dropout,
            training=training,
        )
        if query_mask is not None:
            is_token = super().visible(part, query_mask)
            heads = ops.where(is_token, heads, ops.zeros_like(heads))
        return self._join_heads(heads, layout)

    def visible(self, part, *masks, **options):
        """See `MultiHeadAttention`."""
        is_near = ops.abs(_key_offsets(part, ops.arange(_key_length(part)))) <= self.radius
        visible = super().visible(part, *masks, **options)
        return is_near if visible is None else ops.logical_and(visible, is_near)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "radius": self.radius}


def restricted_self_attention(
    query, key, value, radius, mask=None, causal=False, dropout=None, training=None
):
    """Attention in which position i sees the positions j with |i - j| <= radius.

    The paper's neighbourhood of size r, centred on the position, has r = 2·radius + 1. Positions
    are split into blocks at least as long as the radius, so that a block attends only to itself and
    the adjacent blocks; positions too far away or outside the sentence are masked. A sentence
    shorter than a block is one block. A query without any visible key gets zeros.

    Args:
      query: [batch, heads, length, d_k].
      key: [batch, heads, length, d_k].
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
    size = block_length(radius, length)
    blocks = (length + size - 1) // size
    neighbours = 1 if causal else 2
    mask = ops.ones((batch, length), "bool") if mask is None else ops.cast(mask, "bool")

    # Whatever the length, pad size - 1 positions on the right, then cut what exceeds the last
    # block: while a graph is built, the length may be unknown.
    def split(x):
        x = ops.pad(x, [[0, 0], [0, 0], [0, size - 1], [0, 0]])[:, :, : blocks * size]
        return ops.reshape(x, (batch, heads, blocks, size, x.shape[-1]))

    def gather_neighbours(x):
        _, num_heads, _, *widths = ops.shape(x)
        after = size - 1 if causal else 2 * size - 1
        x = ops.pad(x, [[0, 0], [0, 0], [size, after]] + [[0, 0]] * len(widths))
        x = x[:, :, : (blocks + neighbours) * size]
        x = ops.reshape(x, (batch, num_heads, blocks + neighbours, size, *widths))
        return ops.concatenate([x[:, :, i : blocks + i] for i in range(neighbours + 1)], axis=3)

    offsets = ops.arange(-size, size if causal else 2 * size) - ops.arange(size)[:, None]
    is_near = ops.logical_and(offsets >= -radius, offsets <= (0 if causal else radius))
    # [batch, 1, blocks, query, key].
    neighbour_mask = gather_neighbours(ops.expand_dims(mask, axis=1))
    visible = ops.logical_and(ops.expand_dims(neighbour_mask, axis=3), is_near)
    output, _ = scaled_dot_product_attention(
        split(query), gather_neighbours(key), gather_neighbours(value), visible, dropout, training
    )
    output = ops.reshape(output, (batch, heads, blocks * size, value.shape[-1]))
    return output[:, :, :length]


def block_length(radius, length):
    """Returns the number of positions in a block; the sentences' `length` may be a tensor."""
    block = max(radius, _MIN_BLOCK_LENGTH)
    if isinstance(length, int):
        return max(min(block, length), 1)
    # JAX export passes a symbolic dimension, neither int nor tensor.
    return ops.clip(length, 1, block) if ops.is_tensor(length) else block
