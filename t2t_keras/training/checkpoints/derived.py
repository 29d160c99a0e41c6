"""Runs made of the checkpoints of another: their mean (section 6.1), or .npz as TensorFlow's."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.io.state import locked_directory
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoints import names, npz
from t2t_keras.training.checkpoints.base import WeightsOnlyError
from t2t_keras.training.cost import copy_cost, read_costs
from t2t_keras.training.optimizer import INITIAL_LOSS_SCALE, exchange_averages, make_optimizer
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import choose_trained, merged_weights, weights_state


def average_run(
    model_dir: str | Path,
    output_dir: str | Path,
    n: int = 5,
    seconds_apart: float = 0,
    ema: bool = False,
) -> str:
    """Writes the mean of a run's last `n` checkpoints, a run of its own in the same format.

    The paper takes the last 5 of the base model and the last 20 of the big one, written every 10
    minutes (section 6.1).

    Args:
      model_dir: the run.
      output_dir: where the mean and run.json are written; must not contain a run.
      n: number of checkpoints; if there are fewer, all are taken, which is reported.
      seconds_apart: least seconds of training between two of them: going back from the newest, the
        next one that is old enough is taken; 0 = all.
      ema: whether instead the moving average of the weights is written that the newest checkpoint
        holds of all steps before it.

    Returns:
      The path of the mean.

    Raises:
      UserError: there is no run or checkpoint, one cannot be read, or `output_dir` has a run; or
        the run keeps no moving average.
    """
    model_dir, output_dir = expanded(model_dir), expanded(output_dir)
    config = RunConfig.load(model_dir)
    if ema and not config.hparams.ema_decay:
        raise UserError(f"{model_dir} keeps no moving average: it is trained with ema_decay=0.")
    files = npz if npz.checkpoint_paths(model_dir) else backend.checkpoints()
    files.newest_checkpoint(model_dir)
    _refuse_occupied(output_dir)
    paths, apart = files.checkpoint_paths(model_dir), ""
    if seconds_apart:
        paths = spaced_apart(paths, _written_at(paths), seconds_apart)
        apart = f" {seconds_apart:g} s apart"
    chosen = paths[-1:] if ema else paths[-n:]
    if len(chosen) < n and not ema:
        print(f"There are only {len(chosen)} checkpoints{apart} in {model_dir}, not {n}.")
    model = config.make_model(loaded=True)
    if ema:
        state = _trained_state(config)
        try:
            files.Checkpoints(model_dir, state, keep=1).restore(chosen[-1])
        except WeightsOnlyError as error:
            raise UserError(
                f"{chosen[-1]} has averaged weights already, as best/ and what t2t-avg-all writes. "
                f"Give the run's own folder as --model_dir."
            ) from error
        exchange_averages(state["optimizer"])
        model.set_weights(merged_weights(state["model"], config.hparams))
    else:
        _load_mean(files, model, chosen)
    # The mean of one checkpoint is that checkpoint.
    averaged = len(chosen) if len(chosen) > 1 else config.averaged
    config = dataclasses.replace(config, averaged=averaged)
    mean = write_run(
        "t2t-avg-all",
        config,
        output_dir,
        {"model": model},
        names.known_step_of(chosen[-1]),
        files,
        chosen[-1],
    )
    what = "moving average" if ema else "mean"
    print(f"{mean} is the {what} of {', '.join(Path(path).name for path in chosen)}.")
    return mean


def _load_mean(files: ModuleType, model: keras.Model, paths: Sequence[str]) -> None:
    """Sets a model's weights to the mean of checkpoints, which the module `files` reads."""
    weights = model.trainable_variables
    # In float64, so that the mean does not depend on the order.
    sums = [np.zeros(weight.shape, np.float64) for weight in weights]
    for path in paths:
        files.load_weights(model, path)
        values = [keras.ops.convert_to_numpy(weight.value) for weight in weights]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
    for total, weight in zip(sums, weights, strict=True):
        weight.assign((total / len(paths)).astype(np.float32))


def spaced_apart(paths: Sequence[str], seconds: Sequence[float], apart: float) -> list[str]:
    """Returns the newest path, which is the last, and, going back, each next one old enough.

    `seconds` tells when each was written; they are rounded before they are compared with `apart`.
    """
    chosen: list[str] = []
    last = 0.0
    for path, at in reversed(list(zip(paths, seconds, strict=True))):
        if not chosen or round(last - at) >= apart:
            chosen.append(path)
            last = at
    return chosen[::-1]


