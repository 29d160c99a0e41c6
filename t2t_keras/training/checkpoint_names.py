"""What checkpoints are called, and whose those in a directory are.

TensorFlow writes `model.ckpt-<step>.index` and data beside it, JAX `model.ckpt-<step>.npz`.
"""

import re
from pathlib import Path

from t2t_keras.errors import UserError

NAME = "model.ckpt"
TENSORFLOW_SUFFIX = ".index"
NPZ_SUFFIX = ".npz"
_STEP = re.compile(r"-(\d+)(?:\.\w+)?$")


def files_by_step(directory: str | Path, suffix: str) -> list[Path]:
    """Returns the files `model.ckpt-<step><suffix>` of a directory, by step, newest last."""
    found = {}
    for path in Path(directory).glob(f"{NAME}-*{suffix}"):
        match = re.fullmatch(rf"{re.escape(NAME)}-(\d+){re.escape(suffix)}", path.name)
        if match:
            found[int(match[1])] = path
    return [found[step] for step in sorted(found)]


def step_of(path: str | Path) -> int:
    """Returns the step number in a checkpoint's path or path prefix."""
    return int(_STEP.search(str(path))[1])


def step_or_none(path: str | Path) -> int | None:
    """Returns the step number in a path that may have any name, as that of a copy."""
    found = _STEP.search(str(path))
    return int(found[1]) if found else None


def weights_alone(path: str | Path) -> UserError:
    """Returns the error of going on from a checkpoint without the optimizer's state."""
    return UserError(
        f"The checkpoint {path} holds weights alone, as a mean of checkpoints or the best weights "
        f"do: a run cannot be continued from it. Start a new one, in a new --output_dir, with "
        f"--warm_start_from={path}."
    )


def refuse_other_format(directory: str | Path, suffix: str) -> None:
    """Raises `UserError` where there are checkpoints, but all of another suffix than this."""
    held = {each: files_by_step(directory, each) for each in (TENSORFLOW_SUFFIX, NPZ_SUFFIX)}
    if held[suffix]:
        return
    if held[NPZ_SUFFIX]:
        raise UserError(
            f"{directory} holds checkpoints that JAX wrote, as {held[NPZ_SUFFIX][-1].name}. Train "
            f"on with KERAS_BACKEND=jax, or turn the newest into one of TensorFlow's, which all "
            f"commands read: t2t-npz-to-checkpoint --model_dir={directory} --output_dir=NEW."
        )
    if held[TENSORFLOW_SUFFIX]:
        raise UserError(
            f"{directory} holds checkpoints that TensorFlow wrote, as "
            f"{held[TENSORFLOW_SUFFIX][-1].stem}, which are not read under KERAS_BACKEND=jax. Set "
            f"KERAS_BACKEND=tensorflow, or give the directory of another run."
        )


def no_checkpoint(path: Path, suffix: str) -> UserError:
    """Returns the error for a checkpoint that was named and is not there."""
    there = ", ".join(
        file.name.removesuffix(".index") for file in files_by_step(path.parent, suffix)
    )
    return UserError(f"There is no checkpoint {path}. In its directory: {there or 'none'}.")
