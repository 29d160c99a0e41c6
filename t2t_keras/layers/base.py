"""Parts that layers share: layouts of batches, dropout, and checks of arguments."""

import numbers
from typing import Any, Self

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.special_ids import PADDING_ID

# Arguments of Keras's and KerasHub's layers, and their names here, as in the paper.
_RENAMED_ARGUMENTS = {
    "embedding_dim": "d_model",
    "input_dim": "vocab_size",
    "output_dim": "d_model",
    "sequence_length": "max_positions",
    "vocabulary_size": "vocab_size",
}
# Options for the `Dense` layers inside a layer, and the Keras modules that (de)serialise them.
_WEIGHT_OPTIONS = {
    f"{weight}_{name}": module
    for name, module in (
        ("initializer", keras.initializers),
        ("regularizer", keras.regularizers),
        ("constraint", keras.constraints),
    )
    for weight in ("kernel", "bias")
}


class PaperArguments(keras.layers.Layer):
    """A layer whose arguments have the paper's names."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Raises `TypeError` for another library's argument name; the error gives the name here."""
        for name in kwargs.keys() & _RENAMED_ARGUMENTS.keys():
            raise TypeError(f"{cls.__name__}: '{name}' is '{_RENAMED_ARGUMENTS[name]}' here.")
        return super().__new__(cls, *args, **kwargs)


class PaperLayer(PaperArguments):
    """A layer whose output has the shape and the Keras mask of its first input.

    A subclass may have projections: `Dense` layers that share the options of their weights.
    """

    # "kernel", "bias": the weights whose options, as `kernel_initializer`, the constructor takes.
    _weights_with_options: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any):
        self._weight_options = {
            name: module.get(kwargs.pop(name))
            for name, module in _WEIGHT_OPTIONS.items()
            if name in kwargs and name.startswith(self._weights_with_options)
        }
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, x_shape):
        """Makes no weights. Keras's summaries take the names of shapes from this signature."""

    def compute_output_shape(self, x_shape=None, *_, **shapes):
        """Returns the shape of the first input, which summaries pass by name."""
        return x_shape or next(iter(shapes.values()))

    def _copy_weight_options(self):
        """Returns the options of weights, with new initialisers, which draw other numbers."""
        return {
            name: option.clone() if isinstance(option, keras.initializers.Initializer) else option
            for name, option in self._weight_options.items()
        }

    def _make_projection(self, name, width, new_width, **options):
        """Returns a `Dense` from `width` to `new_width`; the layer's options replace `options`."""
        options |= self._copy_weight_options()
        dense = keras.layers.Dense(new_width, name=name, dtype=self.dtype_policy, **options)
        dense.build((None, width))
        return dense

    def get_config(self):
        """Returns the constructor's arguments."""
        options = {
            name: _WEIGHT_OPTIONS[name].serialize(option)
            for name, option in self._weight_options.items()
        }
        return {**super().get_config(), **options}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (section 5.4), with the same rate in every type.

    Random numbers in bfloat16 are multiples of 1/128, so that a rate of 0.1 would become 0.102, and
    0.4 would become 0.406. On JAX, bits come from XLA's own generator, which is faster.
    """

    def call(self, inputs, training=False):
        """See `keras.layers.Dropout`."""
        is_on_jax = keras.config.backend() == "jax"
        if not training or self.rate == 0 or (self.compute_dtype == "float32" and not is_on_jax):
            return super().call(inputs, training=training)
        shape, rate = self.noise_shape or ops.shape(inputs), self.rate
        if is_on_jax:
            threshold = round(rate * 2**16)
            dropped, rate = _random_bits(shape, self.seed_generator) < threshold, threshold / 2**16
        else:
            dropped = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator) < rate
        return ops.where(dropped, 0, inputs / (1 - rate))


def _random_bits(shape, seed_generator):
    """Returns random uint16 from XLA's generator, on JAX."""
    import jax

    seed = ops.cast(seed_generator.next(), "uint32")
    key = jax.random.wrap_key_data(ops.concatenate([seed, seed]), impl="rbg")
    return jax.random.bits(key, shape, "uint16")


