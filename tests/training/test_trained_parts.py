"""Runs that train a part of a model."""

import numpy as np
import pytest
from step_checks import numpy_of
from training_runs import weights_in

from t2t_keras.errors import UserError
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints.derived import average_run
from t2t_keras.training.options import TrainOptions
from t2t_keras.training.trained_model import load_model
from t2t_keras.training.trainer import train

LIMITS = dict(max_length=12, batch_tokens=100, microbatch_tokens=100)


@pytest.fixture
def run(make_record, make_strategy, generated, tmp_path):
    """run(name, start, **hparams): trains in a directory of the test's, from another run's."""

    def run(name, start="", **hparams):
        config = make_record(**LIMITS | hparams)
        step = TensorFlowStep(config.make_model, config.hparams, make_strategy(), 1)
        start = str(tmp_path / start) if start else ""
        options = TrainOptions(warm_start_from=start, save_checkpoints_secs=0)
        return train(config, generated, tmp_path / name, step, options)

    return run


def by_name(model):
    return {weight.path: numpy_of(weight) for weight in model.weights}


def test_a_part_is_trained_and_checkpoints_hold_all(run, tmp_path, capsys):
    run("first", train_steps=1)
    settings = dict(start="first", trainable="decoder_0/.*", ema_decay=0.5)
    whole = run("whole", train_steps=3, **settings)
    run("parts", train_steps=2, **settings)
    parts = run("parts", train_steps=3, **settings)
    np.testing.assert_array_equal(weights_in(parts.checkpoint), weights_in(whole.checkpoint))
    assert parts.evaluation == whole.evaluation
    average_run(tmp_path / "whole", tmp_path / "mean", ema=True)
    before, *after = (
        by_name(load_model(tmp_path / each).model) for each in ("first", "whole", "mean")
    )
    trained = 0
    for name, value in before.items():
        for each in after:
            assert (each[name] == value).all() == ("/decoder_0/" not in name)
        trained += value.size * ("/decoder_0/" in name)
    assert f", of which {trained:,} are trained, on 1 replica" in capsys.readouterr().out


@pytest.mark.usefixtures("eagerly")
def test_what_matches_nothing_is_told_the_names(run, tmp_path):
    with pytest.raises(UserError, match=r"'encodr.*'.*/kernel; .* encoder_0, decoder_0"):
        run("run", trainable="decoder.*+encodr.*")
    assert not (tmp_path / "run").exists()
