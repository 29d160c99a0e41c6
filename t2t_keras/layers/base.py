"""What most layers here share."""

import keras
from keras import ops


class ShapePreservingLayer(keras.layers.Layer):
    """A layer whose output has the shape and the Keras mask of its first input.

    If a subclass is constructed from numbers and booleans only, Keras derives `get_config` from
    them, and `.keras` files load again.
    """

    def __new__(cls, *args, **kwargs):
        """Lets Keras derive `get_config` where the type is given as a policy object."""
        if isinstance(kwargs.get("dtype"), keras.DTypePolicy):
            kwargs["dtype"] = kwargs["dtype"].name
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, x_shape, *_):
        """Returns the shape of the first input."""
        return x_shape

    def dropout_layer(self, rate):
        """Returns a dropout layer that computes in this layer's type."""
        return keras.layers.Dropout(rate, dtype=self.dtype_policy)


def normal_initializer(d_model):
    """Returns N(0, d_model^-0.5), as tensor2tensor has it: times sqrt(d_model), variance is 1."""
    return keras.initializers.RandomNormal(stddev=d_model**-0.5)


def project(x, weights):
    """Returns x [..., width] times weights [width, new width], in the type of x.

    Keras casts weights by itself only inside `__call__`, which decoding does not go through.
    """
    return ops.matmul(x, ops.cast(weights, x.dtype))
