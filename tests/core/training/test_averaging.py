"""Runs that are the mean of the checkpoints of another."""

import dataclasses
import itertools
import json
import math
import os
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from refusals import refused

from t2t_keras.evaluation.results import run_result
from t2t_keras.io.files import locked_directory
from t2t_keras.training.averaging import (
    average_run,
    drop_near_duplicate,
    select_spaced,
)
from t2t_keras.training.checkpoint_files import (
    checkpoint_paths,
    newest_checkpoint,
    path_at,
    read,
    write,
)
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.cost import CostMeter, TrainingCost, read_costs
from t2t_keras.training.run_config import RunConfig


@pytest.fixture
def make_run(make_record, tmp_path):
    """make_run(): a run with 5 checkpoints of random weights, 60 s apart."""

    def make():
        folder, record = tmp_path / "run", make_record()
        record.save(folder)
        model, random = record.make_model(), np.random.default_rng(0)
        checkpoints = Checkpoints(folder, {"model": model}, 20)
        clock = mock.Mock(training_seconds=itertools.count(60.0, 60.0).__next__)
        cost = CostMeter(TrainingCost(), "a CPU", clock)
        for step in range(1, 6):
            model.set_weights([random.normal(size=weight.shape) for weight in model.get_weights()])
            cost.tokens += 10
            path = checkpoints.save(step, cost.head())
            os.utime(path, (1000 * step, 1000 * step))
        return folder

    return make


def weights_in(run, *steps):
    """The mean of a run's checkpoints, in float64."""
    actual = []
    for step in steps:
        arrays, _ = read(path_at(run, step))
        actual.append(np.concatenate([np.ravel(arrays[name]) for name in sorted(arrays)]))
    return np.mean(actual, axis=0, dtype=np.float64)


@pytest.mark.parametrize(
    ("n", "apart", "steps"),
    [(3, 0, (3, 4, 5)), (2, 0, (4, 5)), (9, 100, (1, 3, 5)), (2, 1500, (3, 5))],
)
def test_the_mean_of_the_arrays(make_run, tmp_path, capsys, n, apart, steps):
    run = make_run()
    if apart > 1000:
        # The times of the files count, 1000 s apart.
        for path in checkpoint_paths(run):
            times = Path(path).stat()
            write(path, read(path)[0], {})
            os.utime(path, (times.st_atime, times.st_mtime))
    mean = average_run(run, tmp_path / "mean", n, apart)
    assert mean == newest_checkpoint(tmp_path / "mean")
    expected = weights_in(run, *steps)
    np.testing.assert_allclose(weights_in(tmp_path / "mean", 5), expected, atol=1e-7)
    out = capsys.readouterr().out
    assert bool(re.search(r" 3 \D+ 100 s \D+.* 9\.$", out, re.MULTILINE)) == (n == 9)
    assert all(f"model.ckpt-{step}" in out for step in steps)
    # So early in a training a mean may be worse than the newest checkpoint.
    assert (f"step {steps[0]} of 5" in out) == (steps[0] < 4)
    assert read_costs(tmp_path / "mean").get(5) == read_costs(run).get(5)


@pytest.mark.parametrize(
    ("seconds", "apart", "taken"),
    [
        (range(0, 721, 120), 600, "16"),
        (range(0, 721, 120), 130, "0246"),
        # A gap is not made up for: each is so much older than the one taken after it.
        ([0, 900, 1000, 1700], 600, "023"),
        ([5], 600, "0"),
        # Seconds are rounded, not cut off.
        ([0, 59.6, 119.4], 60, "012"),
        ([0, 59.4, 118.8], 60, "02"),
    ],
)
def test_the_newest_and_each_next_one_old_enough(seconds, apart, taken):
    assert select_spaced("0123456"[: len(seconds)], seconds, apart) == list(taken)


def test_a_result_says_of_how_many_checkpoints_it_is(make_run, tmp_path):
    run = make_run()
    record = RunConfig.load(run)

    def averaged(name, n, source=run):
        # The record beside the checkpoint counts, which --checkpoint_path may take from elsewhere.
        path = average_run(source, tmp_path / name, n)
        return run_result(record, path, "dev", None, {}).averaged

    assert [averaged("last", 1), averaged("mean", 3), averaged("all", 20)] == [1, 3, 5]
    assert averaged("copy", 1, tmp_path / "mean") == 3
    # As runs were recorded before.
    content = json.loads((run / "run.json").read_text())
    del content["averaged"], content["first_weights"]
    (run / "run.json").write_text(json.dumps(content))
    assert [averaged("unknown", 1), averaged("later", 2)] == [None, 2]


@pytest.mark.parametrize(
    ("steps", "left_out"),
    [
        ((100, 200, 300, 305), [300]),
        ((100, 200, 300, 349), [300]),
        ((100, 200, 300, 350), []),
        ((100, 103, 200, 300), []),
        ((485, 487), []),
        ((5,), []),
    ],
)
def test_the_last_regular_one_before_a_stop_does_not_count_twice(steps, left_out):
    paths = [f"run/model.ckpt-{step}" for step in steps]
    taken = [path for path, step in zip(paths, steps, strict=True) if step not in left_out]
    assert drop_near_duplicate(paths) == taken


