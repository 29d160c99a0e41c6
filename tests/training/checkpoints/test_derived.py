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
from t2t_keras.training.cost import CostMeter, read_costs
from t2t_keras.training.run_config import RunConfig

FORMATS = pytest.mark.parametrize("files", [checkpoints, npz], ids=["tensorflow", "npz"])


@pytest.fixture
def make_run(make_record, tmp_path):
    """make_run(files): a run with 5 checkpoints of random weights, 60 s apart."""

    def make(files):
        folder, record = tmp_path / "run", make_record()
        record.save(folder)
        model, random = record.make_model(), np.random.default_rng(0)
        kept, cost = files.Checkpoints(folder, {"model": model}, 20), CostMeter(folder, 0, "a CPU")
        for step in range(1, 6):
            model.set_weights([random.normal(size=each.shape) for each in model.get_weights()])
            cost.add_tokens(10)
            cost.write(step, 60.0 * step)
            kept.save(step)
            for file in folder.glob(f"model.ckpt-{step}.*"):
                os.utime(file, (1000 * step, 1000 * step))
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
    ("n", "apart", "steps"), [(3, 0, (3, 4, 5)), (9, 100, (1, 3, 5)), (2, 1500, (3, 5))]
)
def test_the_mean_of_the_arrays(files, make_run, tmp_path, capsys, n, apart, steps):
    run = make_run(files)
    if apart > 1000:
        # The times of the files count, 1000 s apart.
        (run / "training_cost.json").unlink()
    mean = average_run(run, tmp_path / "mean", n, apart)
    assert mean == files.newest_checkpoint(tmp_path / "mean")
    expected = weights_in(files, run, *steps)
    np.testing.assert_allclose(weights_in(files, tmp_path / "mean", 5), expected, atol=1e-7)
    out = capsys.readouterr().out
    assert ("only 3 checkpoints 100 s apart" in out) == (n == 9)
    assert all(f"model.ckpt-{step}" in out for step in steps)
    assert read_costs(tmp_path / "mean").get(5) == read_costs(run).get(5)


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

    def averaged(name, n, source=run):
        # The record beside the checkpoint counts, which --checkpoint_path may take from elsewhere.
        path = average_run(source, tmp_path / name, n)
        return run_result(record, path, "dev", None, {}).averaged

    assert [averaged("last", 1), averaged("mean", 3)] == [1, 3]
    assert averaged("copy", 1, tmp_path / "mean") == 3
    # As runs were recorded before.
    content = json.loads((run / "run.json").read_text())
    del content["averaged"], content["first_weights"]
    (run / "run.json").write_text(json.dumps(content))
    assert [averaged("unknown", 1), averaged("later", 2)] == [None, 2]


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
    with pytest.raises(UserError, match="already contains"):
        derive(run, run)
    for name in ("vocab.model", "model.ckpt-7.index", "manifest.json", "saved_model.pb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
        with pytest.raises(UserError, match=f"already contains {name}"):
            derive(run, tmp_path / name)
    with locked_directory(tmp_path / "new", "a-command"), pytest.raises(UserError, match="a-comm"):
        derive(run, tmp_path / "new")


def test_what_cannot_be_converted(make_run, make_record, tmp_path, monkeypatch):
    run = make_run(npz)
    make_record().save(tmp_path / "empty")
    (run / "other").write_bytes((run / "model.ckpt-5.npz").read_bytes())

    def refused(reason, model_dir, path=""):
        with pytest.raises(UserError, match=reason):
            convert_npz_run(model_dir, tmp_path / "new", path)
        assert not (tmp_path / "new").exists()

    refused("no run", tmp_path / "none")
    refused("no .npz checkpoint", tmp_path / "empty")
    refused("no checkpoint model.ckpt-6.npz", run, "model.ckpt-6.npz")
    refused("no checkpoint .*other.npz", run, run / "other")
    make_record(d_ff=48).save(run)
    refused(r"\[32\] there, \[48\] in the model", run)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    refused("KERAS_BACKEND=tensorflow", run)
