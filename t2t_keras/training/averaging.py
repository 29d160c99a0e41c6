"""Means of a run's checkpoints (section 6.1), and the moving average of its weights."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.data.dataset import open_generated
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError
from t2t_keras.training import checkpoint_files
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoint_files import DamagedCheckpointError, known_step_of
from t2t_keras.training.checkpoints import (
    AVERAGING,
    MODEL,
    WEIGHTS,
    assign_weights,
    refuse_occupied,
    weights_of,
    write_run,
)
from t2t_keras.training.cost import read_cost
from t2t_keras.training.evaluation import SplitLoss
from t2t_keras.training.run_config import RunConfig

# Maximum number of checkpoints in a mean that the dev loss chooses.
_MAX_CHECKPOINTS = 20
# The search ends after this number of larger means in a row without a lower loss.
_PATIENCE = 2
# Checkpoints before this share of the newest checkpoint's steps usually make a mean worse.
_EARLY_SHARE = 0.75
_AVERAGE_PREFIX = "optimizer/average/"  # Prefix of the moving averages' names.


class _Mean(NamedTuple):
    """Weights by name, the paths of their checkpoints, and the head of the newest checkpoint."""

    weights: Mapping[str, np.ndarray]
    paths: list[str]
    head: Mapping[str, Any]


def average_run(
    model_dir: str | Path,
    output_dir: str | Path,
    n: int | None = None,
    seconds_apart: float = 0,
    ema: bool = False,
    overwrite: bool = False,
) -> str:
    """Writes the mean of a run's last checkpoints as a run of its own.

    The paper averages the last 5 checkpoints of the base model and the last 20 of the big model,
    written every 10 minutes (section 6.1). Early in a training, when the weights still change fast,
    a mean is worse than the newest checkpoint. Damaged checkpoints are left out, and so is
    a near duplicate of the newest one, such as the last regular checkpoint before Ctrl-C.

    Args:
      model_dir: the run.
      output_dir: directory for the mean and run.json; must not contain a run.
      n: number of checkpoints; if there are fewer, all are averaged, which is reported. None = the
        number with the lowest dev loss, perhaps only the newest; without the run's data, the
        checkpoints of the last tenth of the training.
      seconds_apart: minimum seconds of training between two averaged checkpoints: going back from
        the newest, the next one that is old enough is chosen; 0 = all.
      ema: whether to write the newest checkpoint's moving average of the weights instead.
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
    model_dir, output_dir = expand_path(model_dir), expand_path(output_dir)
    config = RunConfig.load(model_dir)
    if ema and not config.hparams.ema_decay:
        raise UserError(
            f"{model_dir} has no moving average: it was trained with ema_decay=0. Leave --ema out.",
            code="no_moving_average",
        )
    checkpoint_files.newest_checkpoint(model_dir)
    refuse_occupied(output_dir, overwrite, "--overwrite")
    paths = checkpoint_files.checkpoint_paths(model_dir)
    mean = _moving_average(paths) if ema else _run_mean(config, paths, n, seconds_apart)
    # The mean of one checkpoint is that checkpoint.
    averaged = len(mean.paths) if len(mean.paths) > 1 else config.averaged
    config, newest = dataclasses.replace(config, averaged=averaged), mean.paths[-1]
    step = known_step_of(newest)
    path = write_run(AVERAGING, config, output_dir, mean.weights, step, mean.head, overwrite)
    noun = "moving average" if ema else "mean"
    print(f"{path} is the {noun} of {', '.join(Path(path).name for path in mean.paths)}.")
    return path


def _run_mean(config: RunConfig, paths: Sequence[str], n: int | None, seconds: float) -> _Mean:
    """Returns the mean that `average_run` writes."""
    paths, note = drop_near_duplicate(paths), ""
    if seconds:
        paths = select_spaced(paths, _write_times(paths), seconds)
        note = f" {seconds:g} s apart"
    measure = _make_dev_loss(config) if n is None else None
    if n is None and not measure:
        paths = _select_last_tenth(paths)
    mean = _best_mean(paths, n or _MAX_CHECKPOINTS, measure)
    if n and len(mean.paths) < n:
        folder = Path(paths[-1]).parent
        print(f"There are only {len(mean.paths)} checkpoints{note} in {folder}, expected {n}.")
    if n:
        _warn_about_early(mean.paths)
    return mean


def drop_near_duplicate(paths: Sequence[str]) -> list[str]:
    """Drops the checkpoint before the newest if the two are nearly the same.

    They are if the gap between their steps is below half the median of the earlier gaps.
    """
    steps = [known_step_of(path) for path in paths]
    gaps = np.diff(steps)
    if len(paths) < 3 or gaps[-1] >= np.median(gaps[:-1]) / 2:
        return list(paths)
    print(f"{Path(paths[-2]).name} is left out: {Path(paths[-1]).name} is nearly the same.")
    return [*paths[:-2], paths[-1]]


def _select_last_tenth(paths: Sequence[str]) -> list[str]:
    """Returns the checkpoints of the last tenth of the training."""
    newest_step = known_step_of(paths[-1])
    last_paths = [path for path in paths if known_step_of(path) >= 0.9 * newest_step]
    print(
        f"The run's dev set is missing: averaging the {len(last_paths)} checkpoints "
        "of the last tenth."
    )
    return last_paths


