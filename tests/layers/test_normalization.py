"""Layer normalisation against Keras's own, whose gradient TensorFlow derives."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import LayerNormalization


@pytest.fixture
def layers(randomised):
    """Returns a function that makes our layer and Keras's with the same weights."""

    def make(**options):
        ours = LayerNormalization(epsilon=1e-6, **options)
        theirs = keras.layers.LayerNormalization(epsilon=1e-6, **options)
        for layer in (ours, theirs):
            layer.build((None, 8))
        theirs.set_weights(randomised(ours).get_weights())
        return ours, theirs

    return make


def value_and_gradients(layer, x):
    """Of a sum in which every number counts differently."""
    with tf.GradientTape() as tape:
        given = tf.constant(x)
        tape.watch(given)
        output = layer(given)
        factors = np.linspace(-1, 2, x.size, dtype=np.float32).reshape(x.shape)
        total = tf.reduce_sum(tf.cast(output, tf.float32) * factors)
    weights = [weight.value for weight in layer.trainable_variables]
    return [output, *tape.gradient(total, [given, *weights])]


# The epsilon of 1e-6 matters at the smallest scale: a variance of 1e-6.
@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8), (0, 8)])
def test_values_and_gradients_are_those_of_keras(layers, random, shape, scale):
    x = random.normal(0.5 * scale, scale, shape).astype(np.float32)
    expected, found = (value_and_gradients(layer, x) for layer in reversed(layers()))
    for theirs, ours in zip(expected, found, strict=True):
        assert ours.shape == theirs.shape
        largest = np.abs(theirs).max(initial=0.0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * max(largest, 1.0))


def test_half_precision(layers, random):
    x = tf.cast(100 + random.normal(size=(4, 8)), tf.bfloat16).numpy()
    ours, theirs = layers(dtype="mixed_bfloat16")
    np.testing.assert_array_equal(ours(x), theirs(x))


def test_its_weights_are_those_of_keras(layers):
    ours, theirs = layers(name="norm")
    assert [weight.path for weight in ours.weights] == [weight.path for weight in theirs.weights]
