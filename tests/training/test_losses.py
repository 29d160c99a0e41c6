import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.losses import smoothed_cross_entropy, token_sums

EPSILONS = [0.0, 0.1, 0.9]
TARGETS = np.array([[1, 4, 0], [2, 0, 0]])


def smoothed_target(targets, vocab_size, epsilon):
    """(1 - epsilon) one-hot + epsilon / V, over the whole vocabulary."""
    return (1 - epsilon) * np.eye(vocab_size)[targets] + epsilon / vocab_size


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def cross_entropy(logits, targets, epsilon):
    return -(smoothed_target(targets, logits.shape[-1], epsilon) * log_softmax(logits)).sum(axis=-1)


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(0, 2, (2, 3, 5)).astype(np.float32)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_definition(logits, epsilon):
    smoothed, unsmoothed, _ = smoothed_cross_entropy(logits, TARGETS, epsilon)
    np.testing.assert_allclose(smoothed, cross_entropy(logits, TARGETS, epsilon), rtol=1e-5)
    np.testing.assert_allclose(unsmoothed, cross_entropy(logits, TARGETS, 0), rtol=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 0.9])
def test_minimum_is_the_entropy_of_the_smoothed_target(epsilon):
    target = smoothed_target(2, 5, epsilon)
    entropy = -(target * np.log(target)).sum()
    best = tf.constant(np.log(target), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(best)
        loss = smoothed_cross_entropy(best, tf.constant(2), epsilon)[0]
    assert float(loss) == pytest.approx(entropy, rel=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, best), np.zeros(5), atol=1e-6)
    moved = best + np.random.default_rng(0).normal(0, 0.3, (100, 5))
    others, *_ = smoothed_cross_entropy(moved, tf.fill([100], 2), epsilon)
    assert (others.numpy() > entropy).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gradient(logits, epsilon):
    with tf.GradientTape() as tape:
        given = tf.constant(logits)
        tape.watch(given)
        loss = token_sums(given, TARGETS, epsilon)["loss"]
    real = TARGETS != 0
    # Central differences of the definition, in float64.
    expected, step = np.zeros(logits.shape), 1e-5
    for place in np.ndindex(logits.shape):
        sides = []
        for sign in (1, -1):
            moved = logits.astype(np.float64)
            moved[place] += sign * step
            sides.append((cross_entropy(moved, TARGETS, epsilon) * real).sum())
        expected[place] = (sides[0] - sides[1]) / (2 * step)
    np.testing.assert_allclose(tape.gradient(loss, given), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_extreme_logits(epsilon, extreme):
    logits = np.zeros((2, 1, 5), np.float32)
    # The target's own logit, and another's.
    logits[0, 0, 1] = logits[1, 0, 3] = extreme
    targets = np.array([[1], [1]])
    with tf.GradientTape() as tape:
        given = tf.constant(logits)
        tape.watch(given)
        smoothed, unsmoothed, _ = smoothed_cross_entropy(given, targets, epsilon)
    expected = cross_entropy(logits, targets, epsilon)
    np.testing.assert_allclose(smoothed, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(unsmoothed, cross_entropy(logits, targets, 0), rtol=1e-6, atol=1e-6)
    probabilities = np.exp(log_softmax(logits))
    np.testing.assert_allclose(
        tape.gradient(smoothed, given),
        probabilities - smoothed_target(targets, 5, epsilon),
        atol=1e-6,
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sums_ignore_padding(logits, epsilon):
    real = TARGETS != 0
    expected = {
        "loss": cross_entropy(logits, TARGETS, epsilon)[real].sum(),
        "negative_log_likelihood": cross_entropy(logits, TARGETS, 0)[real].sum(),
        "correct": (logits.argmax(axis=-1) == TARGETS)[real].sum(),
        "tokens": 3,
    }
    for padding in (0.0, 1e4, -7.0):
        logits[~real] = padding
        sums = token_sums(logits, TARGETS, epsilon)
        assert {name: float(value) for name, value in sums.items()} == pytest.approx(
            expected, rel=1e-5
        )
        assert {value.dtype.name for value in sums.values()} == {"float32"}


def test_accuracy_counts_the_largest_logit(logits):
    logits[0, 0, 1] = logits[0, 1, 4] = 50.0
    logits[1, 0, 3] = 50.0
    assert float(token_sums(logits, TARGETS)["correct"]) == 2
    np.testing.assert_array_equal(
        smoothed_cross_entropy(logits, TARGETS)[2], logits.argmax(axis=-1) == TARGETS
    )


def test_padding_alone():
    sums = token_sums(np.ones((1, 2, 5), np.float32), np.zeros((1, 2), int), 0.1)
    assert {float(value) for value in sums.values()} == {0.0}
