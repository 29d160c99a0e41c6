"""The names of checkpoints, and which of them are in a directory.

TensorFlow writes `model.ckpt-<step>.index` and data beside it, JAX `model.ckpt-<step>.npz`. The
path of a checkpoint is the prefix of TensorFlow's files, and JAX's whole file name.
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


def checkpoint_paths(directory: str | Path, suffix: str) -> list[str]:
    """Returns the paths of the checkpoints of a format in a directory, by step, newest last."""
    return [path_of(file) for file in files_by_step(directory, suffix)]


def newest_checkpoint(directory: str | Path, suffix: str) -> str:
    """Returns the path of a run's newest checkpoint.

    Raises:
      UserError: there is none, or only ones of the other format.
    """
    refuse_other_format(directory, suffix)
    paths = checkpoint_paths(directory, suffix)
    if not paths:
        raise UserError(f"There is no checkpoint in {directory}. Train first: t2t-trainer.")
    return paths[-1]


def existing_checkpoint(path: str | Path, suffix: str) -> str:
    """Returns the path of a checkpoint that may be given with or without its suffix.

    Raises:
      UserError: there is no such checkpoint; those in its directory are named.
    """
    file = Path(f"{str(path).removesuffix(suffix)}{suffix}")
    if not file.exists():
        refuse_other_format(file.parent, suffix)
        raise no_checkpoint(Path(path_of(file)), suffix)
    return path_of(file)


def step_of(path: str | Path) -> int | None:
    """Returns the step number in a checkpoint's path; None if it has none, as that of a copy."""
    found = _STEP.search(str(path))
    return int(found[1]) if found else None


def refuse_other_format(directory: str | Path, suffix: str) -> None:
    """Raises `UserError` if all checkpoints in a directory have another suffix than this."""
    npz, index = (files_by_step(directory, each) for each in (NPZ_SUFFIX, TENSORFLOW_SUFFIX))
    if npz and not index and suffix != NPZ_SUFFIX:
        raise UserError(
            f"{directory} contains JAX's checkpoints, such as {npz[-1].name}. Set "
            f"KERAS_BACKEND=jax, or convert the newest: t2t-npz-to-checkpoint "
            f"--model_dir={directory} --output_dir=NEW."
        )
    if index and not npz and suffix != TENSORFLOW_SUFFIX:
        raise UserError(
            f"{directory} contains TensorFlow's checkpoints, such as {index[-1].stem}. Set "
            f"KERAS_BACKEND=tensorflow, or give the directory of another run."
        )


def no_checkpoint(path: Path, suffix: str) -> UserError:
    """Returns the error for a checkpoint that does not exist."""
    names = ", ".join(Path(each).name for each in checkpoint_paths(path.parent, suffix))
    return UserError(f"There is no checkpoint {path}. In its directory: {names or 'none'}.")


def path_of(file: Path) -> str:
    """Returns the path of the checkpoint that a file `model.ckpt-<step><suffix>` belongs to."""
    return str(file).removesuffix(TENSORFLOW_SUFFIX)
