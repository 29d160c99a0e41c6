"""Run by test_jax_training.py in a process of its own: what t2t-trainer does under JAX.

python jax_runs.py folder command.json: the runs go into the folder; what was seen goes to
folder/seen.json and folder/seen.npz.
"""

import contextlib
import importlib.metadata
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# The README says that a machine needs these and nothing else; what they ask for comes with them.
NEEDED = ("absl-py", "jax", "keras", "numpy", "sentencepiece")
SIZE = "num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10"


def not_needed():
    """Returns the top-level names of all packages here that a JAX machine need not have."""
    there, wanted = set(), list(NEEDED)
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name in there:
            continue
        there.add(name)
        requirements = map(Requirement, importlib.metadata.requires(name) or ())
        wanted += [
            each.name
            for each in requirements
            if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
    return {
        package
        for package, owners in importlib.metadata.packages_distributions().items()
        if package != "t2t_keras" and not there & set(map(canonicalize_name, owners))
    }


class _NotInstalled:
    """Makes every import of what a JAX machine need not have fail."""

    def __init__(self, names):
        self._names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by the test)", name=name)


def command(module, *arguments):
    """Runs a command; returns its exit status, what it printed and what it complained of."""
    status, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            module.run([module.__name__, *map(str, arguments)])
        except SystemExit as stop:
            status = stop.code
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


def main(folder, first_flags, missing):
    # Imported only now that the backend is chosen and the rest is blocked.
    import keras

    from t2t_keras.bin import t2t_avg_all, t2t_eval, t2t_trainer
    from t2t_keras.training import jax_step, progress, run_loop

    run_loop._LOG_STEPS = progress._LINE_STEPS = 10
    numbers = []
    original = jax_step.JaxStep.update

    def update(self, step, *arguments):
        found = original(self, step, *arguments)
        numbers.append({"step": step, **{name: float(value) for name, value in found.items()}})
        return found

    jax_step.JaxStep.update = update
    seen = {}

    def train(name, *flags):
        seen[name] = command(t2t_trainer, *flags)

    def run(name, steps, hparams="", *flags):
        train(
            f"{name} to {steps}",
            *(first_flags if hparams else []),
            *([f"--hparams={SIZE},{hparams}"] if hparams else []),
            f"--output_dir={folder / name}",
            f"--train_steps={steps}",
            *flags,
        )

    plain = "dropout=0,clip_norm=1.0,max_length=12,batch_tokens=300,microbatch_tokens=128"
    run("plain", 0, plain, "--schedule=train")
    run("plain", 20, "", "--schedule=train", "--profile_steps=2,3")
    run("plain", 25)
    seen["numbers"] = list(numbers)
    of_plain = f"--output_dir={folder / 'plain'}"
    seen["scores"] = command(t2t_eval, of_plain, "--noeval_bleu", "--min_steps=25")
    seen["BLEU of a checkpoint"] = command(t2t_eval, of_plain)
    seen["mean"] = command(
        t2t_avg_all, f"--model_dir={folder / 'plain'}", f"--output_dir={folder / 'mean'}", "--n=2"
    )
    noisy = "dropout=0.3,attention_dropout=0.1,symbol_dropout=0.1,max_length=8"
    noisy += ",batch_tokens=150,microbatch_tokens=100"
    run("whole", 5, noisy, "--schedule=train")
    run("parts", 3, noisy, "--schedule=train")
    run("parts", 5, "", "--schedule=train")
    run("warm", 0, noisy, "--schedule=train", f"--warm_start_from={folder / 'plain'}")

    (folder / "of tensorflow").mkdir()
    for name in ("run.json", "vocab.model"):
        shutil.copy(folder / "plain" / name, folder / "of tensorflow")
    (folder / "of tensorflow" / "model.ckpt-3.index").touch()
    run("dry", 0, "d_k=8192", "--dry_run")
    continued = f"--output_dir={folder / 'plain'}"
    train("two GPUs", continued, "--worker_gpu=2")
    train("one GPU", continued, "--worker_gpu=1")
    train("BLEU", continued, "--eval_bleu")
    train("the mean", f"--output_dir={folder / 'mean'}", "--train_steps=30")
    train("a run of TensorFlow's", f"--output_dir={folder / 'of tensorflow'}")
    seen["average of TensorFlow's"] = command(
        t2t_avg_all, f"--model_dir={folder / 'of tensorflow'}", f"--output_dir={folder / 'none'}"
    )

    arrays = {"logits": logits_of_the_mean(folder)} | steps_by_themselves(folder, seen)
    assert keras.backend.backend() == "jax"
    assert not [name for name in sys.modules if name.partition(".")[0] in missing]
    np.savez(folder / "seen.npz", **{name: np.asarray(each) for name, each in arrays.items()})
    (folder / "seen.json").write_text(json.dumps(seen))


