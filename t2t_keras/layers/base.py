"""What most layers here share."""

import keras


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
