"""What an optimizer step does on every backend; `make_step(**hparams)` gives one of the run."""

import keras
import numpy as np


def numpy_of(variable):
    return keras.ops.convert_to_numpy(variable.value)


def weights_of(step):
    """Returns the model's weights as one array."""
    return np.concatenate([np.ravel(numpy_of(w)) for w in step.model.trainable_variables])


def trained(step, steps):
    """Returns the weights after the steps, and what each step said."""
    said = []
    for number, parts in steps:
        said.append({name: float(value) for name, value in step.update(number, parts).items()})
    return weights_of(step), said


def assert_same(found, expected):
    """Both are what `trained` returns."""
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        assert ours.keys() == theirs.keys()
        np.testing.assert_allclose([*ours.values()], [*theirs.values()], rtol=1e-5)


def check_average(make_step, steps):
    """The moving average is NumPy's, and the model has it for as long as it is asked for."""
    step = make_step(ema_decay=0.75)
    step.begin()
    expected = None
    for number, parts in steps:
        step.update(number, parts)
        after = weights_of(step)
        expected = after if expected is None else 0.75 * expected + 0.25 * after
        with step.averaged():
            np.testing.assert_allclose(weights_of(step), expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(weights_of(step), after)
    assert np.abs(after - expected).max() > 1e-3


def check_trained_parts(make_step, parts):
    """What matches is trained as in the whole model, and nothing else; nor has it moments."""
    whole = make_step(dropout=0.0)
    before = {weight.path: numpy_of(weight) for weight in whole.model.weights}
    whole.update(0, parts)
    step = make_step(dropout=0.0, recompute=True, trainable="encoder.*+.*bias", ema_decay=0.5)
    step.begin()
    said = step.update(0, parts)
    squares, trained = 0, 0
    for after, one in zip(step.model.weights, whole.model.weights, strict=True):
        matches = "/encoder" in after.path or after.path.endswith("bias")
        expected = numpy_of(one) if matches else before[one.path]
        np.testing.assert_allclose(numpy_of(after), expected, atol=1e-5 if matches else 0)
        trained += matches
        if matches:
            momentum = whole.optimizer._momentums[whole.optimizer._get_variable_index(one)]
            squares += np.sum(np.square(numpy_of(momentum) / 0.1))
    assert 0 < trained < len(before)
    np.testing.assert_allclose(said["gradient_norm"], np.sqrt(squares), rtol=1e-4)
    kept = step.optimizer.variables
    assert len(kept) == 3 * trained + 1, [each.path for each in kept]


def check_dropout(make_step, part):
    """Masks differ by step and by microbatch; returns the loss of the part alone."""
    # It changes nothing, so that each update sees the same weights.
    step = make_step(dropout=0.5, learning_rate=0.0)
    once, again, later, twice = (
        float(step.update(number, [[part]] * parts)["loss"])
        for number, parts in ((0, 1), (0, 1), (1, 1), (0, 2))
    )
    assert once == again != later
    # Equal masks would give exactly twice the loss.
    assert abs(twice / once - 2) > 1e-5
    return once


def check_half_precision(make_step, steps, exact):
    """Weights stay in float32; `exact` is what each step says in float32."""
    for compute_dtype in ("bfloat16", "float16"):
        step = make_step(dropout=0.0, compute_dtype=compute_dtype)
        before, said = trained(step, steps)
        assert {weight.dtype for weight in step.model.trainable_variables} == {"float32"}
        losses, exact_losses = ([each["loss"] for each in side] for side in (said, exact))
        np.testing.assert_allclose(losses, exact_losses, rtol=2e-2)
        assert not np.equal(losses, exact_losses).any()
    assert numpy_of(step.good_steps) == len(steps)
    # A step whose gradient overflows is skipped, and halves the scale.
    step.loss_scale.assign(1e30)
    after, (said,) = trained(step, steps[:1])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(numpy_of(step.loss_scale), 5e29, rtol=1e-6)
    assert step.steps_done() == len(steps) + 1
    assert step.weights_are_finite()
    assert np.isfinite(said["loss"])
