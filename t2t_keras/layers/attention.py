"""Multi-head attention (section 3.2.2)."""

from typing import Any

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.layers.base import (
    ShapePreservingLayer,
    check_no_floats,
    check_shape,
    check_sizes,
    drawn,
    project,
)
from t2t_keras.layers.packing import Rows
from t2t_keras.layers.position import rotated
from t2t_keras.layers.restricted_attention import restricted_self_attention
from t2t_keras.layers.scaled_dot_product import (
    attention_over_parts,
    is_recorded,
    record_attention,
    scaled_dot_product_attention,
    visible_keys,
)


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
      radius: in self-attention, position i sees positions j with |i - j| <= radius only (section 4,
        restricted self-attention); 0 = all.
      bias: whether the projections have biases (none in the paper).
      rotary: whether queries and keys are turned by their positions; for self-attention.

    Call arguments:
      query: [batch, query length, d_model].
      value: [batch, key length, width] that keys and values are made from; default `query`
        (self-attention).
      mask: boolean, True = visible; [batch, key length], or [batch, query length, key length].
        Default: the Keras mask of `value`. With a radius, [batch, length].
      attention_mask: as in Keras's layer, boolean, broadcastable to [batch, heads, query length,
        key length], where [query length, key length] and [batch, query length, key length] are
        known by their rank. Either mask hides a position; its values must be finite all the same,
        as 0 times NaN or infinity is NaN.
      causal: whether position i may attend to positions up to i only (section 3.2.3). Needs a
        query and a value of the same length.
      packing: the `Packing` of `query`, if it is packed; then `mask` must be given, unless `causal`
        already hides all padding.
      value_packing: that of `value`; in self-attention, `packing`.
      return_attention_scores: whether the attention weights are returned as well.
      training: whether dropout acts.

    Returns:
      [batch, query length, d_model], or packed as `query` is; and the weights after softmax and
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
        radius: int = 0,
        bias: bool = False,
        rotary: bool = False,
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
        self.radius = radius
        self.bias = bias
        self.rotary = rotary
        self.attention_dropout = self.dropout_layer(dropout)
        check_sizes(self, num_heads=1, d_k=1, d_v=1, radius=0)

    def build(self, query_shape, value_shape=None):
        """Makes W^Q, W^K, W^V (each for all heads side by side) and W^O."""
        d_model, width = query_shape[-1], (value_shape or query_shape)[-1]
        keys, values = self.num_heads * self.d_k, self.num_heads * self.d_v

        def projection(name, width, new_width, fans):
            limit = (6 / fans) ** 0.5
            uniform = drawn(keras.initializers.RandomUniform(-limit, limit))
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
        packing=None,
        value_packing=None,
        return_attention_scores=False,
        training=None,
    ):
        """See the class."""
        radius = self.radius if value is None else 0
        if value is None:
            value, value_packing = query, packing
        self._check_shapes(query, packing, value, value_packing)
        mask = value_mask if mask is None else mask
        check_no_floats(self, mask=mask, attention_mask=attention_mask)
        if mask is None and value is query:
            # With an attention_mask beside it, Keras hands on that of no argument called `mask`.
            mask = getattr(query, "_keras_mask", None)
        if mask is not None:
            keys = value.shape[1] if value_packing is None else None
            self._check_mask(mask, "keys" if keys is None else keys, radius)
        queries = self._queries(query, packing=packing)
        inputs = self.keys_and_values(value, value_packing)
        inputs |= dict(dropout=self.attention_dropout, training=training)
        whole = attention_mask is not None or return_attention_scores or is_recorded()
        if radius and not whole:
            inputs |= dict(radius=radius, mask=mask, causal=causal)
            return self._join_heads(restricted_self_attention(queries, **inputs), packing)
        length = ops.shape(queries)[2] if causal or radius else None
        mask = visible_keys(mask, length, causal, radius)
        if attention_mask is not None:
            also = ops.cast(attention_mask, "bool")
            also = also[None, None] if len(also.shape) == 2 else also
            also = also[:, None] if len(also.shape) == 3 else also
            mask = also if mask is None else ops.logical_and(mask, also)
        heads, weights = scaled_dot_product_attention(queries, mask=mask, **inputs)
        record_attention(self, weights)
        joined = self._join_heads(heads, packing)
        return (joined, weights) if return_attention_scores else joined

    def _check_shapes(self, query, packing, value, value_packing):
        if packing is None:
            check_shape(self, "query", query, ("batch", "length", "d_model"))
        if value_packing is None:
            check_shape(self, "value", value, ("batch", "length", "width"))

    def _check_mask(self, mask, keys, radius):
        shapes = [("batch", keys), ("batch", "queries", keys)]
        check_shape(self, "mask", mask, *shapes[: 1 if radius else 2])

    def keys_and_values(self, x, packing=None, position=None):
        """Projects x [batch, key length, width], packed or not; decoding caches what this returns.

        Args:
          x: what keys and values are made from.
          packing: its `Packing`, if it is packed.
          position: of all rows of x, an integer or an int32 scalar; None = 0, 1, 2, ...

        Returns:
          {"key": [batch, heads, key length, d_k], "value": [batch, heads, key length, d_v]}.
        """
        keys = self._split_heads(x, self.key_projection, self.d_k, packing)
        return {
            "key": rotated(keys, position) if self.rotary else keys,
            "value": self._split_heads(x, self.value_projection, self.d_v, packing),
        }

    def attend(self, query, parts, mask=None, position=None, packing=None):
        """Attends to keys and values that are already projected.

        Args:
          query: [batch, query length, d_model], packed or not.
          parts: results of `keys_and_values`, whose keys follow each other.
          mask: boolean, broadcastable to [batch, heads, query length, length of all keys]; True =
            visible.
          position: of all rows of the query; None = 0, 1, 2, ...
          packing: the `Packing` of the query, if it is packed.

        Returns:
          [batch, query length, d_model], or packed as the query is.
        """
        queries = self._queries(query, position, packing)
        heads, weights = attention_over_parts(queries, parts, mask)
        record_attention(self, weights)
        return self._join_heads(heads, packing)

    def _queries(self, x, position=None, packing=None):
        queries = self._split_heads(x, self.query_projection, self.d_k, packing)
        return rotated(queries, position) if self.rotary else queries

    def _split_heads(self, x, projection, width, packing=None):
        if packing is None:
            packing = Rows(*ops.shape(x)[:2])
            x = packing.pack(x)
        heads = packing.unpack(project(projection, x), self.num_heads, width)
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, heads, packing=None):
        heads = ops.transpose(heads, (0, 2, 1, 3))
        lead = ops.shape(heads)[:2] if packing is None else (-1,)
        heads = heads if packing is None else packing.pack(heads)
        concatenated = ops.reshape(heads, (*lead, self.num_heads * self.d_v))
        return project(self.output_projection, concatenated)

    def compute_output_spec(self, query, value=None, *_, return_attention_scores=False, **__):
        """Returns the shapes of a call on symbols."""
        self._check_shapes(query, None, query if value is None else value, None)
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        keys = (query if value is None else value).shape[1]
        shape = (query.shape[0], self.num_heads, query.shape[1], keys)
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def compute_mask(self, query, previous_mask=None):
        """Returns the mask of the query (`previous_mask` can be that of the keys)."""
        return getattr(query, "_keras_mask", None)
