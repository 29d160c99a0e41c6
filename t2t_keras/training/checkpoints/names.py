"""Names of checkpoints, `model.ckpt-<step>.safetensors`, and which of them are in a directory."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.io.folders import not_a_run
from t2t_keras.training.checkpoints.format import SUFFIX, DamagedCheckpointError, read, read_head

NAME = "model.ckpt"
BEST = "best"  # The folder within a run for the weights with the lowest dev loss.
_STEP = re.compile(r"-(\d+)(?:\.\w+)?$")


def path_at(directory: str | Path, step: int) -> str:
    """Returns the path of the checkpoint of a step."""
    return str(Path(directory) / f"{NAME}-{step}{SUFFIX}")


def checkpoint_paths(directory: str | Path) -> list[str]:
    """Returns the paths of the checkpoints in a directory, by step, newest last."""
    paths = {}
    for file in Path(directory).glob(f"{NAME}-*{SUFFIX}"):
        if match := re.fullmatch(rf"{re.escape(NAME)}-(\d+){re.escape(SUFFIX)}", file.name):
            paths[int(match[1])] = str(file)
    return [paths[step] for step in sorted(paths)]


def newest_checkpoint(directory: str | Path) -> str:
    """Returns a run's newest checkpoint; raises `UserError` if there is none."""
    paths = checkpoint_paths(directory)
    if not paths:
        run = (Path(directory) / "run.json").exists()
        why = "The training has saved none yet." if run else not_a_run(directory)
        if run and checkpoint_paths(best := Path(directory) / BEST):
            why = f"The one with the lowest dev loss is in {best}: give that folder."
        raise UserError(f"There is no checkpoint in {directory}. {why}", code="no_checkpoint")
    return paths[-1]


def existing_checkpoint(path: str | Path) -> str:
    """Returns the path of a checkpoint that may be given with or without its suffix.

    Where there is none, a `UserError` names those in its directory.
    """
    file = Path(f"{str(path).removesuffix(SUFFIX)}{SUFFIX}")
    if not file.exists():
        names = [Path(other).name for other in checkpoint_paths(file.parent)]
        raise UserError(
            f"There is no checkpoint {file}. In its directory: {', '.join(names) or 'none'}.",
            code="no_checkpoint",
        )
    return str(file)


def checkpoint_at(path: str | Path) -> str:
    """Returns the path of a run's newest checkpoint, or of one given with or without its suffix.

    Raises:
      UserError: there is none.
    """
    if Path(path).is_dir():
        return newest_checkpoint(path)
    return existing_checkpoint(path)


def identity(checkpoint: str | Path) -> dict[str, str]:
    """Returns what tells a checkpoint from one later written in its place.

    Raises:
      UserError: it is not there, or its head cannot be read.
    """
    path = existing_checkpoint(checkpoint)
    with named_alternative(path):
        return {"checkpoint": path, "digest": read_head(path)["digest"]}


@contextlib.contextmanager
def named_alternative(path: str | Path) -> Iterator[None]:
    """Names the newest earlier checkpoint that is intact, if a checkpoint is damaged."""
    try:
        yield
    except DamagedCheckpointError as damaged:
        step = step_of(path)
        earlier = (
            other
            for other in reversed(checkpoint_paths(Path(path).parent))
            if step is not None and known_step_of(other) < step and _is_intact(other)
        )
        newest = next(earlier, None)
        if newest is None:
            raise
        raise DamagedCheckpointError(path, damaged.error, newest) from damaged.error


def _is_intact(path: str) -> bool:
    try:
        read(path)
    except UserError:
        return False
    return True


def step_of(path: str | Path) -> int | None:
    """Returns the step number in a checkpoint's path; None if it has none, as that of a copy."""
    found = _STEP.search(str(path))
    return int(found[1]) if found else None


def known_step_of(path: str | Path) -> int:
    """Returns the step number in a checkpoint's path; a `UserError` where it has none."""
    step = step_of(path)
    if step is None:
        raise UserError(
            f"{path}: expected a name with its step, as {NAME}-1000{SUFFIX}.", code="bad_file_name"
        )
    return step
