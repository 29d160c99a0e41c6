"""Layer normalisation (section 3.1; Ba et al., 2016) with a gradient of few operations."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class LayerNormalization(keras.layers.LayerNormalization):
    """gamma · (x - mean) / sqrt(variance + epsilon) + beta, over the last axis, in float32.

    It has the weights and the values of Keras's layer. What is derived from that layer's many small
    operations reads and writes x half as often again.

    Call arguments:
      x: [..., d_model].

    Returns:
      [..., d_model].
    """

    def call(self, x):
        """See the class."""
        gamma, beta = (ops.cast(each, "float32") for each in (self.gamma, self.beta))
        normalized = _standardized(ops.cast(x, "float32"), self.epsilon) * gamma + beta
        return ops.cast(normalized, self.compute_dtype)


def _standardized(x, epsilon):
    """Returns x with mean 0 and variance 1 over the last axis."""

    @ops.custom_gradient
    def standardized(x):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + epsilon)
        y = centred * scale

        def gradient(upstream):
            mean = ops.mean(upstream, axis=-1, keepdims=True)
            along_y = ops.mean(upstream * y, axis=-1, keepdims=True)
            return (upstream - mean - y * along_y) * scale

        return y, gradient

    return standardized(x)
