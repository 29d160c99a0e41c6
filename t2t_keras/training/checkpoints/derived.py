"""Runs made of the checkpoints of another: their mean (section 6.1), or .npz as TensorFlow's."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from t2t_keras.data.dataset import Generated, open_generated
from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.io.state import last_writer, locked_directory
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoints import names, npz
from t2t_keras.training.checkpoints.base import DamagedCheckpointError, WeightsOnlyError
from t2t_keras.training.cost import copy_cost, read_costs
from t2t_keras.training.evaluation import SplitLoss
from t2t_keras.training.optimizer import INITIAL_LOSS_SCALE, exchange_averages, make_optimizer
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import choose_trained, merged_weights, weights_state

# The command that writes means, as it is recorded in lock files.
_AVERAGING = "t2t-avg-all"
# Most checkpoints in a mean, where the dev loss decides.
_MOST = 20
# The search ends after this number of larger means in a row without a lower loss.
_PATIENCE = 2
# Share of the newest checkpoint's steps before which a checkpoint makes a mean worse.
_EARLY = 0.75


def average_run(
    model_dir: str | Path,
    output_dir: str | Path,
    n: int | None = None,
    seconds_apart: float = 0,
    ema: bool = False,
    overwrite: bool = False,
) -> str:
    """Writes the mean of a run's last checkpoints, a run of its own in the same format.

    The paper takes the last 5 of the base model and the last 20 of the big one, written every 10
    minutes (section 6.1). Early in a training, when the weights still change fast, a mean is worse
    than the newest checkpoint. A checkpoint just before the newest one, as the last regular one
    before Ctrl-C, is nearly its duplicate and is left out, and so are damaged ones.

    Args:
      model_dir: the run.
      output_dir: where the mean and run.json are written; must not contain a run.
      n: number of checkpoints; if there are fewer, all are taken, which is reported. None = as many
        as lower the dev loss, perhaps only the newest; without the run's data, those of the last
        tenth of the training.
      seconds_apart: least seconds of training between two of them: going back from the newest, the
        next one that is old enough is taken; 0 = all.
      ema: whether instead the moving average of the weights is written that the newest checkpoint
        holds of all steps before it.
      overwrite: whether to replace an earlier mean in `output_dir`.

    Returns:
      The path of the mean.

    Raises:
      UserError: there is no run or checkpoint, none can be read, or `output_dir` has a run; the
        run keeps no moving average; or a number makes no sense.
    """
    if (n is not None and n < 1) or not 0 <= seconds_apart < math.inf:
        raise UserError(
            f"Expected n >= 1 or None and finite seconds_apart >= 0, got {n} and {seconds_apart}.",
            code="impossible_mean",
        )
    model_dir, output_dir = expanded(model_dir), expanded(output_dir)
    config = RunConfig.load(model_dir)
    if ema and not config.hparams.ema_decay:
        raise UserError(
            f"{model_dir} keeps no moving average: it is trained with ema_decay=0.",
            code="no_moving_average",
        )
    files = npz if npz.checkpoint_paths(model_dir) else backend.checkpoints()
    files.newest_checkpoint(model_dir)
    _refuse_occupied(output_dir, overwrite, "--overwrite")
    paths = files.checkpoint_paths(model_dir)
    if ema:
        model, chosen = _moving_average(files, config, paths)
    else:
        model, chosen = _mean(files, config, paths, n, seconds_apart)
    # The mean of one checkpoint is that checkpoint.
    averaged = len(chosen) if len(chosen) > 1 else config.averaged
    config = dataclasses.replace(config, averaged=averaged)
    mean = write_run(
        _AVERAGING,
        config,
        output_dir,
        {"model": model},
        names.known_step_of(chosen[-1]),
        files,
        chosen[-1],
        overwrite,
    )
    what = "moving average" if ema else "mean"
    print(f"{mean} is the {what} of {', '.join(Path(path).name for path in chosen)}.")
    return mean


def _mean(
    files: ModuleType, config: RunConfig, paths: Sequence[str], n: int | None, seconds_apart: float
) -> tuple[keras.Model, list[str]]:
    """Returns a model with the mean that `average_run` writes, and the checkpoints of it."""
    paths, apart = without_near_duplicate(paths), ""
    if seconds_apart:
        paths = spaced_apart(paths, _written_at(paths), seconds_apart)
        apart = f" {seconds_apart:g} s apart"
    model, measure = _measured_model(config, n)
    if n is None and not measure:
        paths = _of_last_tenth(paths)
    chosen = _load_mean(files, model, paths, n or _MOST, measure)
    if n and len(chosen) < n:
        folder = Path(paths[-1]).parent
        print(f"There are only {len(chosen)} checkpoints{apart} in {folder}, not {n}.")
    if n:
        _warn_of_early_ones(chosen)
    return model, chosen


def without_near_duplicate(paths: Sequence[str]) -> list[str]:
    """Drops the checkpoint before the newest if it is nearly the same.

    It is if fewer steps lie between the two than half the median of the gaps before.
    """
    steps = [names.known_step_of(path) for path in paths]
    gaps = np.diff(steps)
    if len(paths) < 3 or gaps[-1] >= np.median(gaps[:-1]) / 2:
        return list(paths)
    print(f"{Path(paths[-2]).name} is left out: {Path(paths[-1]).name} is nearly the same.")
    return [*paths[:-2], paths[-1]]


def _of_last_tenth(paths: Sequence[str]) -> list[str]:
    """Returns the checkpoints of the last tenth of the training."""
    newest = names.known_step_of(paths[-1])
    late = [path for path in paths if names.known_step_of(path) >= 0.9 * newest]
    print(f"The run's dev set is not there: the {len(late)} of the last tenth are averaged.")
    return late


def _warn_of_early_ones(chosen: Sequence[str]) -> None:
    first, newest = (names.known_step_of(chosen[at]) for at in (0, -1))
    if first < _EARLY * newest:
        print(
            f"The mean reaches back to step {first:,} of {newest:,}: it may be worse than "
            f"{Path(chosen[-1]).name} alone. Leave --n out to let the dev loss decide."
        )


def _data_with_dev_set(config: RunConfig) -> Generated | None:
    """Returns the data of a run, None if it is gone or has changed."""
    with contextlib.suppress(UserError):
        generated = open_generated(config.problem, config.data_dir)
        generated.store("dev")
        if config.with_data(generated).data == config.data:
            return generated
    return None


def _measured_model(
    config: RunConfig, n: int | None
) -> tuple[keras.Model, Callable[[], float] | None]:
    """Returns the model and a function of its dev loss, None with `n` or without the data."""
    generated = _data_with_dev_set(config) if n is None else None
    if not generated:
        return config.make_model(loaded=True), None
    step = backend.make_step(config, backend.plan_devices())
    loss = SplitLoss(step, config, generated, "dev")
    return step.model, lambda: loss.measure()["loss"]


def _load_mean(
    files: ModuleType,
    model: keras.Model,
    paths: Sequence[str],
    most: int,
    measure: Callable[[], float] | None,
) -> list[str]:
    """Sets a model's weights to the mean of its last checkpoints, and returns those.

    Args:
      files: the module that reads checkpoints.
      model: the model.
      paths: of the checkpoints, the newest last; damaged ones are left out.
      most: number of checkpoints.
      measure: returns the loss of the model; the mean with the lowest one is taken, of `most`
        checkpoints or fewer. None = the mean of `most`.
    """
    weights, taken = model.trainable_variables, list[str]()
    # In float64, so that the mean does not depend on the order.
    sums = [np.zeros(weight.shape, np.float64) for weight in weights]
    lowest, best, best_count = math.inf, list[np.ndarray](), 0
    for path in _sound(paths, functools.partial(files.load_weights, model)):
        taken.insert(0, path)
        for total, weight in zip(sums, weights, strict=True):
            total += keras.ops.convert_to_numpy(weight.value)
            weight.assign((total / len(taken)).astype(np.float32))
        if measure:
            loss = measure()
            print(f"Dev loss of the mean of {len(taken)} from {Path(path).name} on: {loss:.4f}")
            if not best or loss < lowest:  # A loss may be NaN.
                lowest, best_count = loss, len(taken)
                best = [keras.ops.convert_to_numpy(weight.value) for weight in weights]
        if len(taken) == most or (measure and len(taken) - best_count >= _PATIENCE):
            break
    if not measure:
        return taken
    for weight, value in zip(weights, best, strict=True):
        weight.assign(value)
    return taken[-best_count:]


def _sound(paths: Sequence[str], load: Callable[[str], object]) -> Iterator[str]:
    """Loads checkpoints from the newest on and yields their paths; reports damaged ones."""
    damaged: DamagedCheckpointError | None = None
    loaded = False
    for path in reversed(paths):
        try:
            load(path)
        except DamagedCheckpointError as error:
            damaged = DamagedCheckpointError(path, error.error)
            print(f"{damaged} It is left out.", flush=True)
        else:
            loaded = True
            yield path
    if damaged and not loaded:
        raise damaged


def _moving_average(
    files: ModuleType, config: RunConfig, paths: Sequence[str]
) -> tuple[keras.Model, list[str]]:
    """Returns a model with the moving average of the newest sound checkpoint, and its path."""
    model, state = config.make_model(loaded=True), _trained_state(config)
    checkpoints = files.Checkpoints(Path(paths[-1]).parent, state, keep=1)
    try:
        newest = next(_sound(paths, checkpoints.restore))
    except WeightsOnlyError as error:
        raise UserError(
            f"{paths[-1]} has averaged weights already, as best/ and what t2t-avg-all writes. "
            f"Give the run's own folder as --model_dir.",
            code="weights_only",
        ) from error
    exchange_averages(state["optimizer"])
    model.set_weights(merged_weights(state["model"], config.hparams))
    return model, [newest]


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
    checkpoint_path = expanded(checkpoint_path)
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "TensorFlow's checkpoints need KERAS_BACKEND=tensorflow.", code="other_backend"
        )
    config = RunConfig.load(model_dir)
    paths = npz.checkpoint_paths(model_dir)
    if not checkpoint_path and not paths:
        raise UserError(
            f"There is no .npz checkpoint in {model_dir}: expected a run that was trained or "
            f"averaged under KERAS_BACKEND=jax.",
            code="no_checkpoint",
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
    overwrite: bool = False,
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
      overwrite: whether to replace a mean.

    Returns:
      The path of the checkpoint.
    """
    with locked_directory(output_dir, command):
        _refuse_occupied(output_dir, overwrite)
        files = files or backend.checkpoints()
        made = files.Checkpoints(output_dir, state, keep=1).save(steps)
        config.save(output_dir)
        if origin:
            copy_cost(origin, output_dir)
    return made


def _refuse_occupied(output_dir: str | Path, overwrite: bool = False, flag: str = "") -> None:
    """Raises `UserError` if a directory contains a run, generated data or an export.

    With `overwrite` it may contain a mean; `flag` requests that.
    """
    is_mean = last_writer(output_dir) == _AVERAGING
    if is_mean and overwrite:
        return
    for name in ("run.json", "vocab.*", "manifest.json", "saved_model.pb", "model.ckpt-*"):
        for file in Path(output_dir).glob(name):
            advice = f", or {flag} to replace the mean there" if flag and is_mean else ""
            raise UserError(
                f"--output_dir={output_dir} already contains {file.name}. Give a new directory"
                f"{advice}.",
                code="output_exists",
            )
