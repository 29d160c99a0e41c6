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
from training_runs import flags_of

from t2t_keras.data.batches import make_batch
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints.derived import convert_npz_run
from t2t_keras.training.options import TrainOptions
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trainer import train

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")

# Compiling takes most of the time, so it is told not to optimise.
COMPILE_QUICKLY = f"{os.environ['XLA_FLAGS']} --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="module")
def runs(generated, make_record, tmp_path_factory):
    """The folder of the runs that jax_runs.py made."""
    folder = tmp_path_factory.mktemp("jax")
    store = generated.store("train")
    short = np.flatnonzero(store.lengths.max(axis=1) <= 12)[:20]
    np.savez(folder / "batch.npz", **dataclasses.asdict(make_batch(store, short)))
    # Without those of the hyperparameters.
    (folder / "flags.json").write_text(json.dumps(flags_of(make_record())[:-1]))
    # What several runs compile is compiled once.
    cache = {"JAX_ENABLE_COMPILATION_CACHE": "true", "JAX_COMPILATION_CACHE_DIR": f"{folder}/c"}
    cache |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("jax_runs.py"), folder],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILE_QUICKLY} | cache,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


@pytest.mark.parametrize(
    ("name", "first", "last"), [("plain", 0, 20), ("plain", 20, 25), ("every option", 0, 5)]
)
def test_tensorflow_trains_on_as_jax_does(
    runs, generated, make_strategy, tmp_path, name, first, last
):
    convert_npz_run(runs / name, tmp_path / "run", runs / name / f"model.ckpt-{first}.npz")
    config = RunConfig.load(tmp_path / "run")
    hparams = dataclasses.replace(config.hparams, train_steps=last, microbatch_tokens=512)
    step, found = TensorFlowStep(config.make_model, hparams, make_strategy(), 1), []

    def update(number, parts, *arguments):
        assert len(parts) == 1, "not split, as under JAX"
        sums = TensorFlowStep.update(step, number, parts, *arguments)
        found.append({name: float(value) for name, value in sums.items()} | {"step": number})
        return sums

    step.update = update
    config = dataclasses.replace(config, hparams=hparams)
    result = train(config, generated, tmp_path / "run", step, TrainOptions())
    expected = json.loads((runs / "numbers.json").read_text())[name][first:last]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        for figure in ("step", "loss", "negative_log_likelihood", "tokens", "gradient_norm"):
            assert ours[figure] == pytest.approx(theirs[figure], rel=1e-4), figure
    if last == 25:
        (line,) = (runs / "plain" / "evaluations.json").read_text().splitlines()
        evaluation = {"step": 25, **result.evaluation, "train_loss": result.history["loss"][0]}
        assert json.loads(line) == pytest.approx(evaluation, rel=1e-4)
    if last == 20:
        norms = [each["gradient_norm"] for each in expected]
        assert min(norms) < 1 < max(norms), "some are clipped, some are not"
        losses = [each["loss"] / each["tokens"] for each in expected]
        assert losses[-1] < 0.9 * losses[0]


def test_a_converted_mean_has_the_same_logits(runs, tmp_path):
    convert_npz_run(runs / "mean", tmp_path / "mean")
    model = Translator.from_run(tmp_path / "mean").models[0]
    logits = model(dict(np.load(runs / "batch.npz")))
    np.testing.assert_allclose(logits, np.load(runs / "logits.npy"), rtol=1e-5, atol=1e-5)
