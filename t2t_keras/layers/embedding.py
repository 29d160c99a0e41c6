"""Embeddings, positions, and the pre-softmax projection (sections 3.4 and 3.5)."""

from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend import set_keras_mask  # on JAX, masks are not attributes of tensors

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.layers.base import PaperArguments, PaperLayer, check_sizes
from t2t_keras.registry import POSITION_ENCODINGS
from t2t_keras.special_ids import PADDING_ID


@keras.saving.register_keras_serializable(package="t2t_keras")
class SharedEmbedding(PaperArguments):
    """An embedding of ids, scaled by sqrt(d_model), whose matrix also projects states to logits.

    Section 3.4; initialised with N(0, d_model^-0.5) as in tensor2tensor, so that the embeddings and
    the logits have unit variance. As with Keras's `ReversibleEmbedding`, a call with `reverse=True`
    is the projection.

    Args:
      vocab_size: number of ids.
      d_model: width.
      scale: whether embeddings are multiplied by sqrt(d_model).
      tied: whether the embedding matrix also projects to logits; otherwise a second matrix does.
      bias: whether each logit has a bias (none in the paper).
      padding_id: id that is masked for the layers that follow; None disables masking.

    Call arguments:
      inputs: ids, integers [batch, length]; or, with `reverse`, states [..., d_model].
      reverse: whether states are projected to logits.

    Returns:
      [batch, length, d_model]; or float32 logits [..., vocab_size].

    Example:
      >>> embedding = SharedEmbedding(vocab_size=100, d_model=64)
      >>> states = embedding(np.array([[3, 2, 1]]))
      >>> tuple(embedding(states, reverse=True).shape)
      (1, 3, 100)
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        scale: bool = True,
        tied: bool = True,
        bias: bool = False,
        padding_id: int | None = PADDING_ID,
        **kwargs: Any,
    ):
        # In a Sequential model ids arrive as float32, which must not become bfloat16.
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.scale = scale
        self.tied = tied
        self.use_bias = bias
        self.padding_id = padding_id
        self.bias = None
        check_sizes(self, vocab_size=1, d_model=1)
        self.table = keras.layers.ReversibleEmbedding(
            vocab_size,
            d_model,
            tie_weights=tied,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
            # Otherwise the largest matrix product would be in float32, as the matrix is in a model.
            reverse_dtype=self.compute_dtype,
            dtype=self.dtype_policy,
            name="table",
        )
        self.table.supports_masking = True

    def __call__(self, inputs, reverse=False, **kwargs):
        """Calls the layer. Embeddings get a Keras mask; logits keep the mask of the states."""
        outputs = super().__call__(inputs, reverse=reverse, **kwargs)
        # Not `compute_mask`, which does not know `reverse`.
        if not reverse and self.padding_id is not None:
            set_keras_mask(outputs, ops.not_equal(inputs, self.padding_id))
        return outputs

    def build(self, inputs_shape=None):
        """Makes the matrix [vocab_size, d_model], and the logits' own matrix and bias, if any."""
        self.table.build()
        if self.use_bias:
            shape = (self.vocab_size,)
            self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros")

    def call(self, inputs, reverse=False):
        """See the class."""
        if reverse:
            return self.logits(inputs)
        embedded = self.table(ops.cast(inputs, "int32"))
        return embedded * self.d_model**0.5 if self.scale else embedded

    def projection(self):
        """Returns the matrix that logits are computed with, [d_model, vocab_size].

        None if it is quantized.
        """
        if self.table.quantization_mode:
            return None
        if not self.tied:
            return ops.cast(self.table.reverse_embeddings, self.compute_dtype)
        return ops.transpose(ops.cast(self.table.embeddings, self.compute_dtype))

    def logits(self, x, projection=None):
        """Projects states [..., d_model] to float32 logits [..., vocab_size]; see `reverse`.

        Args:
          x: states of the decoder.
          projection: a result of `projection()` to reuse.
        """
        if isinstance(x, keras.KerasTensor):
            return self(x, reverse=True)  # Keras could not load a model that calls the table alone.
        if projection is None:
            logits = ops.cast(self.table(x, reverse=True), "float32")
        else:
            logits = ops.cast(ops.matmul(x, projection), "float32")
        return logits if self.bias is None else logits + ops.cast(self.bias, "float32")

    def compute_output_shape(self, inputs_shape, reverse=False):
        """Returns the shape of the embeddings, or of the logits."""
        if reverse:
            return (*inputs_shape[:-1], self.vocab_size)
        return (*inputs_shape, self.d_model)

    # Symbolic tensors pass through `call`, which knows `reverse`.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the constructor's arguments."""
        names = ("vocab_size", "d_model", "scale", "tied", "padding_id")
        config = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **config, "bias": self.use_bias}


