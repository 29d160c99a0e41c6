"""Weights as an export stores them.

Fewer bytes make no request faster: each computes with float32 weights, made of the stored ones.
"""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.decoding.translator import Translator


class StoredWeight(tf.Module):
    """A float32 weight of any shape, stored as one of `STORED_DTYPES`.

    "bfloat16" rounds. "int8" rounds weight / scale, with a scale for each index of the last axis
    that makes the largest entry 127; vectors stay float32.
    """

    def __init__(self, weight: np.ndarray, dtype: str):
        super().__init__()
        self.scale = None
        if dtype == "bfloat16":
            weight = weight.astype(tf.bfloat16.as_numpy_dtype)
        elif dtype == "int8" and weight.ndim > 1:
            largest = np.abs(weight).max(axis=tuple(range(weight.ndim - 1)))
            scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
            weight = np.round(weight / scale).astype(np.int8)
            self.scale = tf.Variable(scale, trainable=False)
        self.stored = tf.Variable(weight, trainable=False)

    def value(self) -> tf.Tensor:
        """Returns the weight, float32."""
        value = tf.cast(self.stored, tf.float32)
        return value if self.scale is None else value * self.scale


def model_weights(translator: Translator) -> list[keras.Variable]:
    """Returns the weights of all models of a translator."""
    return [weight for model in translator.models for weight in model.weights]


@contextlib.contextmanager
def rounded_weights(translator: Translator, dtype: str) -> Iterator[None]:
    """Gives the models, inside the context, the weights that storing them as `dtype` leaves."""
    weights = model_weights(translator)
    exact = [weight.numpy() for weight in weights]
    try:
        for weight, value in zip(weights, exact, strict=True):
            weight.assign(StoredWeight(value, dtype).value())
        yield
    finally:
        for weight, value in zip(weights, exact, strict=True):
            weight.assign(value)
