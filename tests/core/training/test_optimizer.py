"""Loss, schedule, Adam, clipping, loss scale and dropout's seeds beside their definitions."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.backends.tensorflow import update_by_adam
from t2t_keras.training.optimizer import (
    Adam,
    SmoothedCrossEntropy,
    TransformerSchedule,
    adapt_loss_scale,
    clip_gradients,
    dropout_seeds,
    make_optimizer,
    make_schedule,
    smoothed_cross_entropy,
    token_sums,
)

EPSILONS = pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
TARGETS = np.array([[1, 4, 0], [2, 0, 0]])


def smoothed_target(targets, vocab_size, epsilon):
    """(1 - epsilon) one-hot + epsilon / V, over the whole vocabulary."""
    return (1 - epsilon) * np.eye(vocab_size)[targets] + epsilon / vocab_size


def log_softmax(logits):
    return logits - np.logaddexp.reduce(np.float64(logits), axis=-1, keepdims=True)


def cross_entropy(logits, targets, epsilon):
    return -(smoothed_target(targets, logits.shape[-1], epsilon) * log_softmax(logits)).sum(axis=-1)


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(0, 2, (2, 3, 5)).astype(np.float32)


@EPSILONS
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("extreme", [None, 1e4, -1e4])
def test_the_loss_and_its_gradient(logits, epsilon, extreme, compiled):
    if extreme:
        # The target's own logit, and another's.
        logits[0, 0, 1] = logits[1, 0, 3] = extreme
    real = TARGETS != 0
    with tf.GradientTape() as tape:
        inputs = tf.constant(logits)
        tape.watch(inputs)
        losses = smoothed_cross_entropy(inputs, TARGETS, epsilon, compiled)
        smoothed, unsmoothed, correct = losses
        loss = tf.reduce_sum(smoothed * real)
    for actual, share in ((smoothed, epsilon), (unsmoothed, 0)):
        expected = cross_entropy(logits, TARGETS, share)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(correct, logits.argmax(axis=-1) == TARGETS)
    expected = np.exp(log_softmax(logits)) - smoothed_target(TARGETS, 5, epsilon)
    np.testing.assert_allclose(tape.gradient(loss, inputs), expected * real[..., None], atol=1e-6)


@EPSILONS
@pytest.mark.parametrize("weight", [None, [1.0, 3.0], [[1.0, 2.0, 5.0], [3.0, 5.0, 5.0]]])
def test_the_loss_for_compile(logits, epsilon, weight):
    loss = SmoothedCrossEntropy(epsilon)
    real = np.float32(TARGETS != 0)
    weights = real if weight is None else real * np.reshape(weight, (2, -1))
    expected = (cross_entropy(logits, TARGETS, epsilon) * weights).sum() / weights.sum()
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    for loss_function in (loss, again):
        sample_weight = None if weight is None else np.float32(weight)
        np.testing.assert_allclose(
            loss_function(TARGETS, logits, sample_weight), expected, rtol=1e-5
        )


@EPSILONS
@pytest.mark.parametrize("padding", [0.0, 1e4, -7.0])
def test_sums_ignore_padding(logits, epsilon, padding):
    real = TARGETS != 0
    logits[0, 0, 1] = 50.0
    logits[~real] = padding
    sums = token_sums(logits, TARGETS, epsilon)
    assert {value.dtype.name for value in sums.values()} == {"float32"}
    expected = {
        "loss": cross_entropy(logits, TARGETS, epsilon)[real].sum(),
        "negative_log_likelihood": cross_entropy(logits, TARGETS, 0)[real].sum(),
        "correct": (logits.argmax(axis=-1) == TARGETS)[real].sum(),
        "tokens": 3,
    }
    assert {name: float(value) for name, value in sums.items()} == pytest.approx(expected, rel=1e-5)
    alone = token_sums(logits, np.zeros_like(TARGETS), epsilon)
    assert {float(value) for value in alone.values()} == {0.0}


def formula(step, d_model, warmup_steps):
    """Section 5.3, equation 3; the first step is number 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4000), (1024, 4000), (128, 10)])
