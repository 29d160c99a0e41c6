"""What a result says of the run that was scored."""

import dataclasses
import datetime
import time
import types

import numpy as np
import pytest

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.environment import source_version
from t2t_keras.evaluation.results import run_result
from t2t_keras.metrics import bleu
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig

CONFIG = RunConfig(
    make_problem("translate_ende", "newstest2014=filtered"),
    hyperparameters.hparams("transformer_h1", "dropout=0.2"),
    random_seed=7,
)


@pytest.fixture
def far_east(monkeypatch):
    monkeypatch.setenv("TZ", "EAST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_a_run_s_result(tmp_path):
    cost = {"target_tokens": 1234, "seconds": 5.5, "hardware": "8 x P100"}
    lines = ["The cat sat on the mat.", "A dog-house."], ["The cat sat on a mat.", "A dog-house."]
    score = bleu(*lines, conventions=["compound_split"], language="en")
    score = dataclasses.replace(score, metrics={"own": 0.5})
    loss = {"loss": 1.23456789}
    path = Checkpoints(tmp_path, {"model": {}}, 1).save(100, {"cost": cost})
    result = run_result(CONFIG, path, "test", score, {"beam_size": 4}, "news", loss)
    assert (result.loss, result.text) == (1.234568, "news")
    actual = result.set, result.problem, result.split, result.random_seed
    assert actual == ("transformer_h1", "translate_ende", "test", 7)
    assert result.hparams == {"dropout": 0.2}
    # With these settings the problem is the same again.
    assert make_problem(result.problem, result.problem_config) == CONFIG.problem
    assert (result.steps, result.averaged, result.decode) == (100, None, {"beam_size": 4})
    assert {name: getattr(result, name) for name in cost} == cost
    assert score.chrf > score.bleu + 1
    scores = round(score.bleu, 3), round(score.chrf, 3), None
    assert (result.bleu, result.chrf, result.f1) == scores
    assert result.main == {"bleu": scores[0]}
    split = score.conventions["compound_split"]
    recorded = {"bleu": round(split.bleu, 3), "signature": split.signature}
    assert result.conventions == {"compound_split": recorded}
    assert result.bleu_signature == score.bleu_signature
    assert (result.metrics, result.commit) == ({"own": 0.5}, source_version())
    date = datetime.datetime.strptime(result.date, "%Y-%m-%dT%H:%M:%S%z")
    assert 0 <= time.time() - date.timestamp() < 60


def test_an_average_is_told_from_its_newest_source(tmp_path):
    def checkpoint(folder, weight):
        return Checkpoints(tmp_path / folder, {"model": {"a": np.float32(weight)}}, 1).save(7)

    paths = checkpoint("run", 1.0), checkpoint("mean", 2.0), checkpoint("copy", 1.0)
    source, mean, copy = (run_result(CONFIG, path, "dev", None, {}).checkpoint for path in paths)
    assert source == copy != mean
    assert len(mean) == 64
    assert run_result(CONFIG, tmp_path / "gone-7", "dev", None, {}).checkpoint == ""


def test_what_is_unknown_is_left_open(tmp_path, monkeypatch):
    score = types.SimpleNamespace(f1=91.25, main=("f1", 91.25))
    result = run_result(CONFIG, tmp_path / "w", "dev", score, {})
    assert (result.steps, result.target_tokens, result.seconds) == (None, None, None)
    assert (result.hardware, result.bleu, result.f1) == ("", None, 91.25)
    assert result.main == {"f1": 91.25}
    monkeypatch.setattr(RunConfig, "load", lambda _: types.SimpleNamespace(averaged=5))
    assert [run_result(CONFIG, name, "dev", None, {}).averaged for name in ("w", "")] == [5, None]
