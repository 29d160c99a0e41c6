"""Multi-head attention (section 3.2.2)."""

import keras
from keras import ops

from t2t_keras.layers.attention_record import is_recorded, record_attention
from t2t_keras.layers.restricted_attention import restricted_self_attention
from t2t_keras.layers.scaled_dot_product import (
    attention_mask,
    attention_over_parts,
    scaled_dot_product_attention,
)


@keras.saving.register_keras_serializable(package="t2t_keras")
class MultiHeadAttention(keras.layers.Layer):
    """Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Section 3.2.2. The projections have no biases, and h·d_k need not equal d_model. W^Q, W^K and
    W^V are initialised as one Glorot uniform matrix, side by side, as the lineage first had them.

    Args:
      num_heads: h.
      d_k: width of each head's queries and keys.
      d_v: width of each head's values; default d_k.
      dropout: share of attention weights dropped (0 in the paper).
      radius: in self-attention, position i sees positions j with |i - j| <= radius only (section 4,
        restricted self-attention); 0 = all.

    Call arguments:
      query: [batch, query length, d_model].
      value: [batch, key length, width] that keys and values are made from; default `query`
        (self-attention).
      mask: boolean, True = legal; [batch, key length], or [batch, query length, key length].
        Default: the Keras mask of `value`. With a radius, [batch, length].
      causal: whether position i may attend to positions up to i only (section 3.2.3). Needs a
        query and a value of the same length.
      packing: where the tokens of `query` stand, if it is packed (see `Packing`); then `mask` must
        be given, unless `causal` already hides all padding.
      value_packing: the same of `value`; in self-attention, `packing`.
      training: whether dropout acts.

    Returns:
      [batch, query length, d_model], or packed as `query` is.

    Example:
      >>> x = keras.random.normal((2, 5, 512))
      >>> MultiHeadAttention(num_heads=8, d_k=64)(x, causal=True).shape
      (2, 5, 512)
    """

    def __init__(self, num_heads, d_k, d_v=None, dropout=0.0, radius=0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v or d_k
        self.radius = radius
        self.supports_masking = True
        self.attention_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape, value_shape=None):
        """Makes W^Q, W^K, W^V (each for all heads side by side) and W^O."""
        d_model, width = query_shape[-1], (value_shape or query_shape)[-1]
        keys, values = self.num_heads * self.d_k, self.num_heads * self.d_v
        # Three Glorot matrices would make what is averaged over a sentence larger, and with it the
        # positions of a sentence more alike from layer to layer: attention is then learned late, or
        # never.
        limit = (6 / (d_model + 2 * keys + values)) ** 0.5
        self.query_projection = self._add_projection("query", d_model, keys, limit)
        self.key_projection = self._add_projection("key", width, keys, limit)
        self.value_projection = self._add_projection("value", width, values, limit)
        limit = (6 / (values + d_model)) ** 0.5
        self.output_projection = self._add_projection("output", values, d_model, limit)

    def _add_projection(self, name, width_in, width_out, limit):
        initializer = keras.initializers.RandomUniform(-limit, limit)
        return self.add_weight(name=name, shape=(width_in, width_out), initializer=initializer)

    def call(
        self,
        query,
        value=None,
        mask=None,
        query_mask=None,
        value_mask=None,
        causal=False,
        packing=None,
        value_packing=None,
        training=None,
    ):
        """See the class."""
        restricted = self.radius and value is None
        if value is None:
            value, value_packing = query, packing
        if mask is None:
            mask = value_mask
        queries = self._queries(query, packing)
        keys_and_values = self.keys_and_values(value, value_packing)
        if restricted and not is_recorded():
            heads = restricted_self_attention(
                queries,
                **keys_and_values,
                radius=self.radius,
                mask=None if mask is None else ops.cast(mask, "bool"),
                causal=causal,
                dropout=self.attention_dropout,
                training=training,
            )
        else:
            radius = self.radius if restricted else 0
            length = ops.shape(queries)[2] if causal or radius else None
            heads, weights = scaled_dot_product_attention(
                queries,
                **keys_and_values,
                mask=attention_mask(mask, length, causal, radius),
                dropout=self.attention_dropout,
                training=training,
            )
            record_attention(self, weights)
        return self._join_heads(heads, packing)

    def keys_and_values(self, x, packing=None):
        """Projects what is attended to.

        Args:
          x: [batch, key length, width].
          packing: where the tokens stand, if x is packed.

        Returns:
          {"key": [batch, heads, key length, d_k], "value": [batch, heads, key length, d_v]}; in
          decoding these are computed once for each position and kept.
        """
        return {
            "key": self._split_heads(x, self.key_projection, self.d_k, packing),
            "value": self._split_heads(x, self.value_projection, self.d_v, packing),
        }

    def attend(self, query, kept, mask=None):
        """Attends to keys and values that are already projected.

        Args:
          query: [batch, query length, d_model].
          kept: parts as `keys_and_values` returns them, the keys of which follow each other.
          mask: boolean, broadcastable to [batch, heads, query length, length of all keys]; True =
            legal.

        Returns:
          [batch, query length, d_model].
        """
        heads, weights = attention_over_parts(self._queries(query), kept, mask)
        record_attention(self, weights)
        return self._join_heads(heads)

    def _queries(self, x, packing=None):
        return self._split_heads(x, self.query_projection, self.d_k, packing)

    def _split_heads(self, x, weights, width, packing):
        projected = self._project(x, weights)
        lead = ops.shape(x)[:2] if packing is None else (-1,)
        heads = ops.reshape(projected, (*lead, self.num_heads, width))
        if packing is not None:
            heads = packing.unpack(heads)
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, heads, packing=None):
        heads = ops.transpose(heads, (0, 2, 1, 3))
        lead = ops.shape(heads)[:2] if packing is None else (-1,)
        if packing is not None:
            heads = packing.pack(heads)
        concatenated = ops.reshape(heads, (*lead, self.num_heads * self.d_v))
        return self._project(concatenated, self.output_projection)

    def _project(self, x, weights):
        # Keras casts weights by itself only inside `__call__`; decoding calls the parts.
        return ops.matmul(x, ops.cast(weights, x.dtype))

    def compute_mask(self, query, previous_mask=None):
        """Positions keep the mask of the query (`previous_mask` can be that of the keys)."""
        return getattr(query, "_keras_mask", None)

    def compute_output_shape(self, query_shape, value_shape=None):
        """The shape of the query."""
        return query_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.attention_dropout.rate,
            "radius": self.radius,
        }