@pytest.mark.parametrize("step", [1, 2, 10, 3999, 4000, 4001, 100_000, 300_000])
def test_schedule(d_model, warmup_steps, step):
    # Called with the number of steps done before.
    rate = TransformerSchedule(d_model, warmup_steps, 2.5)(step - 1)
    assert rate.dtype == "float32"
    assert float(rate) == pytest.approx(2.5 * formula(step, d_model, warmup_steps), rel=1e-6)


@pytest.mark.parametrize(("name", "peak"), [("base", 6.98771e-4), ("big", 4.94106e-4)])
def test_peak_of_the_paper_s_sets(name, peak):
    schedule = make_schedule(hyperparameters.hparams(f"transformer_{name}"))
    assert float(schedule(3999)) == pytest.approx(peak, rel=1e-6)


ADAM = dict(learning_rate=0.01, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


def algorithm_1(gradients):
    """Kingma and Ba (2015), Algorithm 1, in float64; from weights of 0."""
    rate, beta_1, beta_2, epsilon = ADAM.values()
    weight = np.zeros(gradients.shape[1:])
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    for t, gradient in enumerate(gradients.astype(np.float64), start=1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
        weight = weight - rate * m_hat / (v_hat**0.5 + epsilon)
    return weight


def by_keras(optimizer, schedule, gradients, weights):
    optimizer.apply(gradients, weights)
    optimizer.iterations.assign_add(-1)


def by_keras_of_rows(optimizer, schedule, gradients, weights):
    halves = [tf.concat([gradient, gradient], axis=0) / 2 for gradient in gradients]
    sliced = [tf.IndexedSlices(half, [0, 1, 2] * 2, [3, 4]) for half in halves]
    by_keras(optimizer, schedule, sliced, weights)


def trained(update, gradients):
    weight = keras.Variable(np.zeros(gradients.shape[1:], np.float32))
    optimizer = Adam(**ADAM)
    optimizer.build([weight])
    for gradient in map(tf.constant, gradients):
        update(optimizer, lambda step: ADAM["learning_rate"], [gradient], [weight.value])
        optimizer.iterations.assign_add(1)
    return weight.numpy()


# With the smallest gradients the position of epsilon changes the weights by a third.
@pytest.mark.parametrize("update", [update_by_adam, by_keras, by_keras_of_rows])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-9])
def test_adam(update, scale):
    gradients = np.random.default_rng(0).normal(0.5, 1, (20, 3, 4)) * scale
    gradients = gradients.astype(np.float32)
    expected = algorithm_1(gradients)
    assert np.abs(expected).min() > 1e-3
    np.testing.assert_allclose(trained(update, gradients), expected, rtol=2e-5)
    np.testing.assert_array_equal(trained(update, np.zeros_like(gradients)), 0)


def test_defaults_are_the_paper_s():
    assert SmoothedCrossEntropy().label_smoothing == 0.1
    assert float(TransformerSchedule(512)(3999)) == pytest.approx(6.98771e-4, rel=1e-6)


def test_schedule_and_adam_are_serialised():
    adam = Adam(**ADAM | {"learning_rate": TransformerSchedule(32, 7, 0.5)})
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(adam))
    assert (type(copy), copy.get_config()) == (Adam, adam.get_config())


@pytest.mark.parametrize(("clip_norm", "factor"), [(0, 1), (10, 1), (2.5, 0.5)])
def test_clipping_by_the_norm(clip_norm, factor):
    gradients = [np.float32([3, 0]), np.float32([[4]])]
    clipped = clip_gradients(gradients, np.float32(5), clip_norm)
    for one, other in zip(clipped, gradients, strict=True):
        np.testing.assert_allclose(one, factor * other)


