import keras
import numpy as np
import pytest

from t2t_keras.layers import Residual


def expected_norm(x, gamma, beta):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * gamma + beta


# The epsilon of 1e-6 matters at the smallest scale: a variance of 1e-6.
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_formula(randomised, random, scale):
    layer = Residual()
    layer.build((None, None, 8))
    randomised(layer)
    gamma, beta = (weight.numpy() for weight in layer.weights)
    x, y = random.normal(0, scale, size=(2, 2, 3, 8)).astype(np.float32)
    expected = expected_norm(x.astype(float) + y, gamma, beta)
    np.testing.assert_allclose(layer(x, y).numpy(), expected, rtol=0, atol=1e-5)


def test_pre_norm(randomised, random):
    layer = Residual(pre_norm=True)
    layer.build((None, None, 8))
    randomised(layer)
    gamma, beta = (weight.numpy() for weight in layer.weights)
    x, y = random.normal(size=(2, 2, 3, 8)).astype(np.float32)
    read = layer.sublayer_input(x).numpy()
    np.testing.assert_allclose(read, expected_norm(x.astype(float), gamma, beta), atol=1e-5)
    np.testing.assert_allclose(layer(x, y).numpy(), x + y, atol=1e-6)
    # The paper's reads x itself.
    assert Residual().sublayer_input(x) is x


def test_dropout_is_on_the_sublayer_output_before_the_sum():
    layer = Residual(dropout=0.5)
    layer.build((None, 1000))
    # The normalised sum takes three values only if 0 or twice the output is added to x.
    x = np.where(np.arange(1000) < 500, 0.0, 10.0)[None].astype(np.float32)
    ones = np.ones_like(x)
    values = np.unique(layer(x, ones, training=True).numpy().round(4))
    assert len(values) == 4
    np.testing.assert_allclose((values[1] - values[0]) * 4, values[2] - values[1], rtol=0.01)
    assert len(np.unique(layer(x, ones).numpy().round(4))) == 2


def test_layer_normalisation_is_in_float32():
    # bfloat16 has 8 bits: the mean of these numbers and their squares are not among its values.
    layer = Residual(dtype="mixed_bfloat16")
    x = (100 + 0.5 * np.arange(32))[None].astype(np.float32)
    result = keras.ops.cast(layer(x, np.zeros_like(x)), "float32").numpy()
    expected = expected_norm(x.astype(float), 1, 0)
    np.testing.assert_allclose(result, expected, rtol=2**-8)
    assert {weight.dtype for weight in layer.weights} == {"float32"}
