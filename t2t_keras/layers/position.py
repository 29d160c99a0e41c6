"""Positions: sinusoids, or learned (section 3.5)."""

import keras
import numpy as np
from keras import ops


def sinusoids(positions, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same), interleaved.

    Computed in float64: at position 1,000 a float32 angle is already off by 3e-5.

    Args:
      positions: whole numbers [length], a NumPy array or a tensor.
      d_model: width, even.

    Returns:
      float32 [length, d_model].
    """
    rates = 10000.0 ** -(np.arange(0, d_model, 2) / d_model)
    if isinstance(positions, np.ndarray):
        angles = positions[:, None] * rates
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        return pairs.reshape(len(positions), d_model).astype("float32")
    angles = ops.cast(positions, "float64")[:, None] * rates
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.cast(ops.reshape(pairs, (-1, d_model)), "float32")


@keras.saving.register_keras_serializable(package="t2t_keras")
class SinusoidalPositions(keras.layers.Layer):
    """Adds the position's sines and cosines to embeddings (section 3.5).

    Call arguments:
      x: [batch, length, d_model].
      start: position of the first; a whole number or a scalar tensor (default 0).

    Returns:
      [batch, length, d_model].
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x, start=0):
        """See the class."""
        length, d_model = x.shape[1], x.shape[-1]
        if length is None or not isinstance(start, int):
            positions = start + ops.arange(ops.shape(x)[1], dtype="int32")
        else:
            positions = np.arange(start, start + length)
        return x + ops.cast(sinusoids(positions, d_model), x.dtype)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return input_shape


@keras.saving.register_keras_serializable(package="t2t_keras")
class LearnedPositions(keras.layers.Layer):
    """Adds a learned vector for each position to embeddings (section 3.5; Table 3, row E).

    Args:
      max_positions: rows of the table; later positions share the last one.

    Call arguments:
      x: [batch, length, d_model].
      start: position of the first; a whole number or a scalar tensor (default 0).

    Returns:
      [batch, length, d_model].
    """

    def __init__(self, max_positions, **kwargs):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        self.supports_masking = True

    def build(self, x_shape):
        """Makes the table [max_positions, d_model]."""
        d_model = x_shape[-1]
        self.table = self.add_weight(
            name="table",
            shape=(self.max_positions, d_model),
            initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
        )

    def call(self, x, start=0):
        """See the class."""
        positions = start + ops.arange(ops.shape(x)[1], dtype="int32")
        rows = ops.take(self.table, ops.minimum(positions, self.max_positions - 1), axis=0)
        return x + ops.cast(rows, x.dtype)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return input_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "max_positions": self.max_positions}
