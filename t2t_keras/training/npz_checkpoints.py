"""Checkpoints as `.npz`: NumPy's arrays by name, for backends without TensorFlow.

This module offers what `training.checkpoints` does, to the same ends. It reads and writes the
variables of any backend, so that TensorFlow can take over what JAX wrote.
"""

import contextlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.data.atomic_file import TEMPORARY_SUFFIX, replaced_atomically
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_names import (
    NAME,
    NPZ_SUFFIX,
    files_by_step,
    no_checkpoint,
    refuse_other_format,
    weights_alone,
)

SUFFIX = NPZ_SUFFIX
_MODEL = "model"


class Checkpoints:
    """The checkpoints of a run, each one file `model.ckpt-<step>.npz`.

    Args:
      directory: where they stand.
      state: what they hold, by name: a variable (what has `assign`), a model, whose weights are
        held under their paths, or a mapping of such; `encoder_0/self_attention/query` of the
        model is the array `model/encoder_0/self_attention/query`.
      keep: how many are kept.
    """

    def __init__(self, directory: str | Path, state: Mapping[str, Any], keep: int):
        self._directory = Path(directory)
        self._state = state
        self._keep = keep

    def restore_newest(self) -> str | None:
        """Restores the newest checkpoint that is whole; names the damaged ones on the way.

        Returns:
          Its path, or None where there is no checkpoint.

        Raises:
          UserError: there are checkpoints, but none can be read; or they are TensorFlow's.
        """
        refuse_other_format(self._directory, NPZ_SUFFIX)
        paths = checkpoint_paths(self._directory)
        for path in reversed(paths):
            try:
                arrays = _read(path)
            except Exception as error:  # BadZipFile, ValueError, EOFError ... as the damage may be.
                print(
                    f"The checkpoint {path} is damaged and set aside: {_first_line(error)}",
                    flush=True,
                )
                Path(path).rename(Path(path).with_name(f"damaged.{Path(path).name}"))
                continue
            _assign(self._state, arrays, path)
            for interrupted in self._directory.glob(f"{NAME}-*{NPZ_SUFFIX}.*{TEMPORARY_SUFFIX}"):
                interrupted.unlink()
            return path
        if paths:
            raise UserError(
                f"None of the {len(paths)} checkpoints in {self._directory} can be read. Give a "
                f"new --output_dir."
            )
        return None

    def save(self, step: int) -> str:
        """Writes the state under its step number and deletes the oldest ones.

        Returns:
          The checkpoint's path.

        Raises:
          UserError: it cannot be written, as on a full disk; those before it stay good.
        """
        path = self._directory / f"{NAME}-{step}{NPZ_SUFFIX}"
        arrays = {
            name: keras.ops.convert_to_numpy(variable.value)
            for name, variable in named_variables(self._state).items()
        }
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with replaced_atomically(path) as file:
                np.savez(file, **arrays)
        except OSError as error:
            last = checkpoint_paths(self._directory)
            raise UserError(
                f"The checkpoint {path} cannot be written: {_first_line(error)} Make room, then "
                f"run the same command again: it continues from "
                f"{last[-1] if last else 'the beginning'}."
            ) from error
        for old in checkpoint_paths(self._directory)[: -self._keep]:
            with contextlib.suppress(OSError):
                Path(old).unlink()
        return str(path)


def checkpoint_paths(directory: str | Path) -> list[str]:
    """Returns the paths of the checkpoints in a directory, by step, newest last."""
    return [str(path) for path in files_by_step(directory, NPZ_SUFFIX)]


def newest_checkpoint(directory: str | Path) -> str:
    """Returns the path of a run's newest checkpoint.

    Raises:
      UserError: there is none, or it is TensorFlow's.
    """
    refuse_other_format(directory, NPZ_SUFFIX)
    paths = checkpoint_paths(directory)
    if not paths:
        raise UserError(f"There is no checkpoint in {directory}. Train first: t2t-trainer.")
    return paths[-1]


def load_state(state: Mapping[str, Any], path: str | Path) -> set[str]:
    """Restores variables, and nothing else, from a checkpoint.

    Args:
      state: the variables, as `Checkpoints` takes them.
      path: the checkpoint, with or without ".npz".

    Returns:
      The names of the arrays that the checkpoint holds beside them.

    Raises:
      UserError: there is no such checkpoint (those that are there are named), it is damaged, or
        it belongs to a model of other hyperparameters.
    """
    path = Path(f"{str(path).removesuffix(NPZ_SUFFIX)}{NPZ_SUFFIX}")
    if not path.exists():
        refuse_other_format(path.parent, NPZ_SUFFIX)
        raise no_checkpoint(path, NPZ_SUFFIX)
    try:
        arrays = _read(path)
    except Exception as error:
        raise UserError(f"The checkpoint {path} is damaged: {_first_line(error)}") from error
    _assign(state, arrays, path)
    return set(arrays) - set(named_variables(state))


def load_weights(model: keras.Model, path: str | Path) -> None:
    """Restores the weights of a model, on any backend; see `load_state`."""
    load_state({_MODEL: model}, path)


def weight_names(model: keras.Model) -> list[str]:
    """Returns the paths of a model's weights within it, in the order of `trainable_variables`."""
    return [weight.path.removeprefix(f"{model.name}/") for weight in model.trainable_variables]


def named_variables(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of a state (see `Checkpoints`) by the names of their arrays."""
    found = {}
    for name, value in state.items():
        if isinstance(value, keras.Model):
            value = dict(zip(weight_names(value), value.trainable_variables, strict=True))
        if isinstance(value, Mapping):
            found |= {f"{name}/{rest}": each for rest, each in named_variables(value).items()}
        else:
            found[name] = value
    return found


def _read(path: str | Path) -> dict[str, np.ndarray]:
    """Reads every array, and its checksum with it, so that nothing is restored by half."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a zip archive, or not a whole one.")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _assign(state: Mapping[str, Any], arrays: dict[str, np.ndarray], path: str | Path) -> None:
    variables = named_variables(state)
    missing = [name for name in variables if name not in arrays]
    if missing and not any(name.startswith(f"{_MODEL}/") for name in missing):
        raise weights_alone(path)
    wrong = [
        f"{name} is {list(arrays[name].shape)} there, {list(variable.shape)} in the model"
        for name, variable in variables.items()
        if name in arrays and arrays[name].shape != tuple(variable.shape)
    ]
    # A weight that the model does not have is as wrong as one that it lacks.
    wrong += [f"{name} is not there" for name in missing]
    wrong += [
        f"{name} is not in the model"
        for name in arrays
        if name.startswith(f"{_MODEL}/") and name not in variables
    ]
    if wrong:
        raise UserError(
            f"The checkpoint {path} is of a model with other hyperparameters: {wrong[0]}"
            + (f" (and {len(wrong) - 1} more)." if len(wrong) > 1 else ".")
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
