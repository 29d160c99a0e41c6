"""What a result says of the run that was scored."""

import json
import re
import types

import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.evaluation.bleu import bleu
from t2t_keras.tables.run_result import run_result


@pytest.fixture
def record():
    return types.SimpleNamespace(
        hparams_set="transformer_h1",
        hparams=registry.hparams("transformer_h1", "dropout=0.2"),
        problem=registry.problem("translate_ende", "newstest2014=filtered"),
        random_seed=7,
    )


def test_a_run_s_result(record, tmp_path):
    cost = {"target_tokens": 1234, "seconds": 5.5, "hardware": "8 x P100"}
    (tmp_path / "training_cost.json").write_text(json.dumps({"100": cost}))
    lines = ["The cat sat on the mat.", "A dog."]
    score = bleu(lines, lines)
    result = run_result(record, tmp_path / "model.ckpt-100", "test", score, {"beam_size": 4})
    assert (result.set, result.problem, result.split) == (
        "transformer_h1",
        "translate_ende",
        "test",
    )
    assert result.hparams == {"dropout": 0.2}
    assert result.problem_config["newstest2014"] == "filtered"
    # With these settings the problem is the same again.
    assert registry.problem(result.problem, result.problem_config) == record.problem
    assert (result.steps, result.target_tokens, result.seconds) == (100, 1234, 5.5)
    assert (result.hardware, result.random_seed) == ("8 x P100", 7)
    assert (result.bleu, result.chrf, result.f1) == (100, 100, None)
    assert result.bleu_signature == score.bleu_signature
    assert "tok:13a" in result.bleu_signature
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result.date)
    assert result.decode == {"beam_size": 4}


def test_an_average_is_told_from_its_newest_source(record, tmp_path):
    def checkpoint(folder, weight):
        path = tmp_path / folder / "model.ckpt-7"
        path.parent.mkdir(exist_ok=True)
        return tf.train.Checkpoint(weight=tf.Variable(weight)).write(str(path))

    paths = checkpoint("run", 1.0), checkpoint("mean", 2.0), checkpoint("copy", 1.0)
    source, mean, copy = (run_result(record, path, "dev", None, {}).checkpoint for path in paths)
    assert source == copy != mean
    assert len(mean) == 64
    assert run_result(record, tmp_path / "gone-7", "dev", None, {}).checkpoint == ""


def test_what_is_not_known_is_left_open(record, tmp_path):
    score = types.SimpleNamespace(f1=91.25)
    result = run_result(record, tmp_path / "weights", "dev", score, {})
    assert (result.steps, result.target_tokens, result.seconds) == (None, None, None)
    assert (result.hardware, result.bleu, result.f1) == ("", None, 91.25)
    assert result.averaged is None