def pop_alias(layer, arguments, alias, name, value):
    """Removes an argument's alias from keyword arguments, and returns the argument's value.

    Args:
      layer: the layer, which the error names.
      arguments: keyword arguments of its constructor; `alias` is removed.
      alias: the other name, such as "d_k".
      name: the argument's own name, such as "key_dim".
      value: the value given under that name, or None.

    Returns:
      The value given under either name, or None.

    Raises:
      TypeError: both names have a value.
    """
    if alias not in arguments:
        return value
    if value is not None:
        raise TypeError(f"{type(layer).__name__}: pass only one of {name} and its alias {alias}.")
    return arguments.pop(alias)


def check_shape(layer, argument, x, *expected):
    """Raises `UserError` for a shape that a layer might silently misread.

    Args:
      layer: the layer, which the error names.
      argument: name of the argument.
      x: its value.
      *expected: allowed shapes: names or known sizes of axes, such as ("batch", "length", 8).
    """
    x_shape = tuple(x.shape)
    for shape in expected:
        sizes = zip(x_shape, shape, strict=False)
        if len(x_shape) == len(shape) and not any(
            isinstance(wanted, int) and size not in (None, wanted) for size, wanted in sizes
        ):
            return
    shapes = " or ".join(f"[{', '.join(map(str, shape))}]" for shape in expected)
    raise UserError(
        f"{type(layer).__name__}: expected {argument} of the shape {shapes}, got {list(x_shape)}. "
        f"Reshape it first.",
        code="bad_shape",
    )


def check_sizes(layer, **minimums):
    """Raises `UserError` if an attribute of a layer is below its minimum or of another type."""
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
    """Makes all weights of a layer, even if it would make them only at its first call.

    Args:
      layer: a layer that is called with one tensor.
      x_shape: shape of that tensor.
    """
    # A layer that treats each position alone can ignore padding.
    layer.supports_masking = True
    if type(layer).build is keras.layers.Layer.build:
        layer(keras.KerasTensor(x_shape))
    else:
        layer.build(x_shape)


def seed_states(layer):
    """Returns the states of a layer's seed generators."""
    weight_ids = set(map(id, layer.non_trainable_weights))
    return [state for state in layer.non_trainable_variables if id(state) not in weight_ids]


class Layout:
    """An arrangement of a batch's positions: here [batch, length, ...], in subclasses rows.

    Except attention, all computations treat each position alone, and run in any layout. Attention
    unpacks queries, keys and values to [batch, length, ...], and packs its result.

    Attributes:
      axes: names of the axes of states in this layout.
    """

    axes: tuple[str, ...] = ("batch", "length", "width")

    def pack(self, x, *shape):
        """Returns x [batch, length, ...] in this layout; `shape` reshapes each position."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x

    def unpack(self, x, *shape):
        """Returns x in this layout as [batch, length, ...]; `shape` reshapes each position."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x

    def positions(self):
        """Returns each token's position in its sentence, [batch, length]; None = 0, 1, 2, ..."""

    def starts(self, ids):
        """Returns which of `ids` [batch, length] begin a sentence, boolean [batch, length]."""
        return ops.equal(ops.cumsum(ops.ones_like(ids), axis=1), 1)

    def shift_right(self, x, first=0):
        """Returns x [batch, length, ...] one position later; sentences begin with `first`."""
        padding = [[0, 0], [1, 0], *[[0, 0]] * (len(x.shape) - 2)]
        return ops.pad(x[:, :-1], padding, constant_values=first)

    def same_sentence(self, keys):
        """Returns which keys belong to the query's sentence, or to the one with its number.

        `keys` is the keys' layout. Boolean [batch, query length, key length]; None = all keys.
        """


AS_IS = Layout()


