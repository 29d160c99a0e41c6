"""t2t-trainer under JAX: the same numbers as TensorFlow's, without TensorFlow, and back to it."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.data.batches import token_arrays
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.tables.results import read_results
from t2t_keras.training.npz_conversion import convert_npz_run
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.tensorflow_step import TensorFlowStep
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.trainer import train
from t2t_keras.training.training_cost import hardware_name, read_costs

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")

# Compiling takes most of the time, so it is told not to optimise.
COMPILE_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="module")
def runs(generated, tmp_path_factory):
    """The folder of the runs that jax_runs.py made."""
    folder = tmp_path_factory.mktemp("jax")
    store = generated.store("train")
    short = np.flatnonzero(store.lengths.max(axis=1) <= 12)[:20]
    batch = token_arrays(store, short)
    np.savez(folder / "batch.npz", **dataclasses.asdict(batch))
    config = ",".join(f"{key}={value}" for key, value in generated.problem.config().items())
    flags = [f"--problem={generated.problem.name}", f"--problem_config={config}"]
    flags += [f"--data_dir={generated.directory.parent}", "--hparams_set=transformer_tiny"]
    (folder / "flags.json").write_text(json.dumps(flags))
    finished = subprocess.run(
        [
            *(sys.executable, "-W", "error"),
            *(Path(__file__).with_name("jax_runs.py"), folder, folder / "flags.json"),
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
def seen(runs):
    """What jax_runs.py saw."""
    return json.loads((runs / "seen.json").read_text()) | dict(np.load(runs / "seen.npz"))


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

        def make_step(record, **options):
            return TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)

        monkeypatch.setattr(TensorFlowStep, "update", update)
        convert_npz_run(runs / "plain", tmp_path / "run", runs / "plain" / checkpoint)
        record = RunRecord.load(tmp_path / "run")
        hparams = dataclasses.replace(record.hparams, train_steps=steps, microbatch_tokens=512)
        record = dataclasses.replace(record, hparams=hparams)
        result = train(record, generated, tmp_path / "run", make_step, TrainOptions())
        return found, result

    return numbers


def close(ours, theirs):
    """Whether the numbers of steps agree; the norm was not always measured by TensorFlow."""
    assert [each["step"] for each in ours] == [each["step"] for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name in ("loss", "negative_log_likelihood", "tokens", "gradient_norm"):
            assert one[name] == pytest.approx(other[name], rel=1e-4), (name, one["step"])


def test_the_same_losses_as_tensorflow_for_20_steps(seen, tensorflows_numbers):
    assert seen["plain to 20"]["status"] == 0, seen["plain to 20"]["err"]
    ours = seen["numbers"][:20]
    norms = [each["gradient_norm"] for each in ours]
    assert min(norms) < 1 < max(norms), "some are clipped, some are not"
    found, _ = tensorflows_numbers("model.ckpt-0.npz", 20)
    close(ours, found)
    assert ours[-1]["loss"] / ours[-1]["tokens"] < 0.9 * ours[0]["loss"] / ours[0]["tokens"]


def test_tensorflow_goes_on_where_jax_stopped(runs, seen, tensorflows_numbers):
    found, result = tensorflows_numbers("model.ckpt-20.npz", 25)
    close(seen["numbers"][20:], found)
    (line,) = (runs / "plain" / "evaluations.json").read_text().splitlines()
    assert json.loads(line) == pytest.approx({"step": 25, **result.evaluation}, rel=1e-4)


def test_a_converted_mean_decodes_and_has_the_same_logits(runs, seen, tmp_path):
    made = convert_npz_run(runs / "mean", tmp_path / "mean")
    assert made == str(tmp_path / "mean" / "model.ckpt-25")
    translator = Translator.from_run(tmp_path / "mean")
    logits = translator.models[0](dict(np.load(runs / "batch.npz")))
    np.testing.assert_allclose(logits, seen["logits"], rtol=1e-5, atol=1e-5)
    assert len(translator.translate(["0 1 1", "1 0"])) == 2


def test_resumed_is_never_stopped(runs, seen):
    assert "Continuing from" in seen["parts to 5"]["out"]
    whole, parts = (np.load(runs / name / "model.ckpt-5.npz") for name in ("whole", "parts"))
    assert set(whole.files) == set(parts.files)
    assert sum(name.startswith("optimizer/") for name in whole.files) == 1 + 2 * 31
    assert whole["optimizer/iterations"] == 5
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)


def test_the_mean_is_the_mean_of_the_arrays(runs, seen):
    assert "is the mean of model.ckpt-20.npz, model.ckpt-25.npz." in seen["mean"]["out"]
    mean, *of = (
        np.load(runs / name)
        for name in ("mean/model.ckpt-25.npz", "plain/model.ckpt-20.npz", "plain/model.ckpt-25.npz")
    )
    tokens = [each["tokens"] for each in seen["numbers"]]
    assert read_costs(runs / "plain")[20].target_tokens == sum(tokens[:20])
    assert read_costs(runs / "mean")[25].target_tokens == sum(tokens)
    assert read_costs(runs / "mean")[25].hardware == hardware_name()
    assert set(mean.files) == {name for name in of[0].files if name.startswith("model/")}
    for name in mean.files:
        wanted = np.mean([each[name] for each in of], axis=0, dtype=np.float64)
        np.testing.assert_allclose(mean[name], wanted, rtol=1e-6, atol=1e-8)


def test_the_best_weights_and_a_warm_start(runs, seen):
    last, best, warm = (
        np.load(runs / name)
        for name in (
            "plain/model.ckpt-25.npz",
            "plain/best/model.ckpt-25.npz",
            "warm/model.ckpt-0.npz",
        )
    )
    assert "Starting from the weights of" in seen["warm to 0"]["out"]
    for name in best.files:
        np.testing.assert_array_equal(best[name], last[name])
        np.testing.assert_array_equal(warm[name], last[name])


def test_curves_and_plain_lines_without_tensorboard_and_tqdm(runs, seen):
    lines = (runs / "plain" / "train" / "scalars.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    assert [point["step"] for point in points] == [10, 20]
    names = "step loss perplexity accuracy learning_rate gradient_norm tokens_per_second".split()
    assert set(points[0]) == set(names)
    assert points[1]["learning_rate"] == pytest.approx(16**-0.5 * 20**-0.5)
    (point,) = (runs / "plain" / "eval" / "scalars.jsonl").read_text().splitlines()
    assert json.loads(point)["step"] == 25
    assert "Step 10 of 20: loss " in seen["plain to 20"]["out"]


def test_accumulated_microbatches_make_the_same_updates(seen):
    np.testing.assert_allclose(seen["halves"], seen["whole"], atol=1e-5)
    assert seen["compiled"] == [1, 1], "once for each shape, and the update once"


def test_a_dry_run_counts_the_accumulators_that_are_always_held(seen):
    # At least the projections of three attentions to queries and keys: 3 * 2 * 16 * 16,384 * 4.
    megabytes = re.search(r"accumulators +(\d+) MB", seen["dry to 0"]["out"])[1]
    assert int(megabytes) >= 6


def test_out_of_memory_changes_nothing(seen):
    # The step that failed was then done again, with the same result as if it never had.
    assert seen["out of memory"] == [["RESOURCE_EXHAUSTED: injected"] * 3, True, True, False]


def test_layers_computed_again_have_the_same_gradients(seen):
    kept = seen["recompute False"]
    np.testing.assert_allclose(seen["recompute True"], kept, atol=1e-5)


def test_a_trace_for_tensorboard(runs, seen):
    assert f"Steps 2 to 3 are traced in {runs / 'plain' / 'train'}" in seen["plain to 20"]["out"]
    assert list((runs / "plain" / "train" / "plugins" / "profile").glob("*/*.xplane.pb"))
    assert re.search("^Of .* s: start .*, checkpoint .*%, other", seen["plain to 20"]["out"], re.M)


def test_half_precision(seen):
    for dtype in ("bfloat16", "float16"):
        assert seen[dtype][1] < seen[dtype][0]
    assert seen["good steps"] == 2
    np.testing.assert_array_equal(seen["after overflow"], seen["before overflow"])
    assert seen["scale after overflow"] == pytest.approx(5e29)


def test_a_checkpoint_s_loss_is_that_of_the_training(runs, seen):
    assert seen["scores"]["status"] == 0, seen["scores"]["err"]
    [trained] = map(json.loads, (runs / "plain" / "evaluations.json").read_text().splitlines())
    [scored] = read_results(runs / "plain" / "eval_dev" / "results.jsonl")
    assert (trained["step"], scored.steps, scored.bleu) == (25, 25, None)
    for name in ("loss", "perplexity", "accuracy"):
        assert getattr(scored, name) == pytest.approx(trained[name], abs=2e-6)
    [point] = (runs / "plain" / "eval_dev" / "scalars.jsonl").read_text().splitlines()
    assert json.loads(point)["step"] == 25


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("two GPUs", "a run uses one device"),
        ("one GPU", "JAX sees no GPU"),
        ("BLEU", "--eval_bleu needs TensorFlow"),
        ("BLEU of a checkpoint", "--eval_bleu needs TensorFlow.*--noeval_bleu"),
        ("the mean", r"--warm_start_from=.*mean/model.ckpt-25.npz"),
        ("a run of TensorFlow's", r"TensorFlow wrote, as model.ckpt-3,.*KERAS_BACKEND=tensorflow"),
        ("average of TensorFlow's", "TensorFlow wrote, as model.ckpt-3"),
    ],
)
def test_refused_with_what_to_do(seen, name, wanted):
    assert seen[name]["status"] == 2
    assert "Traceback" not in seen[name]["err"]
    assert re.search(wanted, seen[name]["err"])


def test_tensorflow_refuses_a_run_of_jaxs_by_name(runs, generated, make_strategy):
    record = RunRecord.load(runs / "plain")

    def make_step(record, **options):
        return TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)

    with pytest.raises(UserError, match=r"JAX wrote.*t2t-npz-to-checkpoint --model_dir=.*plain"):
        train(record, generated, runs / "plain", make_step)
    with pytest.raises(UserError, match="t2t-npz-to-checkpoint"):
        Translator.from_run(runs / "plain")