_LAYOUTS = ("interleaved", "concatenated", "tensor2tensor")


def sinusoids(positions, d_model, layout="interleaved", table_length=0):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same), interleaved.

    Computed in float64, except tensors on JAX: at position 1,000 a float32 angle is off by 3e-5.

    Args:
      positions: integers [length], a NumPy array or a tensor.
      d_model: width, even.
      layout: "interleaved"; "concatenated" = all sines before all cosines; "tensor2tensor" = also
        concatenated, with exponents i / (d_model/2 - 1), up to 1.
      table_length: length of a table in which positions given as a tensor are looked up, for
        programs without float64; 0 = no table.

    Returns:
      float32 [length, d_model].
    """
    if layout not in _LAYOUTS or d_model % 2:
        raise UserError(
            f"Sinusoids: expected an even d_model and layout {' or '.join(_LAYOUTS)}; got "
            f"{d_model} and {layout!r}.",
            code="bad_size",
        )
    is_tensor = not isinstance(positions, np.ndarray)
    if is_tensor and table_length:
        table = sinusoids(np.arange(table_length), d_model, layout)
        return ops.take(table, positions, axis=0)
    # A single pair has exponent 0 in any layout.
    divisor = max(d_model - 2 * (layout == "tensor2tensor"), 1)
    rates = 10000.0 ** -(np.arange(0, d_model, 2) / divisor)
    if is_tensor:
        # JAX has no float64.
        positions = ops.cast(positions, "float32" if keras.config.backend() == "jax" else "float64")
    angles = positions[:, None] * rates
    lib = ops if is_tensor else np  # NumPy's results are constants, even in a graph.
    waves = lib.stack([lib.sin(angles), lib.cos(angles)], axis=-1 if layout == "interleaved" else 1)
    return ops.convert_to_tensor(lib.reshape(waves, (-1, d_model)), "float32")


def rotate(x, position=None, table_length=0):
    """Rotates each pair (2i, 2i+1) of x by the angle pos / 10000^(2i/width), in float32.

    Rotary positions (Su et al., 2021): the product of a rotated query and key depends only
    on the distance between their positions.

    Args:
      x: queries or keys [batch, heads, length, width], with an even width.
      position: position of all rows, an integer or an int32 scalar; or of each row, [length];
        None = 0, 1, 2, ...
      table_length: see `sinusoids`.

    Returns:
      [batch, heads, length, width].
    """
    width = x.shape[-1]
    if position is not None:
        positions = ops.reshape(position, (-1,))
    elif isinstance(x.shape[2], int):
        positions = np.arange(x.shape[2])
    else:
        positions = ops.arange(ops.shape(x)[2], dtype="int32")
    sin, cos = ops.split(sinusoids(positions, width, "concatenated", table_length), 2, axis=-1)
    pairs = ops.reshape(ops.cast(x, "float32"), (*ops.shape(x)[:-1], width // 2, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    rotated_pairs = ops.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return ops.cast(ops.reshape(rotated_pairs, ops.shape(x)), x.dtype)


@keras.saving.register_keras_serializable(package="t2t_keras")
class SinusoidalPositions(PaperLayer):
    """Adds the position's sines and cosines to embeddings (section 3.5).

    Args:
      layout: see `sinusoids`.
      first: number of a sentence's first position.
      table_length: see `sinusoids`.

    Call arguments:
      x: [..., length, d_model].
      start: position of x's first row, an integer or a scalar tensor (default 0).
      positions: integers [..., length] below length, instead of 0, 1, 2, ... (see `PackedLayout`).

    Returns:
      [..., length, d_model].
    """

    def __init__(
        self, layout: str = "interleaved", first: int = 0, table_length: int = 0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.layout = layout
        self.first = first
        self.table_length = table_length
        check_sizes(self, first=0, table_length=0)
        if layout not in _LAYOUTS:
            raise UserError(
                f"SinusoidalPositions: expected layout {' or '.join(_LAYOUTS)}; got {layout!r}.",
                code="bad_value",
            )

    def call(self, x, start=0, positions=None):
        """See the class."""
        start = start + self.first
        # In a graph for all lengths neither is a Python integer.
        if isinstance(start, int) and isinstance(x.shape[-2], int):
            rows = np.arange(start, start + x.shape[-2])
        else:
            rows = start + ops.arange(ops.shape(x)[-2], dtype="int32")
        waves = sinusoids(rows, x.shape[-1], self.layout, self.table_length)
        waves = waves if positions is None else ops.take(waves, positions, axis=0)
        return x + ops.cast(waves, x.dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {name: getattr(self, name) for name in ("layout", "first", "table_length")}
        return {**super().get_config(), **config}


@POSITION_ENCODINGS.add
def sinusoidal(config: ModelConfig, **kwargs: Any) -> SinusoidalPositions:
    """Sines and cosines (section 3.5)."""
    return SinusoidalPositions(config.sinusoids, config.first_position, **kwargs)


@keras.saving.register_keras_serializable(package="t2t_keras")
class LearnedPositions(PaperLayer):
    """Adds a learned vector for each position to embeddings (section 3.5; Table 3, row E).

    It is called like `SinusoidalPositions`.

    Args:
      max_positions: rows of the table; later positions share the last row.
      first: row of a sentence's first position.
    """

    def __init__(self, max_positions: int, first: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        self.first = first
        check_sizes(self, max_positions=1, first=0)

    def build(self, x_shape):
        """Makes the table [max_positions, d_model]."""
        d_model = x_shape[-1]
        self.table = self.add_weight(
            name="table",
            shape=(self.max_positions, d_model),
            initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
        )

    def call(self, x, start=0, positions=None):
        """See the class."""
        positions = ops.arange(ops.shape(x)[-2], dtype="int32") if positions is None else positions
        positions = start + self.first + positions
        rows = ops.take(self.table, ops.minimum(positions, self.max_positions - 1), axis=0)
        return x + ops.cast(rows, x.dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {"max_positions": self.max_positions, "first": self.first}
        return {**super().get_config(), **config}


@POSITION_ENCODINGS.add
def learned(config: ModelConfig, **kwargs: Any) -> LearnedPositions:
    """A table of vectors (Table 3, row E)."""
    return LearnedPositions(config.max_positions, config.first_position, **kwargs)


@keras.saving.register_keras_serializable(package="t2t_keras")
class NoPositions(PaperLayer):
    """Adds nothing to embeddings.

    Call arguments:
      x: [batch, length, d_model].
      start: ignored.
      positions: ignored.

    Returns:
      x.
    """

    def call(self, x, start=0, positions=None):
        """See the class."""
        return x


@POSITION_ENCODINGS.add
def rotary(config: ModelConfig, **kwargs: Any) -> NoPositions:
    """RoPE (Su et al., 2021): rotates queries and keys of self-attention, not the embeddings."""
    return NoPositions(**kwargs)


@POSITION_ENCODINGS.add
def none(config: ModelConfig, **kwargs: Any) -> NoPositions:
    """No positions: the model sees a sentence as a set of words."""
    return NoPositions(**kwargs)