@pytest.mark.parametrize(
    ("before", "finite", "after"),
    [
        ((8.0, 5), True, (8.0, 6)),
        ((8.0, 1999), True, (16.0, 0)),
        ((8.0, 5), False, (4.0, 0)),
        ((1.0, 5), False, (1.0, 0)),
    ],
)
def test_the_loss_scale_adapts(before, finite, after):
    actual = adapt_loss_scale(*map(tf.constant, before), tf.constant(finite))
    assert tuple(tensor.numpy() for tensor in actual) == after


def test_a_seed_for_each_generator():
    seeds = dropout_seeds(seed=1, step=2, part=3, generators=5)
    assert seeds.shape == (5, *keras.random.SeedGenerator(0).state.shape)
    assert seeds.dtype == np.int64
    np.testing.assert_array_equal(seeds, dropout_seeds(1, 2, 3, 5))
    states = {
        tuple(state)
        for seed, step, part in itertools.product((0, 1, 2), range(30), range(8))
        for state in dropout_seeds(seed, step, part, 6)
    }
    assert len(states) == 3 * 30 * 8 * 6


@pytest.mark.parametrize("name", ["adamw", "lion", "adafactor"])
def test_other_optimizers_decay_matrices_and_nothing_else(name):
    changes = dict(optimizer=name, weight_decay=0.1, adam_epsilon=0.5, schedule="cosine")
    changes |= dict(learning_rate=0.2, warmup_steps=1, train_steps=3, adam_beta2=0.75)
    values = {"kernel": np.float32([[1, -2], [4, 3]])}
    # Those of normalisation too.
    values |= dict.fromkeys(("bias", "beta", "gamma"), np.float32([1, -2]))
    gradients = [np.float32([[0.5, 1], [-1, 2]]), *[np.float32([0.5, -1])] * 3]
    weights = [keras.Variable(value, name=name) for name, value in values.items()]
    optimizer = make_optimizer(hyperparameters.hparams("transformer_tiny", changes), weights)
    # The first step has no learning rate, the second the whole.
    for share in (0, 1):
        optimizer.apply([tf.constant(share * gradient) for gradient in gradients], weights)
    for weight, gradient, decay in zip(weights, gradients, (0.1, 0, 0, 0), strict=True):
        actual = weight.numpy() - values[weight.name] * (1 - 0.2 * decay)
        betas = [optimizer.get_config().get(f"beta_{number}") for number in (1, 2)]
        assert betas == ([None, None] if name == "adafactor" else [0.9, 0.75])
        if name == "adamw":
            root = np.sqrt(0.25) * np.abs(gradient) + 0.5
            expected = -0.2 * np.sqrt(1 - 0.75**2) / (1 - 0.9**2) * 0.1 * gradient / root
            np.testing.assert_allclose(actual, expected, rtol=1e-4)
        elif name == "lion":
            np.testing.assert_allclose(actual, -0.2 * np.sign(gradient), rtol=1e-5)
        else:
            assert (np.sign(actual) == -np.sign(gradient)).all()
            assert not optimizer.get_config()["relative_step"], "our schedule has the rate"


