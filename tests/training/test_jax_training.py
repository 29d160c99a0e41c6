"""t2t-trainer under JAX: the same numbers as TensorFlow's, without TensorFlow, and back to it."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.data.batches import make_batch
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints.derived import convert_npz_run
from t2t_keras.training.options import TrainOptions
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trainer import train

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")

# Compiling takes most of the time, so it is told not to optimise.
COMPILE_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="module")
def runs(generated, tmp_path_factory):
    """The folder of the runs that jax_runs.py made."""
    folder = tmp_path_factory.mktemp("jax")
    store = generated.store("train")
    short = np.flatnonzero(store.lengths.max(axis=1) <= 12)[:20]
    batch = make_batch(store, short)
    np.savez(folder / "batch.npz", **dataclasses.asdict(batch))
    config = ",".join(f"{key}={value}" for key, value in generated.problem.config().items())
    flags = [f"--problem={generated.problem.name}", f"--problem_config={config}"]
    flags += [f"--data_dir={generated.directory.parent}", "--hparams_set=transformer_tiny"]
    (folder / "flags.json").write_text(json.dumps(flags))
    finished = subprocess.run(
        [
            *(sys.executable, "-W", "error"),
            *(Path(__file__).with_name("jax_runs.py"), folder),
        ],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILE_QUICKLY},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


@pytest.fixture
def tensorflows_numbers(runs, generated, make_strategy, monkeypatch, tmp_path):
    """Returns a function that converts a checkpoint, trains on, and returns each step's numbers."""

    def numbers(checkpoint, steps):
        found = []
        original = TensorFlowStep.update

        def update(self, step, parts, *arguments):
            assert len(parts) == 1, "not split, as under JAX"
            values = original(self, step, parts, *arguments)
            found.append({name: float(value) for name, value in values.items()} | {"step": step})
            return values

        monkeypatch.setattr(TensorFlowStep, "update", update)
        convert_npz_run(runs / "plain", tmp_path / "run", runs / "plain" / checkpoint)
        record = RunConfig.load(tmp_path / "run")
        hparams = dataclasses.replace(record.hparams, train_steps=steps, microbatch_tokens=512)
        record = dataclasses.replace(record, hparams=hparams)
        step = TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)
        result = train(record, generated, tmp_path / "run", step, TrainOptions())
        return found, result

    return numbers


def close(ours, theirs):
    """Whether the numbers of steps agree; the norm was not always measured by TensorFlow."""
    assert [each["step"] for each in ours] == [each["step"] for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name in ("loss", "negative_log_likelihood", "tokens", "gradient_norm"):
            assert one[name] == pytest.approx(other[name], rel=1e-4), (name, one["step"])


def test_the_same_losses_as_tensorflow_for_20_steps(runs, tensorflows_numbers):
    ours = json.loads((runs / "numbers.json").read_text())[:20]
    norms = [each["gradient_norm"] for each in ours]
    assert min(norms) < 1 < max(norms), "some are clipped, some are not"
    found, _ = tensorflows_numbers("model.ckpt-0.npz", 20)
    close(ours, found)
    assert ours[-1]["loss"] / ours[-1]["tokens"] < 0.9 * ours[0]["loss"] / ours[0]["tokens"]


def test_tensorflow_continues_where_jax_stopped(runs, tensorflows_numbers):
    found, result = tensorflows_numbers("model.ckpt-20.npz", 25)
    close(json.loads((runs / "numbers.json").read_text())[20:], found)
    (line,) = (runs / "plain" / "evaluations.json").read_text().splitlines()
    assert json.loads(line) == pytest.approx({"step": 25, **result.evaluation}, rel=1e-4)


def test_a_converted_mean_has_the_same_logits(runs, tmp_path):
    convert_npz_run(runs / "mean", tmp_path / "mean")
    model = Translator.from_run(tmp_path / "mean").models[0]
    logits = model(dict(np.load(runs / "batch.npz")))
    np.testing.assert_allclose(logits, np.load(runs / "logits.npy"), rtol=1e-5, atol=1e-5)


def test_tensorflow_refuses_a_run_of_jaxs_by_name(runs):
    with pytest.raises(UserError, match=r"t2t-npz-to-checkpoint --model_dir=.*plain"):
        Translator.from_run(runs / "plain")
