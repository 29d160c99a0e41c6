"""What layers share: layouts of batches, dropout, and checks of arguments."""

import numbers
from typing import Any, Self

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.special_ids import PADDING_ID

# What Keras's and KerasHub's layers call arguments that have the paper's names here.
_NAMES_ELSEWHERE = {
    "embedding_dim": "d_model",
    "input_dim": "vocab_size",
    "output_dim": "d_model",
    "sequence_length": "max_positions",
    "vocabulary_size": "vocab_size",
}
# What a layer hands on to the `Dense` layers inside, and what reads and writes each.
_WEIGHT_OPTIONS = {
    f"{weight}_{name}": kind
    for name, kind in (
        ("initializer", keras.initializers),
        ("regularizer", keras.regularizers),
        ("constraint", keras.constraints),
    )
    for weight in ("kernel", "bias")
}


class ShapePreservingLayer(keras.layers.Layer):
    """A layer whose output has the shape and the Keras mask of its first input."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Raises `TypeError` with this library's name for another library's argument."""
        refuse_other_names(cls, kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, x_shape):
        """Makes no weights. Keras's summaries take the names of shapes from this signature."""

    def compute_output_shape(self, x_shape=None, *_, **shapes):
        """Returns the shape of the first input, which summaries give by name."""
        return x_shape or next(iter(shapes.values()))


def pop_weight_options(arguments: dict[str, Any], weights: str = "") -> dict[str, Any]:
    """Removes options of weights, such as `kernel_initializer`, from keyword arguments.

    Args:
      arguments: those of a constructor; the options are removed.
      weights: "kernel" or "bias" takes the options of that weight alone; "" takes all.

    Returns:
      Those that were given, as objects of Keras.
    """
    return {
        name: kind.get(arguments.pop(name))
        for name, kind in _WEIGHT_OPTIONS.items()
        if name in arguments and name.startswith(weights)
    }


def clone_weight_options(options: dict[str, Any]) -> dict[str, Any]:
    """Returns `pop_weight_options` for one more layer, whose initialisers are its own."""
    return {
        name: option.from_config(option.get_config())
        if isinstance(option, keras.initializers.Initializer)
        else option
        for name, option in options.items()
    }


def serialize_weight_options(options: dict[str, Any]) -> dict[str, Any]:
    """Returns `pop_weight_options` as `get_config` has them."""
    return {name: _WEIGHT_OPTIONS[name].serialize(option) for name, option in options.items()}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (section 5.4), with the same rate in every type.

    Numbers from 0 to 1 that are drawn in bfloat16 are multiples of 1/128, by which a rate of 0.1
    would be 0.102 and one of 0.4 0.406.
    """

    def call(self, inputs, training=False):
        """See Keras's."""
        if not training or self.rate == 0 or self.compute_dtype == "float32":
            return super().call(inputs, training=training)
        shape = self.noise_shape or ops.shape(inputs)
        drawn = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        return ops.where(drawn < self.rate, 0, inputs / (1 - self.rate))


def refuse_other_names(layer_class, arguments):
    """Raises `TypeError` for an argument that has another name here than in Keras's layers."""
    for name in arguments.keys() & _NAMES_ELSEWHERE.keys():
        raise TypeError(f"{layer_class.__name__} calls '{name}' '{_NAMES_ELSEWHERE[name]}'.")


def pop_alias(layer, arguments, alias, name, value):
    """Takes an argument's other name out of keyword arguments.

    Args:
      layer: the layer, which the error names.
      arguments: those of its constructor; `alias` is removed.
      alias: the other name, such as "d_k".
      name: the argument's own, such as "key_dim".
      value: what was given by that name; None = nothing.

    Returns:
      The value by either name, or None.

    Raises:
      TypeError: there are two.
    """
    if alias not in arguments:
        return value
    if value is not None:
        raise TypeError(f"{type(layer).__name__}: {name} and {alias} are one argument.")
    return arguments.pop(alias)


def normal_initializer(d_model):
    """Returns N(0, d_model^-0.5), as tensor2tensor has it: times sqrt(d_model), variance is 1."""
    return keras.initializers.RandomNormal(stddev=d_model**-0.5)


def check_shape(layer, argument, x, *expected):
    """Raises `UserError` for a shape that a layer might misread in silence.

    Args:
      layer: the layer, which the error names.
      argument: name of the argument.
      x: its value.
      *expected: allowed shapes, of names or known sizes, such as ("batch", "length", 8).
    """
    got = tuple(x.shape)
    for shape in expected:
        sizes = zip(got, shape, strict=False)
        if len(got) == len(shape) and not any(
            isinstance(wanted, int) and size not in (None, wanted) for size, wanted in sizes
        ):
            return
    shapes = " or ".join(f"[{', '.join(map(str, shape))}]" for shape in expected)
    raise UserError(
        f"{type(layer).__name__}: expected {argument} of the shape {shapes}, got {list(got)}. "
        f"Reshape it first.",
        code="bad_shape",
    )


def check_no_floats(layer, name, mask):
    """Raises `UserError` for a mask of floats: in a bias added to logits, 0 means visible."""
    if "float" in keras.backend.standardize_dtype(mask.dtype):
        raise UserError(
            f"{type(layer).__name__}: expected a boolean {name}, True = visible, got floats. "
            f"Give {name} != 0 if 1 means visible, or {name} == 0 if it is a bias added to "
            f"logits, like tensor2tensor's.",
            code="float_mask",
        )


