"""Runs of one checkpoint that no training has written, as a mean or an imported model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.io.state import last_writer, locked_directory
from t2t_keras.training.checkpoints.names import NAME
from t2t_keras.training.checkpoints.run_checkpoints import MODEL, Checkpoints
from t2t_keras.training.cost import same_cost
from t2t_keras.training.run_config import RunConfig

# The command that writes means, as it is recorded in lock files.
AVERAGING = "t2t-avg-all"


def write_run(
    command: str,
    config: RunConfig,
    output_dir: str | Path,
    weights: Mapping[str, np.ndarray],
    steps: int,
    head: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> str:
    """Writes a run of one checkpoint.

    Args:
      command: what writes it, for others that want to write there.
      config: the run.
      output_dir: must not contain a run.
      weights: the model's, by name.
      steps: the checkpoint's number.
      head: of the checkpoint that it is made from, whose cost is its own.
      overwrite: whether to replace a mean.

    Returns:
      The path of the checkpoint.
    """
    with locked_directory(output_dir, command):
        refuse_occupied(output_dir, overwrite)
        checkpoints = Checkpoints(output_dir, {MODEL: weights}, keep=1)
        path = checkpoints.save(steps, same_cost(head or {}))
        config.save(output_dir)
    return path


def refuse_occupied(output_dir: str | Path, overwrite: bool = False, flag: str = "") -> None:
    """Raises `UserError` if a directory contains a run, generated data or an export.

    With `overwrite` it may contain a mean; `flag` requests that.
    """
    is_mean = last_writer(output_dir) == AVERAGING
    if is_mean and overwrite:
        return
    for name in ("run.json", "vocab.*", "manifest.json", "saved_model.pb", f"{NAME}-*"):
        for file in Path(output_dir).glob(name):
            advice = f", or {flag} to replace the mean there" if flag and is_mean else ""
            raise UserError(
                f"--output_dir={output_dir} already contains {file.name}. Give a new directory"
                f"{advice}.",
                code="output_exists",
            )
