"""t2t-trainer under JAX, without TensorFlow: the same numbers; each continues runs of the other."""

import dataclasses
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training_runs import flags_of

from t2t_keras.data.batches import make_batch
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import path_at, read
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trainer import train

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


@pytest.fixture(scope="module")
def runs(generated, make_record, make_strategy, tmp_path_factory):
    """The folder of the runs that jax_runs.py made."""
    folder = tmp_path_factory.mktemp("jax")
    config = make_record(dropout=0.0, clip_norm=1.0, max_length=12)
    recorded_training(config, generated, make_strategy(), folder / "tensorflow", 3)
    shutil.copytree(folder / "tensorflow", folder / "continued")
    _, steps = recorded_training(config, generated, make_strategy(), folder / "continued", 6)
    (folder / "next_steps.json").write_text(json.dumps(steps))
    store = generated.open_examples("train")
    short = np.flatnonzero(store.lengths.max(axis=1) <= 12)[:20]
    np.savez(folder / "batch.npz", **make_batch(store, short).inputs())
    # Without those of the hyperparameters.
    (folder / "flags.json").write_text(json.dumps(flags_of(make_record())[:-1]))
    # What several runs compile is compiled once.
    cache = {"JAX_ENABLE_COMPILATION_CACHE": "true", "JAX_COMPILATION_CACHE_DIR": f"{folder}/c"}
    cache |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("jax_runs.py"), folder],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | cache,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


def recorded_training(config, generated, strategy, folder, steps):
    """Trains up to a step with TensorFlow; returns the result and the numbers of each step."""
    hparams = dataclasses.replace(config.hparams, train_steps=steps, microbatch_tokens=1024)
    config, numbers = dataclasses.replace(config, hparams=hparams), []
    step = TensorFlowStep(config.make_model, hparams, strategy, 1)

    def update(number, parts, *arguments):
        assert len(parts) == 1, "not split, as under JAX"
        sums = TensorFlowStep.update(step, number, parts, *arguments)
        numbers.append({name: float(value) for name, value in sums.items()} | {"step": number})
        return sums

    step.update = update
    return train(config, generated, folder, step, TrainOptions()), numbers


@pytest.mark.parametrize(
    ("name", "first", "last"), [("plain", 0, 20), ("plain", 20, 25), ("every option", 0, 5)]
)
def test_tensorflow_trains_on_as_jax_does(
    runs, generated, make_strategy, tmp_path, request, name, first, last
):
    if last - first < 20:
        request.getfixturevalue("eagerly")
    config = RunConfig.load(runs / name)
    config.save(tmp_path / "run")
    shutil.copy(path_at(runs / name, first), tmp_path / "run")
    result, actual = recorded_training(config, generated, make_strategy(), tmp_path / "run", last)
    expected = json.loads((runs / "numbers.json").read_text())[name][first:last]
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        for figure in ("step", "loss", "negative_log_likelihood", "tokens", "gradient_norm"):
            # Later steps add up what the backends round differently.
            rel = 1e-5 if theirs["step"] == first else 1e-4
            assert ours[figure] == pytest.approx(theirs[figure], rel=rel), figure
    if last == 25:
        (line,) = (runs / "plain" / "evaluations.json").read_text().splitlines()
        evaluation = {"step": 25, **result.evaluation, "train_loss": result.history["loss"][0]}
        assert json.loads(line) == pytest.approx(evaluation, rel=1e-4)
    if last == 20:
        norms = [totals["gradient_norm"] for totals in expected]
        assert min(norms) < 1 < max(norms), "some are clipped, some are not"
        losses = [totals["loss"] / totals["tokens"] for totals in expected]
        assert losses[-1] < 0.9 * losses[0]


def test_two_processes_of_two_devices_train_as_one_device_of_tensorflow(
    make_record, generated, make_strategy, tmp_path
):
    # Adam's own epsilon would make updates of gradients that are nothing but rounding.
    exact = dict(dropout=0.0, clip_norm=1.0, max_length=12, adam_epsilon=1e-2, batching="rows")
    config = make_record(**exact, train_steps=20, microbatch_tokens=1024)
    # The backends draw different initial weights.
    recorded_training(config, generated, make_strategy(), tmp_path / "tensorflow", 1)
    shutil.copytree(tmp_path / "tensorflow", tmp_path / "jax")
    servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    flags = [*flags_of(config), f"--output_dir={tmp_path / 'jax'}"]
    flags += ["--schedule=train", "--cpu_replicas=2"]
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_trainer", *flags]
    processes = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        workers = json.dumps({"cluster": {"worker": addresses}, "task": task})
        environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CONFIG": workers}
        options = dict(env=os.environ | environment, text=True, stderr=subprocess.STDOUT)
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, **options))
    for process in processes:
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output
        assert "on 4 replica(s)" in output
    recorded_training(config, generated, make_strategy(), tmp_path / "tensorflow", 20)
    actual, expected = (read(path_at(tmp_path / run, 20))[0] for run in ("jax", "tensorflow"))
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, atol=1e-5, err_msg=name)


def test_a_mean_has_the_same_logits_under_tensorflow(runs):
    model = Translator.from_run(runs / "mean").models[0]
    logits = model(dict(np.load(runs / "batch.npz")))
    np.testing.assert_allclose(logits, np.load(runs / "logits.npy"), rtol=1e-5, atol=1e-5)