class DenseLayout(Layout):
    """All positions of a batch in rows, one sentence after the other: [batch · length, ...].

    TensorFlow multiplies rows by a matrix in one operator. For [batch, length, width] it needs two
    dozen more, which read, split and join shapes.

    Args:
      batch: number of sentences; -1 = inferred.
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


class PackedLayout(DenseLayout):
    """Rows that hold several sentences, one after another (tensor2tensor's "packed").

    Each sentence is computed as if it were alone: its positions begin with 0, and it attends only
    to itself and, in the decoder, to the source sentence with the same number.

    Args:
      sentences: integers [batch, length]: the number of each token's sentence in its row, from 1,
        in ascending order; 0 = padding, at the end of a row.
    """

    def __init__(self, sentences: Any):
        super().__init__(*ops.shape(sentences))
        self._sentences = sentences

    def positions(self):
        """See `Layout`."""
        length = ops.shape(self._sentences)[1]
        before = ops.arange(length) < ops.arange(length)[:, None]
        earlier = ops.logical_and(self.same_sentence(self), before)
        return ops.sum(ops.cast(earlier, "int32"), axis=2)

    def starts(self, ids=None):
        """See `Layout`."""
        previous = ops.pad(self._sentences[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
        return ops.not_equal(self._sentences, previous)

    def shift_right(self, x, first=0):
        """See `Layout`."""
        starts = ops.reshape(self.starts(), (*self._shape, *[1] * (len(x.shape) - 2)))
        return ops.where(starts, ops.cast(first, x.dtype), super().shift_right(x))

    def same_sentence(self, keys):
        """See `Layout`."""
        return ops.equal(self._sentences[:, :, None], keys._sentences[:, None, :])


class RaggedLayout(Layout):
    """The real tokens of a padded batch in rows, without padding: [tokens, ...].

    Not for `jax.jit` or XLA, as the number of tokens depends on the values of the mask.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    axes = ("rows", "width")

    def __init__(self, mask: Any):
        self._shape = ops.shape(mask)
        # Keep one position, so that a batch of nothing but padding is not empty.
        is_first = ops.equal(ops.arange(ops.size(mask), dtype="int32"), 0)
        self._mask = ops.logical_or(mask, ops.reshape(is_first, self._shape))
        # Packing and unpacking are lookups, each the gradient of the other: neither adds up rows.
        flat_mask = ops.reshape(self._mask, (-1,))
        self._token_positions = ops.nonzero(flat_mask)[0]
        self._token_numbers = ops.cumsum(ops.cast(flat_mask, "int32")) - 1

    def pack(self, x, *shape):
        """See `Layout`. If a batch has no tokens, its first position is kept."""

        @ops.custom_gradient
        def gather_tokens(x):
            return self._gather(x), lambda upstream: self._spread(upstream, zero_padding=True)

        tokens = gather_tokens(x)
        return ops.reshape(tokens, (-1, *shape)) if shape else tokens

    def unpack(self, x, *shape):
        """See `Layout`.

        Padding gets a token's value, which must not be used, since its gradient is dropped.
        """

        @ops.custom_gradient
        def spread_tokens(x):
            return self._spread(x), self._gather

        return spread_tokens(ops.reshape(x, (-1, *shape)) if shape else x)

    def _gather(self, x):
        rows = ops.reshape(x, (-1, *x.shape[2:]))
        return ops.take(rows, self._token_positions, axis=0)

    def _spread(self, x, zero_padding=False):
        row_shape = x.shape[1:]
        values = ops.reshape(ops.take(x, self._token_numbers, axis=0), (*self._shape, *row_shape))
        mask = ops.reshape(self._mask, (*self._shape, *[1] * len(row_shape)))
        return ops.where(mask, values, ops.zeros_like(values)) if zero_padding else values


def layout_of(ids, ragged=False, sentences=None):
    """Returns the layout in which to compute with a batch of ids.

    Args:
      ids: integers [batch, length].
      ragged: whether padding is left out.
      sentences: see `PackedLayout`; None = each row is a sentence.

    Returns:
      A `PackedLayout`, `RaggedLayout` or `DenseLayout`; `AS_IS` for symbolic tensors of unknown
      sizes.
    """
    if sentences is not None:
        return PackedLayout(sentences)
    if ragged:
        return RaggedLayout(ops.not_equal(ids, PADDING_ID))
    sizes = ops.shape(ids)[:2]
    return AS_IS if any(size is None for size in sizes) else DenseLayout(*sizes)


def project(dense, x):
    """Returns dense(x), computed on x reshaped to rows if its sizes are known.

    On JAX, gradients of products with [batch, length, width] take an eighth longer than with rows.
    """
    if len(x.shape) == 2:
        return dense(x)
    sizes = ops.shape(x)[:-1]
    if any(size is None for size in sizes):
        return dense(x)
    rows = dense(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(rows, (*sizes, rows.shape[-1]))
