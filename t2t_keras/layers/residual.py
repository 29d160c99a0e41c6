"""Residual connection, dropout and layer normalisation around a sub-layer (sections 3.1, 5.4)."""

from typing import Any

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.layers.base import ShapePreservingLayer


@keras.saving.register_keras_serializable(package="t2t_keras")
class Residual(ShapePreservingLayer):
    """LayerNorm(x + Dropout(Sublayer(x))) (section 3.1; dropout: section 5.4).

    With `pre_norm`, tensor2tensor's later x + Dropout(Sublayer(LayerNorm(x))) instead. Either is
    x = residual(x, sublayer(residual.sublayer_input(x))), which `around` computes.

    Args:
      dropout: share of the sub-layer's output dropped.
      pre_norm: whether the sub-layer's input is normalised instead of the sum.
      epsilon: that of the layer normalisation.

    Call arguments:
      x: [..., d_model], the sum that the sub-layer adds to.
      sublayer_output: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    def __init__(
        self, dropout: float = 0.0, pre_norm: bool = False, epsilon: float = 1e-6, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.pre_norm = pre_norm
        self.dropout = self.dropout_layer(dropout)
        self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy, name="norm")

    def build(self, x_shape, sublayer_output_shape=None):
        """Makes the scale and the offset of the layer normalisation."""
        self.norm.build(x_shape)

    def sublayer_input(self, x):
        """Returns what the sub-layer reads: x, or LayerNorm(x) with `pre_norm`."""
        return self.norm(x) if self.pre_norm else x

    def around(self, sublayer, x, training=None):
        """Returns the sum after a sub-layer, given as a layer or a function with its arguments."""
        output = sublayer(self.sublayer_input(x), training=training)
        return self(x, output, training=training)

    def call(self, x, sublayer_output, training=None):
        """See the class."""
        x = x + self.dropout(sublayer_output, training=training)
        return x if self.pre_norm else self.norm(x)


@keras.saving.register_keras_serializable(package="t2t_keras")
class LayerNormalization(keras.layers.LayerNormalization):
    """gamma · (x - mean) / sqrt(variance + epsilon) + beta, over the last axis, in float32.

    It has the weights and the values of Keras's layer, but a gradient of few operations: the one
    derived from that layer's many small ones reads and writes x half as often again.

    Call arguments:
      x: [..., d_model].
      training: whether a gradient will be asked for; without, it is the one derived.

    Returns:
      [..., d_model].
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        fixed = {"center": True, "scale": True, "rms_scaling": False}
        changed = [name for name, value in fixed.items() if getattr(self, name, value) != value]
        if self.axis not in (-1, [-1]):
            changed.append("axis")
        if changed:
            raise UserError(
                f"LayerNormalization always has a scale and an offset over the last axis: expected "
                f"the defaults of {' and '.join(changed)}. Use Keras's layer instead.",
                code="no_such_argument",
            )

    def call(self, x, training=None):
        """See the class."""

        def standardized(x):
            centred = x - _mean(x)
            scale = ops.rsqrt(_mean(ops.square(centred)) + self.epsilon)
            y = centred * scale

            def gradient(upstream):
                return (upstream - _mean(upstream) - y * _mean(upstream * y)) * scale

            return y, gradient

        # TensorFlow keeps a graph with such a gradient for ever: none that only computes has one.
        own = ops.custom_gradient(standardized) if training else lambda x: standardized(x)[0]
        gamma, beta = (ops.cast(each, "float32") for each in (self.gamma, self.beta))
        normalized = own(ops.cast(x, "float32")) * gamma + beta
        return ops.cast(normalized, self.compute_dtype)


def _mean(x):
    return ops.mean(x, axis=-1, keepdims=True)
