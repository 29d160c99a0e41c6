"""The mean of a run's last checkpoints, as a run of its own (section 6.1)."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.training import backend, npz_checkpoints
from t2t_keras.training.checkpoint_names import (
    NPZ_SUFFIX,
    TENSORFLOW_SUFFIX,
    files_by_step,
    refuse_other_format,
    step_of,
)
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import copy_cost, read_costs


def average_run(
    model_dir: str | Path, output_dir: str | Path, n: int = 5, seconds_apart: float = 0
) -> str:
    """Writes the mean of a run's last `n` checkpoints, to be decoded and exported like any run.

    The paper takes the last 5 of the base model and the last 20 of the big one, written every 10
    minutes (section 6.1). The mean has the format of the run: TensorFlow's, or `.npz`, which every
    backend averages.

    Args:
      model_dir: the run.
      output_dir: where the mean and the run's record go; must not hold checkpoints yet.
      n: how many checkpoints; fewer are taken where there are fewer, which is said.
      seconds_apart: of the checkpoints, the newest and then, going back, each first one that is at
        least so many seconds of training older than the last one taken; 0 = all of them.

    Returns:
      The path of the mean, for TensorFlow's format its prefix.

    Raises:
      UserError: no run, no checkpoints, one that cannot be read, or checkpoints in `output_dir`.
    """
    record = RunRecord.load(model_dir)
    files = npz_checkpoints
    if not files.checkpoint_paths(model_dir):
        files = backend.checkpoints()
    paths = files.checkpoint_paths(model_dir)
    if not paths:
        refuse_other_format(model_dir, NPZ_SUFFIX)
        raise UserError(f"There is no checkpoint in {model_dir}. Train first: t2t-trainer.")
    if any(files_by_step(output_dir, suffix) for suffix in (NPZ_SUFFIX, TENSORFLOW_SUFFIX)):
        raise UserError(
            f"There are checkpoints in --output_dir={output_dir} already, which the mean would "
            f"replace. Give a new directory."
        )
    apart = ""
    if seconds_apart:
        paths = spaced_apart(paths, _written_at(model_dir, paths), seconds_apart)
        apart = f" {seconds_apart:g} s apart"
    chosen = paths[-n:]
    if len(chosen) < n:
        print(f"There are only {len(chosen)} checkpoints{apart} in {model_dir}, not {n}.")
    model = record.make_model()
    # The mean of one checkpoint is that checkpoint.
    averaged = len(chosen) if len(chosen) > 1 else record.averaged
    dataclasses.replace(record, averaged=averaged).save(output_dir)
    copy_cost(chosen[-1], output_dir)
    mean = average_checkpoints(files, model, chosen, output_dir)
    names = ", ".join(Path(path).name for path in chosen)
    print(f"{mean} is the mean of {names}.")
    return mean


def average_checkpoints(
    files, model: keras.Model, paths: Sequence[str], output_dir: str | Path
) -> str:
    """Writes the mean of several checkpoints' weights.

    Args:
      files: the module of their format: `training.checkpoints` or `training.npz_checkpoints`.
      model: any model of the checkpoints' shapes; it ends with the mean.
      paths: of the checkpoints, the newest last.
      output_dir: where the mean is written, under the newest one's step number.

    Returns:
      The path of the mean, for TensorFlow's format its prefix.

    Raises:
      UserError: a checkpoint cannot be read, or the mean cannot be written.
    """
    # In float64, so that the mean does not depend on the order.
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for path in paths:
        files.load_weights(model, path)
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            total += keras.ops.convert_to_numpy(weight.value)
    for total, weight in zip(sums, model.trainable_variables, strict=True):
        weight.assign((total / len(paths)).astype(np.float32))
    return files.Checkpoints(output_dir, {"model": model}, keep=1).save(step_of(paths[-1]))


def spaced_apart(paths: Sequence[str], seconds: Sequence[float], apart: float) -> list[str]:
    """Returns the newest path and, going back, each first one old enough to be taken beside it.

    Args:
      paths: the newest last.
      seconds: when each was written, on any clock.
      apart: how many seconds one that is taken must be older than the one taken before it, to the
        second.
    """
    chosen, last = [paths[-1]], seconds[-1]
    for path, at in zip(reversed(paths[:-1]), reversed(seconds[:-1]), strict=True):
        if round(last - at) >= apart:
            chosen.append(path)
            last = at
    return chosen[::-1]


def _written_at(model_dir: str | Path, paths: Sequence[str]) -> list[float]:
    """Returns the seconds of training, or else the time, at which each checkpoint was written."""
    costs = read_costs(model_dir)
    steps = [step_of(path) for path in paths]
    if all(step in costs for step in steps):
        return [costs[step].seconds for step in steps]
    print(
        f"training_cost.json in {model_dir} does not tell when its checkpoints were written: the "
        f"times of their files are used."
    )
    indices = [Path(f"{path}{TENSORFLOW_SUFFIX}") for path in paths]
    return [
        (index if index.exists() else Path(path)).stat().st_mtime
        for index, path in zip(indices, paths, strict=True)
    ]
