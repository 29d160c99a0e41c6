"""Weights in fewer bytes: what an export stores, and how the graph makes float32 of it again.

Only what is stored gets smaller. A request first makes float32 weights of them, then computes as it
would without, so it is not faster.
"""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError

STORED_DTYPES = ("float32", "bfloat16", "int8")


def check_dtype(dtype: str) -> None:
    """Raises `UserError` unless weights can be stored so."""
    if dtype not in STORED_DTYPES:
        raise UserError(f"Weights are stored as {', '.join(STORED_DTYPES)}; --dtype={dtype} came.")


class StoredWeight(tf.Module):
    """A weight as it is stored.

    "bfloat16": rounded. "int8": a matrix, or what has more axes, is divided by a scale for each
    column (each index of the last axis), which makes its largest entry 127, and rounded; a vector
    stays float32.

    Args:
      weight: float32, any shape.
      dtype: one of `STORED_DTYPES`.
    """

    def __init__(self, weight: np.ndarray, dtype: str):
        super().__init__()
        stored, scale = _stored(weight, dtype)
        self.stored = tf.Variable(stored, trainable=False)
        self.scale = None if scale is None else tf.Variable(scale, trainable=False)

    def value(self) -> tf.Tensor:
        """Returns the weight, float32."""
        value = tf.cast(self.stored, tf.float32)
        return value if self.scale is None else value * self.scale


@contextlib.contextmanager
def rounded_weights(weights: Sequence[keras.Variable], dtype: str) -> Iterator[None]:
    """Gives the weights, while it lasts, the values that they have when stored as `dtype`."""
    exact = [weight.numpy() for weight in weights]
    try:
        for weight, value in zip(weights, exact, strict=True):
            stored, scale = _stored(value, dtype)
            rounded = stored.astype(np.float32)
            weight.assign(rounded if scale is None else rounded * scale)
        yield
    finally:
        for weight, value in zip(weights, exact, strict=True):
            weight.assign(value)


def _stored(weight: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns what is stored, and the scales [columns] to multiply it with or None."""
    if dtype == "bfloat16":
        return weight.astype(tf.bfloat16.as_numpy_dtype), None
    if dtype == "float32" or weight.ndim < 2:
        return weight, None
    largest = np.abs(weight).max(axis=tuple(range(weight.ndim - 1)))
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.round(weight / scale).astype(np.int8), scale
