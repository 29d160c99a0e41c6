"""One step is the same however it is split over replicas and microbatches."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf
from step_checks import (
    assert_same,
    check_average,
    check_dropout,
    check_half_precision,
    check_trained_parts,
    trained,
    weights_of,
)

from t2t_keras.data.batches import Rows, replica_batches
from t2t_keras.training.backends.tensorflow import TensorFlowStep

FLOAT16 = {"compute_dtype": "float16"}


@pytest.fixture(scope="module")
def make_step(make_record, make_strategy):
    """make_step(replicas, xla, **hparams): a step over so many replicas."""

    def make(replicas=1, xla=False, **hparams):
        record = make_record(**hparams)
        return TensorFlowStep(record.make_model, record.hparams, make_strategy(replicas), 1, xla)

    return make


def batches(generated, replicas, microbatch_tokens=512, rows=None, steps=2):
    """Yields some steps' examples; the second has fewer examples than two replicas."""
    store = generated.open_examples("train")
    chosen = np.flatnonzero(store.lengths.max(axis=1) <= 12)
    whole = types.SimpleNamespace(num_replicas=replicas, local_replicas=range(replicas))
    for number in range(steps):
        indices = chosen[40:41] if number == 1 else np.roll(chosen, 7 * number)[:40]
        yield number, list(replica_batches(store, indices, microbatch_tokens, whole, rows))


@pytest.fixture(scope="module")
def one_replica(make_step, generated):
    """What one replica does in one part a step, without dropout; and its step."""
    step = make_step(dropout=0.0)
    return *trained(step, batches(generated, 1)), step


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("tokens", [512, 100])
def test_an_update_does_not_depend_on_how_a_step_is_split(
    make_step, generated, one_replica, tokens
):
    steps = list(batches(generated, 2, tokens))
    assert (len(steps[0][1]) > 1) == (tokens < 512), "a step that is split into microbatches"
    assert 0 in [part.target_tokens for part in steps[1][1][0]], "one replica holds nothing"
    assert_same(trained(make_step(2, dropout=0.0), steps), one_replica[:2])


def test_twenty_steps_of_packed_rows_are_those_of_single_pairs(make_step, generated):
    """Compiled by XLA, which also computes the layers again for their gradients."""
    exact = dict(dropout=0.0, adam_epsilon=1e-3)
    packed = list(batches(generated, 1, rows=Rows(32, 5, 20), steps=20))
    assert len(packed[0][1]) > 1, "a step that is split into microbatches"
    actual = trained(make_step(1, True, **exact, recompute=True), packed)
    assert_same(actual, trained(make_step(1, **exact), batches(generated, 1, steps=20)))
    losses = [sums["loss"] / sums["tokens"] for sums in actual[1]]
    assert losses[-1] < losses[0] - 0.2


def test_one_graph_serves_all_shapes(one_replica):
    assert one_replica[2]._update.experimental_get_tracing_count() == 1


@pytest.mark.usefixtures("eagerly")
def test_dropout_differs_by_replica_step_and_microbatch(make_step, generated):
    half = next(batches(generated, 1))[1][0][0]
    check_dropout(make_step, half)
    # The masks of four parts, however they are divided.
    one, two = (make_step(replicas, dropout=0.5, learning_rate=0.0) for replicas in (1, 2))
    expected = float(one.update(0, [[half]] * 4)["loss"])
    assert float(two.update(0, [[half, half]] * 2)["loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_clipping_is_by_the_norm_of_the_summed_gradient(make_step, generated):
    norms = []
    for replicas in (1, 2):
        step = make_step(replicas, dropout=0.0, clip_norm=0.01, adam_epsilon=10.0)
        before = weights_of(step)
        after, sums = trained(step, list(batches(generated, replicas))[:1])
        norms.append(sums[0]["gradient_norm"])
        # With an epsilon this large Adam's update is proportional to the clipped gradient, whose
        # norm is clip_norm: lr · m_hat / epsilon, and m_hat is the gradient at the first step.
        expected = float(step.schedule(0)) * 0.01 / 10.0
        assert np.linalg.norm(after - before) == pytest.approx(expected, rel=1e-2)
    assert norms[0] > 0.01
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("replicas", "tokens", "changes"),
    [(2, 100, {}), (2, 512, {"optimizer": "lion"}), (1, 512, FLOAT16)],
    ids=["microbatches of two replicas", "Keras's optimizer", "float16"],
)
def test_moving_average(make_step, generated, replicas, tokens, changes):
    make = functools.partial(make_step, replicas, **changes)
    check_average(make, batches(generated, replicas, tokens))


@pytest.mark.usefixtures("eagerly")
def test_an_average_begins_with_the_first_weights(make_step, generated):
    step = make_step(ema_decay=0.75, **FLOAT16)
    step.begin_averages()
    first, parts = weights_of(step), next(batches(generated, 1))[1]
    for scale in (1e30, 1.0):  # The first gradient overflows, and the step is left out.
        step.loss_scale.assign(scale)
        step.update(0, parts)
    expected = 0.75 * first + 0.25 * weights_of(step)
    with step.using_averages():
        np.testing.assert_allclose(weights_of(step), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("eagerly")
def test_trained_parts_and_adapters(make_step, generated):
    check_trained_parts(make_step, next(batches(generated, 1, 256))[1])


@pytest.mark.usefixtures("eagerly")
def test_half_precision_keeps_float32_weights(make_step, generated, one_replica):
    check_half_precision(make_step, list(batches(generated, 1)), one_replica[1])


@pytest.mark.usefixtures("eagerly")
def test_evaluation_has_neither_dropout_nor_smoothing(make_step, generated):
    step = make_step(dropout=0.5, label_smoothing=0.3)
    part = next(batches(generated, 1))[1][0][0]
    sums = step.evaluate([part])
    logits = step.model({"source": part.source, "target": part.target}).numpy()
    target_logits = np.take_along_axis(logits, part.target[..., None], -1)[..., 0]
    losses = np.logaddexp.reduce(np.float64(logits), axis=-1) - target_logits
    real = part.target != 0
    assert sums["tokens"] == real.sum() == part.target_tokens
    assert sums["loss"] == pytest.approx(losses[real].sum(), rel=1e-5)
    assert sums["loss"] == sums["negative_log_likelihood"]


@pytest.mark.usefixtures("eagerly")
def test_gradients_are_exchanged_in_bfloat16_on_request(make_step, generated):
    def first_gradient(replicas):
        step = make_step(replicas, dropout=0.0, reduction_dtype="bfloat16")
        step.update(*next(batches(generated, replicas)))
        # After the first step, Adam's mean is the gradient times 1 - beta1.
        means = [np.ravel(mean.numpy()) for mean in step.optimizer._momentums]
        return np.concatenate(means) / np.float32(1 - 0.9)

    def in_bfloat16(numbers):
        return tf.cast(tf.cast(numbers, tf.bfloat16), tf.float32).numpy()

    exact, rounded = first_gradient(1), first_gradient(2)
    # 8 bits of mantissa for each replica's and for the sum.
    scale = np.abs(exact).max()
    np.testing.assert_allclose(rounded, exact, atol=2**-7 * scale)
    np.testing.assert_allclose(rounded, in_bfloat16(rounded), rtol=1e-5)
    assert np.abs(exact - in_bfloat16(exact)).max() > 1e-4 * scale
