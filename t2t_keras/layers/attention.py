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
    PaperLayer,
    check_shape,
    check_sizes,
    pop_alias,
    project,
)
from t2t_keras.layers.embedding import rotate

# In place of the paper's -inf: its exponential is exactly 0 in float32, and a row without any
# visible key stays finite.
_HIDDEN_SCORE = -1e9
# The products of shorter blocks cost more to launch than to compute.
_MIN_BLOCK_LENGTH = 16


def scaled_dot_product_attention(
    query, key, value, mask=None, dropout=None, training=None, past=None
):
    """softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, equation 1).

    The softmax is computed in float32. A query without any visible key gets zeros.

    Args:
      query: [..., query length, d_k].
      key: [..., key length, d_k].
      value: [..., key length, d_v].
      mask: boolean, broadcastable to [..., query length, length of past and keys]; True = visible.
      dropout: a layer applied to the attention weights, or None.
      training: whether `dropout` acts.
      past: earlier keys and values, {"key", "value"}. They are not copied to join them with the
        others, as that would take longer than the attention of a few queries. In a graph, only
        the length of the past may be unknown.

    Returns:
      [..., query length, d_v], and the weights [..., query length, length of past and keys].
    """
    query = query * query.shape[-1] ** -0.5
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
    if past is not None:
        past_scores = ops.matmul(query, ops.swapaxes(past["key"], -1, -2))
        scores = ops.concatenate([past_scores, scores], axis=-1)
    scores = ops.cast(scores, "float32")
    scores = scores if mask is None else ops.where(mask, scores, _HIDDEN_SCORE)
    weights = ops.softmax(scores, axis=-1)
    weights = ops.cast(weights if mask is None else ops.where(mask, weights, 0.0), value.dtype)
    if dropout is not None:
        weights = dropout(weights, training=training)
    if past is None:
        return ops.matmul(weights, value), weights
    length = key.shape[-2]
    past_output = ops.matmul(weights[..., :-length], past["value"])
    return past_output + ops.matmul(weights[..., -length:], value), weights


