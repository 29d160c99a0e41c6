import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.adam import Adam
from t2t_keras.training.adam_update import adam_update

BETA_1, BETA_2, EPSILON, RATE = 0.9, 0.98, 1e-9, 0.01
STEPS = 20


def algorithm_1(gradients, epsilon_before_correction=False):
    """Kingma and Ba (2015), Algorithm 1, in float64; from weights of 0."""
    weight = np.zeros(gradients.shape[1:])
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    for t, gradient in enumerate(gradients.astype(np.float64), start=1):
        m = BETA_1 * m + (1 - BETA_1) * gradient
        v = BETA_2 * v + (1 - BETA_2) * gradient**2
        m_hat, v_hat = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        epsilon = EPSILON
        if epsilon_before_correction:
            epsilon /= (1 - BETA_2**t) ** 0.5
        weight = weight - RATE * m_hat / (v_hat**0.5 + epsilon)
    return weight


@pytest.fixture(params=[1.0, 1e-4, 1e-9], ids=lambda scale: f"gradients of {scale:g}")
def gradients(request):
    return np.random.default_rng(0).normal(0.5, 1, (STEPS, 3, 4)).astype(np.float32) * np.float32(
        request.param
    )


def through_keras(optimizer, gradients):
    weight = keras.Variable(np.zeros(gradients.shape[1:], np.float32))
    optimizer.build([weight])
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient), weight)])
    return weight.numpy()


def as_the_trainer_does(optimizer, gradients):
    weight = keras.Variable(np.zeros(gradients.shape[1:], np.float32))
    optimizer.build([weight])
    for gradient in gradients:
        optimizer.update_weights([tf.constant(gradient)], [weight.value], tf.constant(RATE))
        optimizer.iterations.assign_add(1)
    return weight.numpy()


def as_a_function(optimizer, gradients):
    weight = momentum = velocity = np.zeros(gradients.shape[1:], np.float32)
    for step, gradient in enumerate(gradients, start=1):
        weight, momentum, velocity = adam_update(
            weight, momentum, velocity, gradient, np.float32(step), RATE, BETA_1, BETA_2, EPSILON
        )
    return weight.numpy()


@pytest.mark.parametrize("train", [through_keras, as_the_trainer_does, as_a_function])
def test_algorithm_1(gradients, train):
    weight = train(Adam(RATE, BETA_1, BETA_2, EPSILON), gradients)
    expected = algorithm_1(gradients)
    assert np.abs(expected).min() > 1e-3
    np.testing.assert_allclose(weight, expected, rtol=2e-5)


def test_the_place_of_epsilon_matters():
    # What the comparison above would not see with large gradients only.
    gradients = np.full((STEPS, 1), 1e-9, np.float32)
    other = algorithm_1(gradients, epsilon_before_correction=True)
    assert abs(algorithm_1(gradients) / other - 1) > 0.3
    kerass = through_keras(keras.optimizers.Adam(RATE, BETA_1, BETA_2, EPSILON), gradients)
    np.testing.assert_allclose(kerass, other, rtol=1e-4)


def test_a_zero_gradient_changes_nothing():
    gradients = np.zeros((3, 2), np.float32)
    np.testing.assert_array_equal(
        through_keras(Adam(RATE, BETA_1, BETA_2, EPSILON), gradients), [0, 0]
    )


def test_config_round_trip():
    config = Adam(RATE, BETA_1, BETA_2, EPSILON).get_config()
    copy = Adam.from_config(config)
    assert (copy.beta_1, copy.beta_2, copy.epsilon) == (BETA_1, BETA_2, EPSILON)
    assert keras.saving.get_registered_name(Adam) == "t2t_keras>Adam"
