"""Positions: sinusoids, or learned (section 3.5)."""

import keras
import numpy as np
from keras import ops

from t2t_keras.layers.base import ShapePreservingLayer, normal_initializer
from t2t_keras.model_config import POSITION_ENCODINGS


def sinusoids(positions, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same), interleaved.

    Computed in float64: at position 1,000 a float32 angle is already off by 3e-5.

    Args:
      positions: integers [length], a NumPy array or a tensor.
      d_model: width, even.

    Returns:
      float32 [length, d_model].
    """
    rates = 10000.0 ** -(np.arange(0, d_model, 2) / d_model)
    if isinstance(positions, np.ndarray):  # A constant, whatever graph this is called in.
        lib, angles = np, positions[:, None] * rates
    else:
        lib, angles = ops, ops.cast(positions, "float64")[:, None] * rates
    pairs = lib.stack([lib.sin(angles), lib.cos(angles)], axis=-1)
    return ops.cast(lib.reshape(pairs, (-1, d_model)), "float32")


@keras.saving.register_keras_serializable(package="t2t_keras")
class SinusoidalPositions(ShapePreservingLayer):
    """Adds the position's sines and cosines to embeddings (section 3.5).

    Call arguments:
      x: [batch, length, d_model].
      start: position of the first; an integer or a scalar tensor (default 0).

    Returns:
      [batch, length, d_model].
    """

    def call(self, x, start=0):
        """See the class."""
        if x.shape[1] is None or not isinstance(start, int):
            positions = _positions(x, start)
        else:
            positions = np.arange(start, start + x.shape[1])
        return x + ops.cast(sinusoids(positions, x.shape[-1]), x.dtype)


@POSITION_ENCODINGS.add
def sinusoidal(config, **kwargs):
    """Sines and cosines (section 3.5)."""
    return SinusoidalPositions(**kwargs)


@keras.saving.register_keras_serializable(package="t2t_keras")
class LearnedPositions(ShapePreservingLayer):
    """Adds a learned vector for each position to embeddings (section 3.5; Table 3, row E).

    It is called as `SinusoidalPositions`.

    Args:
      max_positions: rows of the table; later positions share the last one.
    """

    def __init__(self, max_positions, **kwargs):
        super().__init__(**kwargs)
        self.max_positions = max_positions

    def build(self, x_shape):
        """Makes the table [max_positions, d_model]."""
        shape, initializer = (self.max_positions, x_shape[-1]), normal_initializer(x_shape[-1])
        self.table = self.add_weight(name="table", shape=shape, initializer=initializer)

    def call(self, x, start=0):
        """See the class."""
        rows = ops.minimum(_positions(x, start), self.max_positions - 1)
        return x + ops.cast(ops.take(self.table, rows, axis=0), x.dtype)


@POSITION_ENCODINGS.add
def learned(config, **kwargs):
    """A table of vectors (Table 3, row E)."""
    return LearnedPositions(config.max_positions, **kwargs)


def _positions(x, start):
    return start + ops.arange(ops.shape(x)[1], dtype="int32")
