"""Residual connection, dropout and layer normalisation around a sub-layer (sections 3.1, 5.4)."""

import keras

from t2t_keras.layers.normalization import LayerNormalization


@keras.saving.register_keras_serializable(package="t2t_keras")
class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))) (section 3.1; dropout: section 5.4).

    With `pre_norm`, tensor2tensor's later x + Dropout(Sublayer(LayerNorm(x))) instead:

        x = residual(x, sublayer(residual.sublayer_input(x)))

    is the one or the other.

    Args:
      dropout: share of the sub-layer's output dropped.
      pre_norm: whether the sub-layer's input is normalised, not the sum (False in the paper).

    Call arguments:
      x: [..., d_model], what went into the sub-layer.
      sublayer_output: [..., d_model], what came out of it.
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    def __init__(self, dropout=0.0, pre_norm=False, **kwargs):
        super().__init__(**kwargs)
        self.pre_norm = pre_norm
        self.supports_masking = True
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.norm = LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy, name="norm")

    def build(self, x_shape, sublayer_output_shape=None):
        """Makes the scale and the offset of the layer normalisation."""
        self.norm.build(x_shape)

    def sublayer_input(self, x):
        """Returns what the sub-layer reads: x, or LayerNorm(x) with `pre_norm`."""
        return self.norm(x) if self.pre_norm else x

    def call(self, x, sublayer_output, training=None):
        """See the class."""
        x = x + self.dropout(sublayer_output, training=training)
        return x if self.pre_norm else self.norm(x)

    def compute_mask(self, x, previous_mask=None):
        """Positions keep their mask."""
        return previous_mask

    def compute_output_shape(self, x_shape, sublayer_output_shape=None):
        """The shape of the input."""
        return x_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "dropout": self.dropout.rate,
            "pre_norm": self.pre_norm,
        }