@keras.saving.register_keras_serializable(package="t2t_keras")
class MultiHeadAttention(PaperLayer):
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

    _weights_with_options = ("kernel", "bias")

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

        def make(name, width, new_width, fan_sum):
            limit = (6 / fan_sum) ** 0.5
            glorot = keras.initializers.RandomUniform(-limit, limit)
            options = dict(kernel_initializer=glorot, use_bias=self.use_bias)
            return self._make_projection(name, width, new_width, **options)

        # With three separate Glorot matrices, averages over a sentence are larger, and its
        # positions become more alike from layer to layer: attention is learned late or never.
        fan_sum = d_model + 2 * keys_width + values_width
        self.query_projection = make("query", d_model, keys_width, fan_sum)
        self.key_projection = make("key", key_width, keys_width, fan_sum)
        self.value_projection = make("value", value_width, values_width, fan_sum)
        self.output_projection = make("output", values_width, d_model, values_width + d_model)

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
        keys_values = self.keys_and_values(value, value_layout, key=key)
        masks = query_mask, value_mask, key_mask, attention_mask
        positions = None
        if use_causal_mask:
            key_length = ops.shape(keys_values["key"])[2]
            positions = ops.arange(key_length if query_length is None else query_length)
        return self.attend(
            query,
            keys_values,
            self.visible(keys_values, *masks, causal_positions=positions),
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
        return {
            "key": self._heads(key, self.key_projection, key_layout, position, self.rotary),
            "value": self._heads(value, self.value_projection, layout),
        }

    def visible(
        self,
        keys_values,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        causal_positions=None,
    ):
        """Returns which keys each query may attend to; None = all.

        Args:
          keys_values: a result of `keys_and_values`.
          query_mask: see the class.
          value_mask: likewise.
          key_mask: likewise.
          attention_mask: likewise.
          causal_positions: positions of the queries, integers [query length]; a query sees the
            keys up to its own position. None = all queries see all keys.

        Returns:
          Boolean, broadcastable to [batch, heads, query length, key length], or None.
        """
        conditions, key_axis = [], keys_values["key"].shape[2] or "keys"
        axes = "queries", key_axis
        score_shapes = [axes, ("batch", *axes), ("batch", self.num_heads, *axes)]
        for name, mask, shapes, new_axes in (
            ("query_mask", query_mask, [("batch", "queries")], (1, 3)),
            ("value_mask", value_mask, [("batch", key_axis)], (1, 2)),
            ("key_mask", key_mask, [("batch", key_axis)], (1, 2)),
            ("attention_mask", attention_mask, score_shapes, (1,)),
        ):
            if mask is None:
                continue
            mask = ops.convert_to_tensor(mask)
            if "float" in keras.backend.standardize_dtype(mask.dtype):
                raise UserError(
                    f"{type(self).__name__}: expected a boolean {name}, True = visible, got "
                    f"floats. Give {name} != 0 if 1 means visible, or {name} == 0 if it is a bias "
                    f"added to logits, like tensor2tensor's.",
                    code="float_mask",
                )
            check_shape(self, name, mask, *shapes)
            mask = ops.cast(mask, "bool")
            has_all_axes = name == "attention_mask" and len(mask.shape) != 3
            conditions.append(mask if has_all_axes else ops.expand_dims(mask, new_axes))
        if causal_positions is not None:
            key_positions = ops.arange(ops.shape(keys_values["key"])[2])
            conditions.append(key_positions <= ops.expand_dims(causal_positions, axis=1))
        return functools.reduce(ops.logical_and, conditions) if conditions else None

    def attend(
        self,
        query,
        keys_values,
        mask=None,
        position=None,
        layout=AS_IS,
        return_attention_scores=False,
        training=None,
        past=None,
    ):
        """Attends to keys and values that are already projected.

        Args:
          query: [batch, query length, d_model], or in another layout.
          keys_values: a result of `keys_and_values`.
          mask: boolean, broadcastable to [batch, heads, query length, key length]; True = visible.
          position: position of the query, see `rotate`.
          layout: the `Layout` of the query.
          return_attention_scores: see the class.
          training: likewise.
          past: see `scaled_dot_product_attention`.

        Returns:
          See the class.
        """
        check_shape(self, "query", query, layout.axes)
        queries = self._heads(query, self.query_projection, layout, position, self.rotary)
        options = dict(dropout=self.attention_dropout, training=training, past=past)
        heads, weights = scaled_dot_product_attention(queries, **keys_values, mask=mask, **options)
        heads = layout.pack(ops.transpose(heads, (0, 2, 1, 3)), self.num_heads * self.value_dim)
        output = project(self.output_projection, heads)
        return (output, weights) if return_attention_scores else output

    def _heads(self, x, projection, layout, position=None, is_rotated=False):
        """Returns x times W^Q, W^K or W^V, as [batch, heads, length, width]."""
        width = projection.units // self.num_heads
        heads = layout.unpack(project(projection, x), self.num_heads, width)
        heads = ops.transpose(heads, (0, 2, 1, 3))
        return rotate(heads, position, self.table_length) if is_rotated else heads

    # Symbolic tensors pass through `call`, which may return weights too and refuses wrong shapes.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the constructor's arguments."""
        names = ("num_heads", "key_dim", "value_dim", "use_bias", "seed", "rotary", "table_length")
        config = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **config, "dropout": self.attention_dropout.rate}


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
        check_shape(self, "query", query, layout.axes)
        queries = self._heads(query, self.query_projection, layout, None, self.rotary)
        keys_values = self.keys_and_values(query, layout)
        # Turn [batch, 1, 1, length] into [batch, length].
        visible = super().visible(keys_values, None, value_mask, key_mask)
        mask = None if visible is None else visible[:, 0, 0]
        heads = restricted_self_attention(
            queries,
            **keys_values,
            radius=self.radius,
            mask=mask,
            causal=use_causal_mask,
            dropout=self.attention_dropout,
            training=training,
        )
        if query_mask is not None:
            is_token = super().visible(keys_values, query_mask)
            heads = ops.where(is_token, heads, ops.zeros_like(heads))
        heads = layout.pack(ops.transpose(heads, (0, 2, 1, 3)), self.num_heads * self.value_dim)
        return project(self.output_projection, heads)

    def visible(self, keys_values, *masks, **options):
        """See `MultiHeadAttention`."""
        positions = ops.arange(ops.shape(keys_values["key"])[2])
        is_near = ops.abs(positions - ops.expand_dims(positions, axis=1)) <= self.radius
        visible = super().visible(keys_values, *masks, **options)
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