def logits_of_the_mean(folder):
    """What the averaged weights give for folder/batch.npz."""
    from t2t_keras.training.npz_checkpoints import load_weights, newest_checkpoint
    from t2t_keras.training.run_record import RunRecord

    model = RunRecord.load(folder / "mean").make_model()
    load_weights(model, newest_checkpoint(folder / "mean"))
    return model.predict_on_batch(dict(np.load(folder / "batch.npz")))


def steps_by_themselves(folder, seen):
    """Microbatches and one batch, and half precision, on folder/batch.npz."""
    import dataclasses

    from t2t_keras.data.batches import TokenArrays
    from t2t_keras.training.jax_step import JaxStep
    from t2t_keras.training.run_record import RunRecord

    record = RunRecord.load(folder / "plain")
    batch = dict(np.load(folder / "batch.npz"))
    whole = TokenArrays(**batch)
    halves = [TokenArrays(**{name: batch[name][rows::2] for name in batch}) for rows in (0, 1)]

    def make(**changes):
        hparams = dataclasses.replace(record.hparams, **changes)
        changed = dataclasses.replace(record, hparams=hparams)
        return JaxStep(changed.make_model, hparams, seed=1)

    def weights(step):
        return np.concatenate([np.ravel(w.value) for w in step.model.trainable_variables])

    arrays = {}
    for name, parts in (("whole", [[whole]]), ("halves", [[half] for half in halves])):
        # Adam's own epsilon would make updates of gradients that are nothing but rounding.
        step = make(adam_epsilon=1e-5)
        if name == "halves":
            seen["out of memory"] = runs_out_of_memory(step, parts)
        for number in range(3):
            step.update(number, parts)
        arrays[name] = weights(step)
    seen["compiled"] = step._accumulate._cache_size(), step._apply._cache_size()
    assert step.weights_are_finite()
    bias = step.model.trainable_variables[-1]
    bias.assign(np.full(bias.shape, np.nan))
    assert not step.weights_are_finite()

    for recompute in (False, True):
        # With an epsilon this large Adam's update is proportional to the gradient.
        noisy = dict(dropout=0.3, adam_epsilon=10.0, learning_rate=1000.0)
        step = make(**noisy, recompute=recompute)
        step.update(0, [[whole]])
        arrays[f"recompute {recompute}"] = weights(step)

    for dtype in ("bfloat16", "float16"):
        step = make(compute_dtype=dtype)
        losses = [float(step.update(number, [[whole]])["loss"]) for number in range(2)]
        assert {weight.dtype for weight in step.model.trainable_variables} == {"float32"}
        seen[dtype] = losses
    state = step.state()
    arrays["good steps"] = np.array(state["good_steps"].value)
    state["loss_scale"].assign(1e30)
    arrays["before overflow"] = weights(step)
    step.update(2, [[whole]])
    arrays["after overflow"] = weights(step)
    arrays["scale after overflow"] = state["loss_scale"].value
    assert step.steps_done() == 3
    return arrays


def runs_out_of_memory(step, parts):
    """Lets a second part fail, and a device tell of it late; returns what came of it.

    Returns:
      What was raised by an update, at once and late, and by an evaluation; what `fits` says of a
      part, and then of each.
    """
    import jax

    from t2t_keras.training.out_of_memory import OutOfMemoryError

    accumulate, evaluate, wait = step._accumulate, step._evaluate, jax.block_until_ready
    calls, raised = [], []

    def fails(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: injected")

    def second_fails(*inputs):
        calls.append(None)
        return fails() if len(calls) == 2 else accumulate(*inputs)

    def tries(action, *arguments):
        try:
            action(*arguments)
        except OutOfMemoryError as error:
            raised.append(str(error))

    step._accumulate = second_fails
    tries(step.update, 0, parts)
    jax.block_until_ready = fails
    tries(step.update, 0, parts)
    jax.block_until_ready = wait
    step._evaluate = fails
    tries(step.evaluate, parts[0])
    step._evaluate = evaluate
    fits = step.fits(parts[0])
    calls.clear()
    second = [step.fits(part) for part in parts]
    step._accumulate = accumulate
    return [raised, fits, *second]


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    # What is there before any import, as setuptools may be, came with Python's start.
    missing = not_needed() - set(sys.modules)
    assert {"tensorflow", "tqdm", "google", "grpc", "defusedxml", "matplotlib"} <= missing
    sys.meta_path.insert(0, _NotInstalled(missing))
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), missing)
