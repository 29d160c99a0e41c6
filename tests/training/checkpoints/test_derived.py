"""Runs made of others: the mean of checkpoints in both formats, and .npz as TensorFlow's."""

import json
import os

import keras
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.run_result import run_result
from t2t_keras.io.state import locked_directory
from t2t_keras.training.checkpoints import npz
from t2t_keras.training.checkpoints import tensorflow as checkpoints
from t2t_keras.training.checkpoints.derived import average_run, convert_npz_run, spaced_apart
from t2t_keras.training.cost import read_costs
from t2t_keras.training.run_config import RunConfig

FORMATS = pytest.mark.parametrize("files", [checkpoints, npz], ids=["tensorflow", "npz"])


@pytest.fixture
def make_run(make_record, tmp_path):
    """Returns a function that makes a run with 5 checkpoints of random weights, 60 s apart."""

    def make(files):
        folder = tmp_path / "run"
        record = make_record()
        record.save(folder)
        model, random = record.make_model(), np.random.default_rng(0)
        kept = files.Checkpoints(folder, {"model": model}, 20)
        costs = {}
        for step in range(1, 6):
            for weight in model.trainable_variables:
                weight.assign(random.normal(size=weight.shape))
            kept.save(step)
            for file in folder.glob(f"model.ckpt-{step}.*"):
                os.utime(file, (1000 * step, 1000 * step))
            costs[step] = {"target_tokens": 10 * step, "seconds": 60.0 * step, "hardware": "a CPU"}
        (folder / "training_cost.json").write_text(json.dumps(costs))
        return folder

    return make


def weights_in(files, run, *steps):
    """The mean of a run's checkpoints, in float64."""
    model, found = RunConfig.load(run).make_model(), []
    for step in steps:
        files.load_weights(model, run / f"model.ckpt-{step}")
        found.append(np.concatenate([np.ravel(each) for each in model.get_weights()]))
    return np.mean(found, axis=0, dtype=np.float64)


@FORMATS
@pytest.mark.parametrize(
    ("n", "apart", "steps"), [(3, 0, (3, 4, 5)), (2, 100, (3, 5)), (9, 100, (1, 3, 5))]
)
def test_the_mean_of_the_arrays(files, make_run, tmp_path, capsys, n, apart, steps):
    run = make_run(files)
    mean = average_run(run, tmp_path / "mean", n, apart)
    assert mean == files.newest_checkpoint(tmp_path / "mean")
    expected = weights_in(files, run, *steps)
    np.testing.assert_allclose(weights_in(files, tmp_path / "mean", 5), expected, atol=1e-7)
    out = capsys.readouterr().out
    assert ("only 3 checkpoints 100 s apart" in out) == (n == 9)
    assert all(f"model.ckpt-{step}" in out for step in steps)
    assert read_costs(tmp_path / "mean") == {5: read_costs(run)[5]}


@FORMATS
def test_without_costs_the_times_of_the_files_count(files, make_run, tmp_path, capsys):
    run = make_run(files)
    (run / "training_cost.json").unlink()
    average_run(run, tmp_path / "mean", n=3, seconds_apart=1500)
    assert "mean of model.ckpt-1" in (out := capsys.readouterr().out)
    assert not any(f"model.ckpt-{step}" in out for step in (2, 4))


@pytest.mark.parametrize(
    ("seconds", "apart", "taken"),
    [
        (range(0, 721, 120), 600, "16"),
        (range(0, 721, 120), 130, "0246"),
        # A gap is not made up for: each is so much older than the one taken after it.
        ([0, 900, 1000, 1700], 600, "023"),
        ([5], 600, "0"),
    ],
)
def test_the_newest_and_each_next_one_old_enough(seconds, apart, taken):
    assert spaced_apart("0123456"[: len(seconds)], seconds, apart) == list(taken)


def test_a_result_says_of_how_many_checkpoints_it_is(make_run, tmp_path):
    run = make_run(npz)
    record = RunConfig.load(run)

    def averaged(path):
        # The record beside the checkpoint counts, which --checkpoint_path may take from elsewhere.
        return run_result(record, path, "dev", None, {}).averaged

    assert averaged(run / "model.ckpt-5") == 1
    assert averaged(average_run(run, tmp_path / "mean", n=3)) == 3
    assert averaged(average_run(run, tmp_path / "last", n=1)) == 1
    assert averaged(average_run(tmp_path / "mean", tmp_path / "copy", n=1)) == 3
    # As runs were recorded before.
    content = json.loads((run / "run.json").read_text())
    del content["averaged"]
    (run / "run.json").write_text(json.dumps(content))
    assert averaged(run / "model.ckpt-5") is None
    assert averaged(average_run(run, tmp_path / "later", n=2)) == 2


def test_npz_becomes_tensorflows(make_run, tmp_path):
    run = make_run(npz)
    made = convert_npz_run(run, tmp_path / "newest")
    assert made == checkpoints.newest_checkpoint(tmp_path / "newest")
    found = weights_in(checkpoints, tmp_path / "newest", 5)
    np.testing.assert_array_equal(found, weights_in(npz, run, 5))
    assert read_costs(tmp_path / "newest")[5].target_tokens == 50
    made = convert_npz_run(run, tmp_path / "named", run / "model.ckpt-2")
    assert made.endswith("model.ckpt-2")


@pytest.mark.parametrize("derive", [average_run, convert_npz_run])
def test_nothing_is_written_over(derive, make_run, tmp_path):
    run = make_run(npz)
    before = {path: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(UserError, match="already contains"):
        derive(run, run)
    assert before == {path: path.read_bytes() for path in run.iterdir()}
    for name in ("vocab.model", "model.ckpt-7.index", "manifest.json", "saved_model.pb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
        with pytest.raises(UserError, match=f"already contains {name}"):
            derive(run, tmp_path / name)
    with (
        locked_directory(tmp_path / "locked", "t2t-trainer"),
        pytest.raises(UserError, match="t2t-trainer"),
    ):
        derive(run, tmp_path / "locked")


def test_what_cannot_be_converted(make_run, make_record, tmp_path, monkeypatch):
    run = make_run(npz)
    make_record().save(tmp_path / "empty")
    (run / "other").write_bytes((run / "model.ckpt-5.npz").read_bytes())
    for model_dir, path, reason in (
        (tmp_path / "none", "", "no run"),
        (tmp_path / "empty", "", "no .npz checkpoint"),
        (run, "model.ckpt-6.npz", "no checkpoint model.ckpt-6.npz"),
        (run, run / "other", "no checkpoint .*other.npz"),
    ):
        with pytest.raises(UserError, match=reason):
            convert_npz_run(model_dir, tmp_path / "new", path)
    make_record(d_ff=48).save(run)
    with pytest.raises(UserError, match=r"\[32\] there, \[48\] in the model"):
        convert_npz_run(run, tmp_path / "new")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match="KERAS_BACKEND=tensorflow"):
        convert_npz_run(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()
