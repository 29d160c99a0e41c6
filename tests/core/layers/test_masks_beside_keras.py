"""Masks reach our attention as they reach `keras.layers.MultiHeadAttention`, on every backend.

Eager, in a functional model, and in a subclassed one, the latter two compiled by `predict`.
`test_keras_harness` calls this on JAX.
"""

import keras
import numpy as np
import pytest

from t2t_keras.layers import MultiHeadAttention

HEADS, WIDTH, LENGTH = 2, 8, 5
QUERY = np.array([[3, 2, 4, 1, 5], [4, 1, 0, 0, 0]], np.int32)
VALUE = np.array([[1, 2, 0, 0, 0], [5, 4, 3, 2, 0]], np.int32)
ALLOWED = np.random.default_rng(0).random((2, LENGTH, LENGTH)) < 0.7
ALLOWED |= np.eye(LENGTH, dtype=bool)
# By name: whether it is self-attention, and the arguments of the call.
CASES = {
    "self": (True, {}),
    "causal": (True, {"use_causal_mask": True}),
    "attention mask": (True, {"attention_mask": True}),
    "cross": (False, {}),
    "cross with an attention mask": (False, {"attention_mask": True}),
}


def pair_of_layers():
    """Returns our layer and Keras's with the same weights."""
    ours = MultiHeadAttention(HEADS, 3)
    theirs = keras.layers.MultiHeadAttention(HEADS, 3, use_bias=False)
    ours.build((None, None, WIDTH), (None, None, WIDTH))
    theirs.build((None, None, WIDTH), (None, None, WIDTH))
    for name in ("query", "key", "value", "output"):
        kernel = keras.ops.convert_to_numpy(getattr(ours, f"{name}_projection").kernel)
        weight = getattr(theirs, f"_{name}_dense").kernel
        weight.assign(kernel.reshape(weight.shape))
    return ours, theirs


class Subclassed(keras.Model):
    def __init__(self, embedding, attention, is_self, options):
        super().__init__()
        self.embedding, self.attention = embedding, attention
        self.is_self, self.options = is_self, options

    def call(self, inputs):
        query, value, allowed = inputs
        query = self.embedding(query)
        value = query if self.is_self else self.embedding(value)
        options = dict(self.options)
        if options.get("attention_mask"):
            options["attention_mask"] = allowed
        return self.attention(query, value, **options)


@pytest.mark.parametrize("name", CASES)
def test_masks(name):
    is_self, options = CASES[name]
    embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
    inputs, outputs = [QUERY, VALUE, ALLOWED], []
    for layer in pair_of_layers():
        model = Subclassed(embedding, layer, is_self, options)
        symbols = [keras.Input((LENGTH,), dtype="int32") for _ in range(2)]
        symbols.append(keras.Input((LENGTH, LENGTH), dtype="bool"))
        functional = keras.Model(symbols, model.call(symbols))
        outputs.append(keras.ops.convert_to_numpy(model(list(map(keras.ops.array, inputs)))))
        outputs += [model.predict(inputs, verbose=0), functional.predict(inputs, verbose=0)]
    # A query that sees nothing gets zeros here, a mean there.
    visible = ((QUERY if is_self else VALUE) != 0)[:, None] & np.ones((LENGTH, 1), bool)
    visible = visible & ALLOWED if options.get("attention_mask") else visible
    real = (QUERY != 0) & visible.any(-1)
    for output in outputs[:-1]:
        np.testing.assert_allclose(output[real], outputs[-1][real], atol=1e-5)
