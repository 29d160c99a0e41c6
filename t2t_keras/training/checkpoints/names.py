"""The names of checkpoints, and which of them are in a directory.

TensorFlow writes `model.ckpt-<step>.index` and data beside it, JAX `model.ckpt-<step>.npz`. The
path of a checkpoint is the prefix of TensorFlow's files, and JAX's whole file name.
"""

import re
from pathlib import Path

from t2t_keras.errors import UserError, command_line
from t2t_keras.io.folders import not_a_run

NAME = "model.ckpt"
TENSORFLOW_SUFFIX = ".index"
NPZ_SUFFIX = ".npz"
BEST = "best"  # The folder within a run for the weights with the lowest dev loss.
_STEP = re.compile(r"-(\d+)(?:\.\w+)?$")


def checkpoint_paths(directory: str | Path, suffix: str) -> list[str]:
    """Returns the paths of the checkpoints of a format in a directory, by step, newest last."""
    found = {}
    for file in Path(directory).glob(f"{NAME}-*{suffix}"):
        if match := re.fullmatch(rf"{re.escape(NAME)}-(\d+){re.escape(suffix)}", file.name):
            found[int(match[1])] = path_of(file)
    return [found[step] for step in sorted(found)]


def newest_checkpoint(directory: str | Path, suffix: str) -> str:
    """Returns a run's newest checkpoint; raises `UserError` if there is none of this format."""
    refuse_other_format(directory, suffix)
    paths = checkpoint_paths(directory, suffix)
    if not paths:
        run = (Path(directory) / "run.json").exists()
        why = "The training has saved none yet." if run else not_a_run(directory)
        if run and checkpoint_paths(best := Path(directory) / BEST, suffix):
            why = f"The one with the lowest dev loss is in {best}: give that folder."
        raise UserError(f"There is no checkpoint in {directory}. {why}", code="no_checkpoint")
    return paths[-1]


def existing_checkpoint(path: str | Path, suffix: str) -> str:
    """Returns the path of a checkpoint that may be given with or without its suffix.

    Where there is none, a `UserError` names those in its directory.
    """
    file = Path(f"{str(path).removesuffix(suffix)}{suffix}")
    if not file.exists():
        refuse_other_format(file.parent, suffix)
        names = [Path(each).name for each in checkpoint_paths(file.parent, suffix)]
        raise UserError(
            f"There is no checkpoint {path_of(file)}. In its directory: "
            f"{', '.join(names) or 'none'}.",
            code="no_checkpoint",
        )
    return path_of(file)


def checkpoint_at(path: str | Path, suffix: str = TENSORFLOW_SUFFIX) -> str:
    """Returns the path of a run's newest checkpoint, or of one given with or without its suffix.

    Raises:
      UserError: there is none of this format.
    """
    if Path(path).is_dir():
        return newest_checkpoint(path, suffix)
    return existing_checkpoint(path, suffix)


def identity(checkpoint: str | Path) -> dict[str, str | int]:
    """Returns what tells a checkpoint of TensorFlow from one later written in its place.

    Raises:
      UserError: it is not there.
    """
    path = existing_checkpoint(checkpoint, TENSORFLOW_SUFFIX)
    written = Path(f"{path}{TENSORFLOW_SUFFIX}").stat().st_mtime_ns
    return {"checkpoint": str(checkpoint), "written": written}


def step_of(path: str | Path) -> int | None:
    """Returns the step number in a checkpoint's path; None if it has none, as that of a copy."""
    found = _STEP.search(str(path))
    return int(found[1]) if found else None


def known_step_of(path: str | Path) -> int:
    """Returns the step number in a checkpoint's path; a `UserError` where it has none."""
    step = step_of(path)
    if step is None:
        suffix = NPZ_SUFFIX if str(path).endswith(NPZ_SUFFIX) else ""
        raise UserError(
            f"{path}: expected a name with its step, as {NAME}-1000{suffix}.", code="bad_file_name"
        )
    return step


def refuse_other_format(directory: str | Path, suffix: str) -> None:
    """Raises `UserError` if all checkpoints in a directory have another suffix than this."""
    npz, tf = (checkpoint_paths(directory, each) for each in (NPZ_SUFFIX, TENSORFLOW_SUFFIX))
    if npz and not tf and suffix != NPZ_SUFFIX:
        raise UserError(
            f"{directory} contains JAX's checkpoints, such as {Path(npz[-1]).name}. Set "
            f"KERAS_BACKEND=jax, or convert the newest:"
            + command_line(
                "t2t-npz-to-checkpoint", model_dir=directory, output_dir=f"{directory}-tensorflow"
            ),
            code="other_checkpoint_format",
        )
    if tf and not npz and suffix != TENSORFLOW_SUFFIX:
        raise UserError(
            f"{directory} contains TensorFlow's checkpoints, such as {Path(tf[-1]).name}. Set "
            f"KERAS_BACKEND=tensorflow, or give the directory of another run.",
            code="other_checkpoint_format",
        )


def path_of(file: Path) -> str:
    """Returns the path of the checkpoint that a file `model.ckpt-<step><suffix>` belongs to."""
    return str(file).removesuffix(TENSORFLOW_SUFFIX)
