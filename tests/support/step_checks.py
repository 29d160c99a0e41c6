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
    sums = []
    for number, parts in steps:
        sums.append({name: float(value) for name, value in step.update(number, parts).items()})
    return weights_of(step), sums


def assert_same(actual, expected):
    """Both are what `trained` returns."""
    np.testing.assert_allclose(actual[0], expected[0], atol=1e-5)
    for ours, theirs in zip(actual[1], expected[1], strict=True):
        assert ours.keys() == theirs.keys()
        np.testing.assert_allclose([*ours.values()], [*theirs.values()], rtol=1e-5)


def check_average(make_step, steps):
    """The moving average is NumPy's, and the model has it for as long as it is asked for."""
    step = make_step(ema_decay=0.75)
    step.begin_averages()
    expected = None
    for number, parts in steps:
        step.update(number, parts)
        after = weights_of(step)
        expected = after if expected is None else 0.75 * expected + 0.25 * after
        with step.using_averages():
            np.testing.assert_allclose(weights_of(step), expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(weights_of(step), after)
    assert np.abs(after - expected).max() > 1e-3


def first_gradients(step, parts):
    """Returns the gradient of each weight in the first step, and the norm of all."""
    step.begin_averages()
    norm = float(step.update(0, parts)["gradient_norm"])
    means = zip(step.model.trainable_weights, step.optimizer._momentums, strict=True)
    # Adam's mean is a tenth.
    return {weight.path: numpy_of(mean) / 0.1 for weight, mean in means}, norm


def check_trained_parts(make_step, parts):
    """What matches is trained as in the whole model, or by adapters, and nothing else."""
    # Nothing is clipped, but the norm is measured; nor is an update made of rounding.
    exact = dict(dropout=0.0, adam_epsilon=1e-5, clip_norm=1e9, ema_decay=0.5)
    whole, part = (
        make_step(**exact),
        make_step(**exact, recompute=True, trainable=("enc.*", ".*bias")),
    )
    thin = make_step(**exact, lora_rank=2, lora_alpha=6.0, trainable=(".*(kernel|embeddings)",))
    # Weights may be read from a checkpoint after the step is made.
    for step in (whole, part, thin):
        for weight in step.model.weights:
            weight.assign(0.9 * numpy_of(weight))
    before = {weight.path: numpy_of(weight) for weight in thin.model.weights}
    gradients, _ = first_gradients(whole, parts)
    trained, norm = first_gradients(part, parts)
    for after, one in zip(part.model.weights, whole.model.weights, strict=True):
        matches = "/encoder" in after.path or after.path.endswith("bias")
        assert matches == (after.path in trained)
        expected = numpy_of(one) if matches else before[one.path]
        np.testing.assert_allclose(numpy_of(after), expected, atol=1e-5 if matches else 0)
    squares = [np.sum(np.square(gradients[path])) for path in trained]
    np.testing.assert_allclose(norm, np.sqrt(sum(squares)), rtol=1e-4)
    assert len(part.optimizer.variables) == 3 * len(trained) + 1

    # At first, B = 0 of W + scale · A · B has the gradient scale · A^T · dW, and A none.
    factors, _ = first_gradients(thin, parts)
    matrices = [weight for weight in whole.model.weights if len(weight.shape) == 2]
    assert len(factors) == 2 * len(matrices)
    for weight in matrices:
        name = f"{weight.path.rpartition('/')[0]}/lora_{weight.name}"
        expected = 3 * before[f"{name}_a"].T @ gradients[weight.path]
        np.testing.assert_allclose(factors[f"{name}_b"], expected, atol=1e-5)
        assert not factors[f"{name}_a"].any()


def check_dropout(make_step, part):
    """Masks differ by step and by microbatch."""
    # It changes nothing, so that each update sees the same weights.
    step = make_step(dropout=0.5, learning_rate=0.0)
    once, again, later, twice = (
        float(step.update(number, [[part]] * parts)["loss"])
        for number, parts in ((0, 1), (0, 1), (1, 1), (0, 2))
    )
    assert once == again != later
    # Equal masks would give exactly twice the loss.
    assert abs(twice / once - 2) > 1e-5


def check_half_precision(make_step, steps, exact):
    """Weights stay in float32; `exact` is what each step says in float32."""
    for compute_dtype in ("bfloat16", "float16"):
        step = make_step(dropout=0.0, compute_dtype=compute_dtype)
        before, sums = trained(step, steps)
        assert {weight.dtype for weight in step.model.trainable_variables} == {"float32"}
        losses, exact_losses = ([totals["loss"] for totals in side] for side in (sums, exact))
        np.testing.assert_allclose(losses, exact_losses, rtol=2e-2)
        assert not np.equal(losses, exact_losses).any()
    assert numpy_of(step.good_steps) == len(steps)
    # A step whose gradient overflows is skipped, and halves the scale.
    step.loss_scale.assign(1e30)
    after, (sums,) = trained(step, steps[:1])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(numpy_of(step.loss_scale), 5e29, rtol=1e-6)
    assert step.steps_done() == len(steps) + 1
    assert step.weights_are_finite()
    assert np.isfinite(sums["loss"])
