import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.export.signatures import TranslationModule
from t2t_keras.serving.export.weights import StoredWeight, rounded_weights

MATRIX = np.random.default_rng(0).normal(size=[40, 3, 5]) * [1, 2, 5, 10, 0]
MATRIX = MATRIX.astype(np.float32)


def test_int8_has_a_scale_for_each_column():
    stored = StoredWeight(MATRIX, "int8")
    assert stored.stored.dtype == tf.int8
    assert stored.scale.shape == [5]
    largest = np.abs(MATRIX).max(axis=(0, 1))
    error = np.abs(stored.value().numpy() - MATRIX).max(axis=(0, 1))
    # Half a step of 1/127, and no more.
    assert (error <= largest / 254 * 1.001).all()
    assert (error[:4] > largest[:4] / 300).all()
    assert np.abs(stored.stored.numpy()).max(axis=(0, 1)).tolist() == [127, 127, 127, 127, 0]


def test_vectors_stay_exact_under_int8():
    vector = MATRIX[:, 0, 0]
    assert StoredWeight(vector, "int8").value().numpy().tolist() == vector.tolist()


def test_bfloat16_is_rounded():
    stored = StoredWeight(MATRIX, "bfloat16")
    assert stored.stored.dtype == tf.bfloat16
    # The nearest number with 8 bits of precision, by NumPy alone.
    mantissas, exponents = np.frexp(MATRIX)
    expected = np.ldexp(np.round(mantissas * 256), exponents - 8)
    assert stored.value().numpy().tolist() == expected.tolist()


def test_a_graph_equals_a_model_with_rounded_weights(translator, lines):
    (model,) = translator.models
    before = [weight.numpy() for weight in model.weights]
    module = TranslationModule(translator, "int8")
    pair = lines[:1], lines[2:3]
    found = module.signatures()["score"](*map(tf.constant, pair))
    [exact] = translator.score(*pair)
    with rounded_weights(translator, "int8"):
        [expected] = translator.score(*pair)
    assert found["log_probability"].numpy() == pytest.approx([expected.log_prob], abs=1e-4)
    assert abs(expected.log_prob - exact.log_prob) > 1e-3
    for weight, value in zip(model.weights, before, strict=True):
        assert (weight.numpy() == value).all()
    size = sum(variable.numpy().nbytes for variable in module.variables)
    # Vectors and scales weigh something in a model this small.
    assert size < 0.45 * sum(weight.nbytes for weight in before)