def _warn_about_early(paths: Sequence[str]) -> None:
    first_step, newest_step = (known_step_of(paths[index]) for index in (0, -1))
    if first_step < _EARLY_SHARE * newest_step:
        print(
            f"The mean reaches back to step {first_step:,} of {newest_step:,}, and may be worse "
            f"than {Path(paths[-1]).name} alone. Leave --n out to let the dev loss decide."
        )


def _make_dev_loss(config: RunConfig) -> Callable[[Mapping[str, np.ndarray], str], float] | None:
    """Returns a function that measures the dev loss of weights; None without the run's data."""
    try:
        generated = open_generated(config.problem, config.data_dir)
        generated.open_examples("dev")
    except UserError:
        return None
    if config.with_data(generated).data != config.data:
        return None
    step = backend.make_step(config, backend.plan_devices())
    loss = SplitLoss(step, config, generated, "dev")

    def measure(weights: Mapping[str, np.ndarray], path: str) -> float:
        assign_weights(step.model, weights, path)
        return loss.measure()["loss"]

    return measure


def _best_mean(
    paths: Sequence[str],
    count: int,
    measure: Callable[[Mapping[str, np.ndarray], str], float] | None,
) -> _Mean:
    """Returns the mean of the last checkpoints.

    Args:
      paths: paths of the checkpoints, the newest last; damaged ones are left out.
      count: number of checkpoints.
      measure: returns the loss of weights; of the means of up to `count` checkpoints, the one with
        the lowest loss is returned. None = the mean of `count` checkpoints.
    """
    # float64: the mean must not depend on the order.
    sums: dict[str, np.ndarray] = {}
    chosen, newest_head, lowest_loss = list[str](), dict[str, Any](), math.inf
    best = _Mean({}, [], {})
    for path, arrays, head in _read_intact(paths, WEIGHTS):
        chosen.insert(0, path)
        newest_head = newest_head or head
        for name, weight in weights_of(arrays).items():
            sums[name] = sums.get(name, np.zeros(weight.shape, np.float64)) + weight
        mean = {name: (total / len(chosen)).astype(np.float32) for name, total in sums.items()}
        if measure:
            loss = measure(mean, path)
            print(f"Dev loss of the mean of {len(chosen)} from {Path(path).name} on: {loss:.4f}")
        if not best.paths or not measure or loss < lowest_loss:  # A loss may be NaN.
            best = _Mean(mean, list(chosen), newest_head)
            lowest_loss = loss if measure else lowest_loss
        if len(chosen) == count or (measure and len(chosen) - len(best.paths) >= _PATIENCE):
            break
    return best


def _read_intact(
    paths: Sequence[str],
    prefixes: tuple[str, ...],
) -> Iterator[tuple[str, dict[str, np.ndarray], dict[str, Any]]]:
    """Yields the path, arrays and head of intact checkpoints, newest first; reports damaged ones.

    `prefixes` select arrays by their names, see `checkpoint_files.read`.
    """
    damaged: DamagedCheckpointError | None = None
    is_any_intact = False
    for path in reversed(paths):
        try:
            arrays, head = checkpoint_files.read(path, prefixes)
        except DamagedCheckpointError as error:
            damaged = error
            print(f"{damaged} It is left out.", flush=True)
        else:
            is_any_intact = True
            yield path, arrays, head
    if damaged and not is_any_intact:
        raise damaged


def _moving_average(paths: Sequence[str]) -> _Mean:
    """Returns the moving average of the newest intact checkpoint."""
    path, arrays, head = next(_read_intact(paths, (*WEIGHTS, _AVERAGE_PREFIX)))
    averages = {
        f"{MODEL}/{name.removeprefix(_AVERAGE_PREFIX)}": array
        for name, array in arrays.items()
        if name.startswith(_AVERAGE_PREFIX)
    }
    if not averages:
        raise UserError(
            f"{path} has averaged weights already, like best/ and the output of t2t-avg-all. "
            f"Give the run's own folder as --model_dir.",
            code="weights_only",
        )
    return _Mean(weights_of(arrays | averages), [path], head)


def select_spaced(paths: Sequence[str], times: Sequence[float], spacing: float) -> list[str]:
    """Returns, going back from the newest (last), paths that are at least `spacing` apart.

    `times` are the seconds at which the files were written; differences are rounded.
    """
    chosen: list[str] = []
    last_time = 0.0
    for path, time in reversed(list(zip(paths, times, strict=True))):
        if not chosen or round(last_time - time) >= spacing:
            chosen.append(path)
            last_time = time
    return chosen[::-1]


def _write_times(paths: Sequence[str]) -> list[float]:
    """Returns when checkpoints were written: in seconds of training, or else by their files."""
    costs = [cost for path in paths if (cost := read_cost(path))]
    if len(costs) == len(paths):
        return [cost.seconds for cost in costs]
    print("Some checkpoints do not record their training time: using the times of their files.")
    return [Path(path).stat().st_mtime for path in paths]