@pytest.mark.usefixtures("eagerly")
# Weights that still change fast, such as move around those that they approach, and NaN.
@pytest.mark.parametrize(
    ("scales", "count"), [((50, 30, 10, 1), 1), ((0, 50, -5, 5), 2), ((0, 1, 1, math.nan), 1)]
)
def test_the_dev_loss_decides_how_many(make_record, tmp_path, capsys, scales, count):
    record, random = make_record(), np.random.default_rng(0)
    record.save(tmp_path / "run")
    model = record.make_model()
    first = model.get_weights()
    noise = [random.normal(size=array.shape) for array in first]
    checkpoints = Checkpoints(tmp_path / "run", {"model": model}, 9)
    for step, scale in enumerate(scales, 1):
        model.set_weights([a + scale * b for a, b in zip(first, noise, strict=True)])
        checkpoints.save(step)
    average_run(tmp_path / "run", tmp_path / "mean")
    out = capsys.readouterr().out
    assert RunConfig.load(tmp_path / "mean").averaged == count
    tried = re.findall(r" (\d) .* model\.ckpt-(\d)\S+ .*: (?:nan|[\d.]+)$", out, re.MULTILINE)
    assert tried == [(str(n), str(5 - n)) for n in range(1, count + 3)], "two more are no better"
    steps = range(5 - count, 5)
    expected, actual = weights_in(tmp_path / "run", *steps), tmp_path / "mean"
    np.testing.assert_allclose(weights_in(actual, 4), expected, atol=1e-5)


def test_without_its_data_the_end_of_the_training_is_taken(make_run, tmp_path, capsys):
    run = make_run()
    content = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(content | {"data_dir": str(tmp_path / "gone")}))
    average_run(run, tmp_path / "mean")
    assert "model.ckpt-5." in capsys.readouterr().out
    assert RunConfig.load(tmp_path / "mean").averaged == 1
    for before, after in ((3, 89), (4, 90), (5, 100)):  # The last tenth begins at 90.
        (run / f"model.ckpt-{before}.safetensors").rename(run / f"model.ckpt-{after}.safetensors")
    average_run(run, tmp_path / "later")
    assert RunConfig.load(tmp_path / "later").averaged == 2
    capsys.readouterr()
    for step, is_early in ((75, False), (74, True)):  # Of 100 steps, three quarters.
        (run / "model.ckpt-2.safetensors").rename(run / f"model.ckpt-{step}.safetensors")
        average_run(run, tmp_path / str(step), 4)
        assert (f"step {step} of 100" in capsys.readouterr().out) == is_early
        (run / f"model.ckpt-{step}.safetensors").rename(run / "model.ckpt-2.safetensors")


def test_an_earlier_mean_is_replaced_on_request_alone(make_run, tmp_path):
    run, mean = make_run(), tmp_path / "mean"
    average_run(run, mean, 2)
    with refused("output_exists", "--overwrite"):
        average_run(run, mean, 3)
    assert RunConfig.load(mean).averaged == 2
    average_run(run, mean, 3, overwrite=True)
    expected = weights_in(run, 3, 4, 5)
    np.testing.assert_allclose(weights_in(mean, 5), expected, atol=1e-7)
    assert RunConfig.load(mean).averaged == 3
    before = sorted(run.iterdir())
    with refused("output_exists") as info:
        average_run(run, run, overwrite=True)
    assert "--overwrite" not in str(info.value)
    assert sorted(run.iterdir()) == before


def test_damaged_checkpoints_are_left_out(make_run, tmp_path, capsys):
    run = make_run()
    for step in (2, 5):
        path = Path(path_at(run, step))
        path.write_bytes(path.read_bytes()[:-9])
    mean = average_run(run, tmp_path / "mean", 3)
    expected = weights_in(run, 1, 3, 4)
    np.testing.assert_allclose(weights_in(tmp_path / "mean", 4), expected, atol=1e-7)
    left_out = capsys.readouterr().out.splitlines()[:2]
    assert [re.search(r"ckpt-(\d)", line)[1] for line in left_out] == ["5", "2"]
    assert mean.removesuffix(".safetensors")[-1] == "4"
    for path in checkpoint_paths(run):
        Path(path).write_bytes(b"")
    with refused("checkpoint_damaged"):
        average_run(run, tmp_path / "none", 3)


def test_damaged_moments_do_not_keep_weights_from_being_averaged(make_run, tmp_path):
    run = make_run()
    expected, of_newest = weights_in(run, 4, 5), weights_in(run, 5)
    for step in (4, 5):
        path = Path(path_at(run, step))
        arrays, head = read(path)
        averages = {
            f"optimizer/average/{name.removeprefix('model/')}": array + 1
            for name, array in arrays.items()
        }
        write(path, arrays | averages | {"optimizer/velocity": np.zeros(1)}, head)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    average_run(run, tmp_path / "mean", 2)
    np.testing.assert_allclose(weights_in(tmp_path / "mean", 5), expected, atol=1e-7)
    record = RunConfig.load(run)
    hparams = dataclasses.replace(record.hparams, ema_decay=0.5)
    dataclasses.replace(record, hparams=hparams).save(run)
    average_run(run, tmp_path / "moving", ema=True)
    np.testing.assert_allclose(weights_in(tmp_path / "moving", 5), of_newest + 1, atol=1e-6)


def test_nothing_is_written_over(make_run, tmp_path):
    run = make_run()
    with refused("output_exists", run):
        average_run(run, run)
    for name in ("vocab.model", "model.ckpt-7.safetensors", "manifest.json", "saved_model.pb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
        with refused("output_exists", f"--output_dir={tmp_path / name} ", f" {name}."):
            average_run(run, tmp_path / name)
    with locked_directory(tmp_path / "new", "a-command"), refused("in_use", "a-command"):
        average_run(run, tmp_path / "new")


@pytest.mark.parametrize(
    "number",
    [{"n": 0}, {"n": -1}, *({"seconds_apart": seconds} for seconds in (-0.1, math.inf, math.nan))],
)
def test_numbers_that_make_no_mean(make_run, tmp_path, number):
    with refused("impossible_mean", *number.values()):
        average_run(make_run(), tmp_path / "mean", **number)
    assert not (tmp_path / "mean").exists()
