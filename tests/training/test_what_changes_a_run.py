"""Each hyperparameter, and the seed, changes a run; and first of all what it is said to change."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.hyperparameters import override_hparams
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints.tensorflow import Checkpoints
from t2t_keras.training.options import TrainOptions
from t2t_keras.training.trainer import train

# One step of a tiny model.
TINY = dict(num_layers=1, d_model=4, d_ff=4, num_heads=2, d_k=2, d_v=2, warmup_steps=10)
TINY |= dict(batch_tokens=60, microbatch_tokens=60, max_length=20, train_steps=1)
# Rates of nothing in effect, but not 0: other seeds change nothing, and since Keras draws a seed
# for each dropout that is not 0, the first weights stay the same when a rate is raised.
TINY |= dict(dropout=1e-9, attention_dropout=1e-9, relu_dropout=1e-9)

# The one that is to change nothing but the last bits of sums.
RECOMPUTE = "recompute"

# What can be seen of a run, from its data to its weights. Whatever changes one of these changes
# most of those after it, so what counts is the first that differs.
STEPS, EXAMPLES, PARTS = "steps", "examples of the step", "parts of the step"
SHAPES, FIRST_WEIGHTS, LOSS = "shapes of weights", "first weights", "loss"
MOMENTS, WEIGHTS, NOTHING = "moments", "weights", "nothing"
ORDER = (STEPS, EXAMPLES, PARTS, SHAPES, FIRST_WEIGHTS, LOSS, MOMENTS, WEIGHTS)

# Sets whose models are built or trained differently, and which first differences are tried with
# each: what the model has no part in need not be tried with all.
SETS = {
    "transformer_base": (*ORDER, NOTHING),
    "transformer_parameter_attention_a": (SHAPES, LOSS),
    "transformer_base_v3": (LOSS,),
}

# Of each hyperparameter: another value ("opposite" of true and false), and what differs first.
CHANGES = {
    "num_layers": (2, SHAPES),
    "d_model": (6, SHAPES),
    "d_ff": (5, SHAPES),
    "num_heads": (1, SHAPES),
    "d_k": (3, SHAPES),
    "d_v": (3, SHAPES),
    "self_attention_radius": (1, LOSS),
    "learned_positions": (5, SHAPES),
    "parameter_attention_heads": (3, SHAPES),
    "pre_norm": ("opposite", SHAPES),
    "dropout": (0.5, LOSS),
    "attention_dropout": (0.5, LOSS),
    "relu_dropout": (0.5, LOSS),
    "symbol_dropout": (0.5, LOSS),
    "label_smoothing": (0.3, LOSS),
    "learning_rate": (3.0, WEIGHTS),
    "warmup_steps": (5, WEIGHTS),
    "adam_beta1": (0.8, MOMENTS),
    "adam_beta2": (0.9, MOMENTS),
    "adam_epsilon": (1e-2, WEIGHTS),
    "clip_norm": (1e-3, MOMENTS),
    "train_steps": (2, STEPS),
    "batch_tokens": (40, EXAMPLES),
    "microbatch_tokens": (30, PARTS),
    "max_length": (8, EXAMPLES),
    "compute_dtype": ("bfloat16", LOSS),
    "reduction_dtype": ("bfloat16", NOTHING),  # One replica has nobody to exchange gradients with.
}


def numbers(variables):
    return np.concatenate([np.ravel(variable.numpy()) for variable in variables]).tolist()


@pytest.fixture
def observe(make_record, generated, tmp_path, monkeypatch, eagerly):
    """Returns a function that trains a tiny run, of which nothing is kept, and tells what `ORDER`
    lists.
    """
    monkeypatch.setattr(Checkpoints, "save", lambda self, step: "")
    update = TensorFlowStep.update
    seen = {}

    def watched(self, step, parts, *args):
        weights = self.model.trainable_variables
        if step == 0:
            arrays = [part for microbatch in parts for part in microbatch]
            seen[EXAMPLES] = sorted(
                (source[source != 0].tolist(), target[target != 0].tolist())
                for part in arrays
                for source, target in zip(part.source, part.target, strict=True)
            )
            seen[PARTS] = [[part.source.shape for part in microbatch] for microbatch in parts]
            seen[SHAPES] = [(weight.path, tuple(weight.shape)) for weight in weights]
            seen[FIRST_WEIGHTS] = numbers(weights)
        sums = update(self, step, parts, *args)
        if step == 0:
            seen[LOSS] = float(sums["loss"])
            seen[MOMENTS] = numbers([*self.optimizer._momentums, *self.optimizer._velocities])
            seen[WEIGHTS] = numbers(weights)
        return sums

    def observe(hparams, seed=1):
        record = dataclasses.replace(make_record(), hparams=hparams, random_seed=seed)
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        step = TensorFlowStep(record.make_model, hparams, strategy, seed)
        result = train(record, generated, directory, step, TrainOptions(schedule="train"))
        return {STEPS: result.step, **seen}

    monkeypatch.setattr(TensorFlowStep, "update", watched)
    return observe


def first_difference(one, other):
    """Returns the first of `ORDER` in which two runs differ, by whatever little, or `NOTHING`."""
    return next((name for name in ORDER if one[name] != other[name]), NOTHING)


@pytest.mark.parametrize("name", SETS)
def test_each_hyperparameter_acts(observe, name):
    hparams = registry.hparams(name, TINY)
    before = observe(hparams)
    assert set(hparams.config()) == {*CHANGES, RECOMPUTE}
    first = {field: first for field, (_, first) in CHANGES.items() if first in SETS[name]}
    found = {}
    for field in first:
        value, _ = CHANGES[field]
        value = not getattr(hparams, field) if value == "opposite" else value
        assert value != getattr(hparams, field)
        found[field] = first_difference(before, observe(override_hparams(hparams, {field: value})))
    assert found == first
    same = observe(override_hparams(hparams, {RECOMPUTE: not getattr(hparams, RECOMPUTE)}))
    assert first_difference(before, same) in (MOMENTS, WEIGHTS, NOTHING)
    for part in (MOMENTS, WEIGHTS):
        np.testing.assert_allclose(same[part], before[part], rtol=1e-5, atol=1e-7)


def test_the_same_seed_gives_the_same_run_and_another_another(observe):
    # With everything random that a set has.
    hparams = registry.hparams("transformer_base_v3", TINY | dict(symbol_dropout=0.2, dropout=0.3))
    first = observe(hparams)
    assert first_difference(first, observe(hparams)) == NOTHING
    other = observe(hparams, seed=2)
    assert first_difference(first, other) == EXAMPLES
    assert first[FIRST_WEIGHTS] != other[FIRST_WEIGHTS]