def check_sizes(layer, **minimums):
    """Raises `UserError` for an attribute of a layer below its minimum, or of another type."""
    for name, minimum in minimums.items():
        value = getattr(layer, name)
        kind = numbers.Integral if isinstance(minimum, int) else numbers.Real
        if not isinstance(value, kind) or not value >= minimum:
            noun = "an integer" if kind is numbers.Integral else "a number"
            raise UserError(
                f"{type(layer).__name__}: expected {name}, {noun} >= {minimum}, got {value!r}.",
                code="bad_size",
            )


def build(layer, x_shape):
    """Makes all weights of a layer, even if it would make them at its first call.

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


def seed_states(layer):
    """Returns the states of a layer's seed generators."""
    weights = {id(weight) for weight in layer.non_trainable_weights}
    return [each for each in layer.non_trainable_variables if id(each) not in weights]


class Layout:
    """A batch as it is, [batch, length, ...]; other layouts arrange its positions in rows.

    Everything but attention treats each position alone, so it can run in any layout. Attention
    unpacks queries, keys and values to [batch, length, ...], and packs its result.

    Attributes:
      axes: names of the axes of states in this layout.
    """

    axes: tuple[str, ...] = ("batch", "length", "width")

    def pack(self, x, *shape):
        """Returns x [batch, length, ...] in this layout, or with positions of another shape."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x

    def unpack(self, x, *shape):
        """Returns x in this layout as [batch, length, ...], or with positions of another shape."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x


AS_IS = Layout()


class DenseLayout(Layout):
    """All positions of a batch in rows, one sentence after the other: [batch · length, ...].

    A product of a matrix with [batch, length, width] makes TensorFlow read, cut and join shapes in
    two dozen operators, one with [batch · length, width] in none.

    Args:
      batch: number of sentences, -1 = as many as there are.
      length: number of positions in each.
    """

    axes = ("rows", "width")

    def __init__(self, batch: Any, length: Any):
        self._shape = (batch, length)

    def pack(self, x, *shape):
        """See `Layout`."""
        return ops.reshape(x, (-1, *(shape or x.shape[2:])))

    def unpack(self, x, *shape):
        """See `Layout`."""
        return ops.reshape(x, (*self._shape, *(shape or x.shape[1:])))


class RaggedLayout(Layout):
    """The real tokens of a padded batch in rows, without padding: [tokens, ...].

    The number of tokens depends on the values of the mask: not for `jax.jit` or XLA.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    axes = ("rows", "width")

    def __init__(self, mask: Any):
        self._shape = ops.shape(mask)
        # Keep one position, so that a batch of nothing but padding is not empty.
        first = ops.equal(ops.arange(ops.size(mask), dtype="int32"), 0)
        self._mask = ops.logical_or(mask, ops.reshape(first, self._shape))
        # Both directions are lookups, and each is the gradient of the other: none has to add rows.
        flat = ops.reshape(self._mask, (-1,))
        self._positions = ops.nonzero(flat)[0]
        self._tokens = ops.cumsum(ops.cast(flat, "int32")) - 1

    def pack(self, x, *shape):
        """See `Layout`. For a batch without any token, its first position is kept."""

        @ops.custom_gradient
        def packed(x):
            return self._gather(x), lambda upstream: self._spread(upstream, zero_padding=True)

        tokens = packed(x)
        return ops.reshape(tokens, (-1, *shape)) if shape else tokens

    def unpack(self, x, *shape):
        """See `Layout`.

        Padding gets another token's value, which must not be used: the gradient from there is
        dropped.
        """

        @ops.custom_gradient
        def unpacked(x):
            return self._spread(x), self._gather

        return unpacked(ops.reshape(x, (-1, *shape)) if shape else x)

    def _gather(self, x):
        rows = ops.reshape(x, (-1, *x.shape[2:]))
        return ops.take(rows, self._positions, axis=0)

    def _spread(self, x, zero_padding=False):
        rest = x.shape[1:]
        spread = ops.reshape(ops.take(x, self._tokens, axis=0), (*self._shape, *rest))
        mask = ops.reshape(self._mask, (*self._shape, *[1] * len(rest)))
        return ops.where(mask, spread, ops.zeros_like(spread)) if zero_padding else spread


def layout_of(ids, ragged=False):
    """Returns the layout to compute a batch of ids in.

    Args:
      ids: integers [batch, length].
      ragged: whether padding is left out.

    Returns:
      A `RaggedLayout` or a `DenseLayout`; `AS_IS` for Keras's symbols, whose sizes are unknown.
    """
    if ragged:
        return RaggedLayout(ops.not_equal(ids, PADDING_ID))
    sizes = ops.shape(ids)[:2]
    return AS_IS if any(size is None for size in sizes) else DenseLayout(*sizes)


def rows_of(x, layout):
    """Returns the layout for a projection: rows where x [batch, length, ...] has known sizes.

    On JAX, the gradient of a product with [batch, length, width] takes an eighth longer.
    """
    sizes = ops.shape(x)[:2]
    is_arranged = layout is not AS_IS or any(size is None for size in sizes)
    return layout if is_arranged else DenseLayout(*sizes)
