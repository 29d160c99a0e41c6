"""Attention over parameters, in the place of the feed-forward network."""

import keras
from keras import ops

from t2t_keras.layers.scaled_dot_product import scaled_dot_product_attention


@keras.saving.register_keras_serializable(package="t2t_keras")
class ParameterAttention(keras.layers.Layer):
    """Multi-head attention whose keys and values are trained parameters, the same for all inputs.

    From the paper's source, "Two Feed-Forward Layers = Attention over Parameters": a feed-forward
    network is an attention whose keys are the columns of W_1, whose values are the rows of W_2, and
    whose softmax is a ReLU. Keys and values are scaled by sqrt(d_model), as embeddings are.

    Args:
      num_heads: h_p.
      num_pairs: n_p, pairs of a key and a value in each head.
      d_k: d_pk, width of queries and keys.
      d_v: d_pv, width of values; default d_k.
      dropout: share of attention weights dropped (0 in the paper).

    Call arguments:
      x: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    def __init__(self, num_heads, num_pairs, d_k, d_v=None, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_pairs = num_pairs
        self.d_k = d_k
        self.d_v = d_v or d_k
        self.supports_masking = True
        self.attention_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape):
        """Makes the two projections, the keys and the values."""
        d_model, heads = input_shape[-1], self.num_heads
        as_embeddings = keras.initializers.RandomNormal(stddev=d_model**-0.5)
        self.query_projection = self.add_weight(
            name="query", shape=(d_model, heads * self.d_k), initializer="glorot_uniform"
        )
        self.keys = self.add_weight(
            name="keys", shape=(self.num_pairs, heads, self.d_k), initializer=as_embeddings
        )
        self.values = self.add_weight(
            name="values", shape=(self.num_pairs, heads, self.d_v), initializer=as_embeddings
        )
        self.output_projection = self.add_weight(
            name="output", shape=(heads * self.d_v, d_model), initializer="glorot_uniform"
        )

    def call(self, x, training=None):
        """See the class."""
        lead = ops.shape(x)[:-1]
        scale = x.shape[-1] ** 0.5
        # All positions of all sentences are queries of one attention.
        query = ops.matmul(x, ops.cast(self.query_projection, x.dtype))
        query, key, value = (
            ops.transpose(ops.cast(each, x.dtype), (1, 0, 2))
            for each in (
                ops.reshape(query, (-1, self.num_heads, self.d_k)),
                self.keys * scale,
                self.values * scale,
            )
        )
        heads, _ = scaled_dot_product_attention(
            query, key, value, dropout=self.attention_dropout, training=training
        )
        concatenated = ops.reshape(
            ops.transpose(heads, (1, 0, 2)), (*lead, self.num_heads * self.d_v)
        )
        return ops.matmul(concatenated, ops.cast(self.output_projection, x.dtype))

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return input_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_pairs": self.num_pairs,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.attention_dropout.rate,
        }