def test_schedules_reach_the_rate_at_the_end_of_the_warm_up():
    changes = dict(d_model=64, learning_rate=0.3, warmup_steps=10, train_steps=110)
    root, half = (
        make_schedule(hyperparameters.hparams("transformer_tiny", changes | dict(schedule=name)))
        for name in ("inverse_square_root", "cosine")
    )
    np.testing.assert_allclose([root(4), root(9), root(39)], [0.15, 0.3, 0.15], rtol=1e-5)
    np.testing.assert_allclose(
        [half(5), half(10), half(60), half(110)], [0.15, 0.3, 0.15, 0], atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_keras_s_but_for_its_epsilon(dtype, amsgrad):
    """With an epsilon that does not matter; in each type of weights, as Keras's in float64."""
    options = dict(learning_rate=0.1, epsilon=1e-7, amsgrad=amsgrad)
    gradients = np.random.default_rng(0).choice([-1.0, 0.25, 2.0], (3, 5))
    weights = []
    for kind, own in ((Adam, dtype), (keras.optimizers.Adam, "float64")):
        weight, optimizer = keras.Variable(np.zeros(5), dtype=own), kind(**options)
        optimizer.build([weight])
        for gradient in gradients:
            optimizer.apply([keras.ops.cast(gradient, own)], [weight])
        weights.append(keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32")))
    accuracy = {"bfloat16": 0.02, "float16": 5e-3}.get(dtype, 1e-5)
    np.testing.assert_allclose(*weights, rtol=accuracy, atol=accuracy)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_adam_leaves_a_weight_without_a_gradient(dtype):
    weight, optimizer = keras.Variable([1.0, 1.0], dtype=dtype), Adam(0.1, epsilon=1e-9)
    optimizer.apply([keras.ops.cast([0.0, 0.5], dtype)], [weight])
    np.testing.assert_allclose(keras.ops.cast(weight, "float32"), [1.0, 0.9], rtol=1e-2)


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_weights_of_samples_in_any_type(logits, dtype):
    loss, weight = SmoothedCrossEntropy(), np.array([1, 3])
    expected = loss(TARGETS, logits, weight.astype("float32"))
    np.testing.assert_allclose(loss(TARGETS, logits, weight.astype(dtype)), expected)
    np.testing.assert_allclose(loss(TARGETS, logits, [1, 3]), expected)
    np.testing.assert_allclose(loss(TARGETS, logits, 2), loss(TARGETS, logits), rtol=1e-6)
    columns = np.ones((*TARGETS.shape, 1)) * weight[:, None, None]
    np.testing.assert_allclose(loss(TARGETS[..., None], logits, columns), expected)


def test_targets_are_ids(logits):
    with refused("bad_shape"):
        SmoothedCrossEntropy()(np.eye(logits.shape[-1])[TARGETS], logits)


@pytest.fixture(params=[5, 1], ids=["as many tokens", "fewer tokens"])
def pairs(request):
    """Four pairs; the targets of the last two have 5 tokens, as the first two, or one."""
    source, target = np.random.default_rng(1).integers(3, 9, (2, 4, 5))
    target[2:, request.param :] = 0
    return source, target


@pytest.fixture(scope="module")
def weights_after_fit(make_strategy):
    """weights_after_fit(replicas, ...): the weights after an update by `fit` with all pairs."""

    @functools.cache
    def model_on(replicas):
        keras.utils.set_random_seed(1)
        with make_strategy(replicas).scope():
            model = Transformer(9, num_layers=1, d_model=8, d_ff=8, num_heads=2, dropout=0.0)
            model.build()
            model.compile(keras.optimizers.SGD(1.0), SmoothedCrossEntropy(0.1))
        return model, model.get_weights()

    def weights_after_fit(replicas, source, target):
        model, first = model_on(replicas)
        model.set_weights(first)
        inputs = {"source": source, "target": target}
        model.fit(inputs, target, batch_size=len(target), shuffle=False, verbose=0)
        return np.concatenate([weight.numpy().ravel() for weight in model.weights])

    return weights_after_fit


def test_fit_updates_on_two_replicas_as_on_one(weights_after_fit, pairs):
    """As on one if they have as many tokens; else by the mean of the replicas' means."""
    source, target = pairs
    two, one = (weights_after_fit(replicas, source, target) for replicas in (2, 1))
    halves = [weights_after_fit(1, source[half], target[half]) for half in ([0, 1], [2, 3])]
    np.testing.assert_allclose(two, np.mean(halves, axis=0), atol=1e-6)
    assert np.allclose(two, one, atol=1e-6) == (target != 0).all()
