"""What most layers here share."""

import keras

# What Keras's and KerasHub's layers call arguments that have the paper's names here.
_NAMES_ELSEWHERE = {
    "embedding_dim": "d_model",
    "encoder_padding_mask": "memory_mask",
    "encoder_sequence": "memory",
    "intermediate_dim": "d_ff",
    "key_dim": "d_k",
    "normalize_first": "pre_norm",
    "padding_mask": "mask",
    "sequence_length": "max_positions",
    "use_causal_mask": "causal",
    "value_dim": "d_v",
    "vocabulary_size": "vocab_size",
}


class ShapePreservingLayer(keras.layers.Layer):
    """A layer whose output has the shape and the Keras mask of its first input.

    If a subclass is constructed from numbers and booleans only, Keras derives `get_config` from
    them, and `.keras` files load again.
    """

    def __new__(cls, *args, **kwargs):
        """Lets Keras derive `get_config` where the type is given as a policy object."""
        refuse_other_names(cls, kwargs)
        if isinstance(kwargs.get("dtype"), keras.DTypePolicy):
            kwargs["dtype"] = kwargs["dtype"].name
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args, **kwargs):
        """Calls the layer; an argument that has another name here is a `TypeError`."""
        refuse_other_names(type(self), kwargs)
        return super().__call__(*args, **kwargs)

    def build(self, x_shape):
        """Makes no weights; Keras's summaries call shapes as `build` does."""

    def compute_output_shape(self, x_shape=None, *_, **shapes):
        """Returns the shape of the first input; summaries name shapes as `build` does."""
        return x_shape or next(iter(shapes.values()))

    def dropout_layer(self, rate):
        """Returns a dropout layer that computes in this layer's type."""
        return keras.layers.Dropout(rate, dtype=self.dtype_policy)


def refuse_other_names(layer_class, arguments):
    """Raises `TypeError` for an argument that has another name here than in Keras's layers."""
    for name in arguments.keys() & _NAMES_ELSEWHERE.keys():
        raise TypeError(f"{layer_class.__name__} calls '{name}' '{_NAMES_ELSEWHERE[name]}'.")


def normal_initializer(d_model):
    """Returns N(0, d_model^-0.5), as tensor2tensor has it: times sqrt(d_model), variance is 1."""
    return keras.initializers.RandomNormal(stddev=d_model**-0.5)


def build(layer, x_shape):
    """Makes all weights of a layer, also of one that leaves that to its first call.

    Args:
      layer: called with one tensor.
      x_shape: of that tensor.
    """
    # Padding is of no concern to a layer that treats each position alone.
    layer.supports_masking = True
    if type(layer).build is keras.layers.Layer.build:
        layer(keras.KerasTensor(x_shape))
    else:
        layer.build(x_shape)
