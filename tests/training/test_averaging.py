"""The mean of checkpoints in both formats, and which of them are taken."""

import json
import os

import keras
import numpy as np
import pytest

from t2t_keras.tables.run_result import run_result
from t2t_keras.training import checkpoints, npz_checkpoints
from t2t_keras.training.averaging import average_checkpoints, average_run, spaced_apart
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import read_costs


def make_model():
    layers = [keras.Input((4,)), keras.layers.Dense(3, name="dense")]
    return keras.Sequential(layers, name="model")


@pytest.mark.parametrize(
    ("files", "suffix"), [(checkpoints, ""), (npz_checkpoints, ".npz")], ids=["tensorflow", "npz"]
)
def test_average_is_the_mean_of_the_arrays(files, suffix, tmp_path):
    generator = np.random.default_rng(0)
    model = make_model()
    kept = files.Checkpoints(tmp_path / "run", {"model": model}, 20)
    arrays = []
    for step in (1, 2, 3, 4):
        arrays.append([generator.normal(size=w.shape) for w in model.trainable_variables])
        for weight, array in zip(model.trainable_variables, arrays[-1], strict=True):
            weight.assign(array)
        kept.save(step)
    paths = files.checkpoint_paths(tmp_path / "run")[-3:]
    path = average_checkpoints(files, model, paths, tmp_path / "mean")
    assert path == str(tmp_path / "mean" / f"model.ckpt-4{suffix}")
    other = make_model()
    files.load_weights(other, path)
    for number, weight in enumerate(other.trainable_variables):
        wanted = np.mean([each[number] for each in arrays[1:]], axis=0, dtype=np.float64)
        np.testing.assert_allclose(weight.numpy(), wanted, atol=1e-7)


@pytest.mark.parametrize(
    ("seconds", "apart", "taken"),
    [
        ([0, 120, 240, 360, 480, 600, 720], 600, [1, 6]),
        ([0, 120, 240, 360, 480, 600, 720], 240, [0, 2, 4, 6]),
        ([0, 120, 240, 360, 480, 600, 720], 130, [0, 2, 4, 6]),
        # A gap is not made up for: each is so much older than the one taken after it.
        ([0, 900, 1000, 1700], 600, [0, 2, 3]),
        ([5], 600, [0]),
    ],
)
def test_the_newest_and_each_first_one_old_enough(seconds, apart, taken):
    paths = [f"model.ckpt-{number}" for number in range(len(seconds))]
    assert spaced_apart(paths, seconds, apart) == [f"model.ckpt-{number}" for number in taken]


@pytest.fixture
def run_of_five(make_record, tmp_path):
    """A run with checkpoints at steps 1 to 5, each filled with its number, 60 s apart."""
    folder = tmp_path / "run"
    record = make_record()
    record.save(folder)
    model = record.make_model()
    kept = npz_checkpoints.Checkpoints(folder, {"model": model}, 20)
    costs = {}
    for step in range(1, 6):
        for weight in model.trainable_variables:
            weight.assign(np.full(weight.shape, step, np.float32))
        path = kept.save(step)
        # As if the files had been written 1000 s apart.
        os.utime(path, (1000 * step, 1000 * step))
        costs[step] = {"target_tokens": 10 * step, "seconds": 60.0 * step, "hardware": "a CPU"}
    (folder / "training_cost.json").write_text(json.dumps(costs))
    return folder


def value_of(path):
    (value,) = {float(number) for each in np.load(path).values() for number in np.ravel(each)}
    return value


def test_a_run_s_checkpoints_by_seconds_of_training(run_of_five, tmp_path, capsys):
    mean = average_run(run_of_five, tmp_path / "mean", n=2, seconds_apart=100)
    assert value_of(mean) == (3 + 5) / 2
    assert "is the mean of model.ckpt-3.npz, model.ckpt-5.npz." in capsys.readouterr().out
    (cost,) = read_costs(tmp_path / "mean").items()
    assert cost == (5, read_costs(run_of_five)[5])
    assert cost[1].target_tokens == 50
    mean = average_run(run_of_five, tmp_path / "few", n=5, seconds_apart=100)
    assert value_of(mean) == (1 + 3 + 5) / 3
    out = capsys.readouterr().out
    assert f"There are only 3 checkpoints 100 s apart in {run_of_five}, not 5." in out


def test_without_costs_the_times_of_the_files_count(run_of_five, tmp_path, capsys):
    (run_of_five / "training_cost.json").unlink()
    mean = average_run(run_of_five, tmp_path / "mean", n=3, seconds_apart=1500)
    assert value_of(mean) == (1 + 3 + 5) / 3
    assert "the times of their files are used" in capsys.readouterr().out
    assert not (tmp_path / "mean" / "training_cost.json").exists()


def test_a_result_tells_of_how_many_checkpoints_it_is(run_of_five, tmp_path):
    record = RunRecord.load(run_of_five)

    def told(path):
        # The record beside the checkpoint counts, which --checkpoint_path may take from elsewhere.
        return run_result(record, path, "dev", None, {}).averaged

    assert told(run_of_five / "model.ckpt-5") == 1
    assert told(average_run(run_of_five, tmp_path / "mean", n=3)) == 3
    assert told(average_run(run_of_five, tmp_path / "all", n=9)) == 5
    assert told(average_run(run_of_five, tmp_path / "last", n=1)) == 1
    assert told(average_run(tmp_path / "mean", tmp_path / "copy", n=1)) == 3
    assert told(tmp_path / "nowhere" / "model.ckpt-5") is None

    # As runs were recorded before.
    content = json.loads((run_of_five / "run.json").read_text())
    del content["averaged"]
    (run_of_five / "run.json").write_text(json.dumps(content))
    assert told(run_of_five / "model.ckpt-5") is None
    assert told(average_run(run_of_five, tmp_path / "later", n=2)) == 2
