"""Runs that train a part of a model."""

import re

import numpy as np
import pytest
from refusals import refused
from step_checks import numpy_of
from training_runs import weights_in

from t2t_keras.data.batches import make_batch
from t2t_keras.training.averaging import average_run
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints, load_model
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trained_parts import merged_weights
from t2t_keras.training.trainer import train

pytestmark = pytest.mark.usefixtures("eagerly")

LIMITS = dict(max_length=12, batch_tokens=100, microbatch_tokens=100)


@pytest.fixture
def make_step(make_record, make_strategy):
    """make_step(**hparams): a step with fresh weights."""

    def make(**hparams):
        config = make_record(**LIMITS | hparams)
        return TensorFlowStep(config.make_model, config.hparams, make_strategy(), 1)

    return make


@pytest.fixture
def run(make_record, make_step, generated, tmp_path):
    """run(name, start, **hparams): trains in a directory of the test's, from another run's."""

    def run(name, start="", **hparams):
        config, step = make_record(**LIMITS | hparams), make_step(**hparams)
        start = str(tmp_path / start) if start else ""
        options = TrainOptions(warm_start_from=start, save_checkpoints_secs=0)
        return train(config, generated, tmp_path / name, step, options)

    return run


def by_name(model):
    return {weight.path: numpy_of(weight) for weight in model.weights}


def test_a_part_is_trained_and_checkpoints_hold_all(run, tmp_path, capsys):
    run("first", train_steps=1)
    settings = dict(start="first", trainable=("decoder_[0-9]{1,2}/.+",), ema_decay=0.5)
    whole = run("whole", train_steps=3, **settings)
    run("parts", train_steps=2, **settings)
    parts = run("parts", train_steps=3, **settings)
    np.testing.assert_array_equal(weights_in(parts.checkpoint), weights_in(whole.checkpoint))
    assert parts.evaluation == whole.evaluation
    average_run(tmp_path / "whole", tmp_path / "mean", ema=True)
    runs = [tmp_path / name for name in ("first", "whole", "mean")]
    before, *after = (by_name(load_model(directory).model) for directory in runs)
    trained = 0
    for name, value in before.items():
        assert {(weights[name] == value).all() for weights in after} == {"/decoder_0/" not in name}
        trained += value.size * ("/decoder_0/" in name)
    assert re.search(rf" {trained:,} \D+ 1 ", capsys.readouterr().out)


def test_adapters_are_merged_wherever_a_run_is_read(run, make_step, generated, tmp_path, capsys):
    run("first", train_steps=1)
    first = by_name(load_model(tmp_path / "first").model)
    hparams = dict(lora_rank=2, lora_alpha=6.0, ema_decay=0.5)
    settings = dict(start="first", **hparams)
    whole = run("whole", train_steps=3, **settings)
    numbers = by_name(whole.model)
    trained = sum(value.size for name, value in numbers.items() if "lora" in name)
    assert re.search(rf" {trained:,} \D+ 1 ", capsys.readouterr().out)

    expected = dict(first)
    for name, value in first.items():
        np.testing.assert_array_equal(numbers[name], value)
        if value.ndim == 2:
            a, b = (numbers["/lora_".join(name.rsplit("/", 1)) + f"_{factor}"] for factor in "ab")
            assert np.abs(b).max() > 0.01
            expected[name] = value + 3 * a @ b
    record, step = RunConfig.load(tmp_path / "whole"), make_step(**hparams)
    Checkpoints(tmp_path / "whole", step.state(), 1).restore(whole.checkpoint)
    average_run(tmp_path / "whole", tmp_path / "mean", 1)
    models = [load_model(whole.checkpoint).model, load_model(tmp_path / "mean").model]
    models.append(record.make_model())
    models[2].set_weights(merged_weights(step.model, record.hparams))
    batch = make_batch(generated.open_examples("dev"), np.arange(4))
    inputs = {"source": batch.source, "target": batch.target}
    for model in models:
        for name, value in by_name(model).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-6)
        np.testing.assert_allclose(model(inputs), step.model(inputs), atol=1e-5)

    longer = run("whole", train_steps=4, **settings)
    average_run(tmp_path / "whole", tmp_path / "ema", ema=True)
    best, ema = (load_model(tmp_path / name).model for name in ("whole/best", "ema"))
    np.testing.assert_equal(by_name(best), by_name(ema))
    warm = run("warm", "whole/best", train_steps=0, lora_rank=1, trainable=("encoder.*",))
    assert warm.evaluation == pytest.approx(longer.evaluation)
    assert not any("lora" in name for name in by_name(warm.model) if "encoder" not in name)


def test_refused(run, tmp_path):
    with refused("conflicting_settings", "lora_rank=2", "--warm_start_from"):
        run("run", lora_rank=2)
    with refused("unknown_name", "'encodr.*'", "/kernel", "encoder_0, decoder_0"):
        run("run", trainable=("decoder.*", "encodr.*"))
    assert not (tmp_path / "run").exists()