def _written_at(paths: Sequence[str]) -> list[float]:
    """Returns the seconds of training, or else the time, at which each checkpoint was written."""
    costs = read_costs(Path(paths[0]).parent)
    steps = [names.known_step_of(path) for path in paths]
    if all(step in costs for step in steps):
        return [costs[step].seconds for step in steps]
    print("training_cost.json lacks checkpoints: the modification times of their files are used.")
    files = [path if path.endswith(names.NPZ_SUFFIX) else f"{path}.index" for path in paths]
    return [Path(file).stat().st_mtime for file in files]


def convert_npz_run(
    model_dir: str | Path, output_dir: str | Path, checkpoint_path: str | Path = ""
) -> str:
    """Writes an `.npz` checkpoint as TensorFlow's, to be continued, decoded and exported.

    Args:
      model_dir: a run with `.npz` checkpoints: trained under JAX, averaged, or its `best/`.
      output_dir: where the checkpoint and run.json are written; must not contain a run.
      checkpoint_path: which checkpoint; default: the newest.

    Returns:
      The path of TensorFlow's checkpoint. It holds the optimizer's state if the `.npz` does.

    Raises:
      UserError: there is no run or no such checkpoint, it cannot be read or does not fit the run's
        hyperparameters, `output_dir` contains a run, or the backend is not TensorFlow.
    """
    model_dir, output_dir = expanded(model_dir), expanded(output_dir)
    if keras.backend.backend() != "tensorflow":
        raise UserError("TensorFlow's checkpoints need KERAS_BACKEND=tensorflow.")
    config = RunConfig.load(model_dir)
    paths = npz.checkpoint_paths(model_dir)
    if not checkpoint_path and not paths:
        raise UserError(
            f"There is no .npz checkpoint in {model_dir}: expected a run that was trained or "
            f"averaged under KERAS_BACKEND=jax."
        )
    path = names.existing_checkpoint(checkpoint_path or paths[-1], npz.SUFFIX)
    steps = names.known_step_of(path)
    _refuse_occupied(output_dir)
    state = _restored_state(config, path)
    made = write_run("t2t-npz-to-checkpoint", config, output_dir, state, steps, origin=path)
    left = "with" if "optimizer" in state else "without"
    print(f"{made} is {path} as TensorFlow's, {left} the optimizer's state.")
    return made


def _restored_state(config: RunConfig, path: str) -> dict[str, Any]:
    """Returns what a run on TensorFlow keeps, as far as the `.npz` holds it."""
    model = config.make_model(loaded=True)
    beside = npz.load_weights(model, path)
    if not any(name.startswith("optimizer/") for name in beside):
        return {"model": model}
    state = _trained_state(config)
    npz.load_state(state, path)
    return state


def _trained_state(config: RunConfig) -> dict[str, Any]:
    """Returns all that a training keeps, to be restored."""
    model = config.make_model(loaded=True)
    choose_trained(model, config.hparams)
    optimizer = make_optimizer(config.hparams, model.trainable_variables)
    state = {**weights_state(model, config.hparams), "optimizer": optimizer}
    if config.hparams.compute_dtype == "float16":
        for name, value, dtype in (
            ("loss_scale", INITIAL_LOSS_SCALE, "float32"),
            ("good_steps", 0, "int32"),
        ):
            state[name] = keras.Variable(value, trainable=False, dtype=dtype)
    return state


def write_run(
    command: str,
    config: RunConfig,
    output_dir: str | Path,
    state: Mapping[str, Any],
    steps: int,
    files: ModuleType | None = None,
    origin: str = "",
) -> str:
    """Writes a run of one checkpoint.

    Args:
      command: what writes it, for others that want to write there.
      config: the run.
      output_dir: must not contain a run.
      state: what the checkpoint has, see `Checkpoints`.
      steps: its number.
      files: the module that writes it; None = that of the backend.
      origin: path of the checkpoint that it is made from, whose cost is copied.

    Returns:
      The path of the checkpoint.
    """
    with locked_directory(output_dir, command):
        _refuse_occupied(output_dir)
        files = files or backend.checkpoints()
        made = files.Checkpoints(output_dir, state, keep=1).save(steps)
        config.save(output_dir)
        if origin:
            copy_cost(origin, output_dir)
    return made


def _refuse_occupied(output_dir: str | Path) -> None:
    """Raises `UserError` if a directory contains a run, generated data or an export."""
    for name in ("run.json", "vocab.*", "manifest.json", "saved_model.pb", "model.ckpt-*"):
        for file in Path(output_dir).glob(name):
            raise UserError(
                f"--output_dir={output_dir} already contains {file.name}. Give a new directory."
            )
