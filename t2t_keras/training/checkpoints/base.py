"""What the checkpoints of both formats share: naming, pruning, restoring past a damaged one."""

import abc
import contextlib
import glob
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import TEMPORARY_SUFFIX
from t2t_keras.training.checkpoints.names import (
    BEST,
    NAME,
    NPZ_SUFFIX,
    checkpoint_paths,
    path_of,
    refuse_other_format,
    step_of,
)


class DamagedCheckpointError(UserError):
    """A checkpoint cannot be read, for the reason that `error` tells."""

    def __init__(self, path: str | Path, error: BaseException, sound: str = ""):
        advice = ""
        if sound:
            name = Path(sound).name
            advice = f" The newest intact one is {name}: give it, as by --checkpoint_path={sound}."
        super().__init__(
            f"The checkpoint {path} is damaged: {first_line(error)}.{advice}",
            code="checkpoint_damaged",
        )
        self.error = error


class WeightsOnlyError(UserError):
    """A run cannot continue from a checkpoint without the optimizer's state."""

    def __init__(self, path: str | Path):
        super().__init__(
            f"The checkpoint {path} contains weights only, from which a run cannot continue. Start "
            f"a new one, in a new --output_dir, with --warm_start_from={path}.",
            code="weights_only",
        )


class Checkpoints(abc.ABC):
    """The newest `keep` checkpoints of a run, written whole or not at all, with a state by name."""

    suffix: str
    write_errors: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, directory: str | Path, state: Mapping[str, Any], keep: int):
        self._directory, self._state, self._keep = Path(directory), state, keep

    @abc.abstractmethod
    def restore(self, path: str) -> None:
        """Restores a checkpoint, and changes no file.

        Raises:
          DamagedCheckpointError: its content cannot be read; nothing is restored.
          UserError: the system does not let it be read, it lacks a part of the state, or has other
            shapes.
        """

    @abc.abstractmethod
    def _write(self, path: str) -> None:
        """Writes a checkpoint."""

    def _list(self, paths: Sequence[str]) -> None:  # noqa: B027
        """Writes the list of checkpoints, if the format has a file for it."""

    def _has_saved(self) -> bool:
        """Returns whether other files show that checkpoints were saved."""
        return False

    def restore_newest(self) -> str | None:
        """Restores the newest undamaged checkpoint and returns its path; None if there is none.

        Damaged ones are reported and renamed.

        Raises:
          UserError: there are checkpoints, but all are damaged, or of the other format; the system
            does not let one be read; or those that were saved are gone.
        """
        refuse_other_format(self._directory, self.suffix)
        paths = checkpoint_paths(self._directory, self.suffix)
        for number, path in reversed(list(enumerate(paths))):
            try:
                self.restore(path)
            except DamagedCheckpointError as error:
                print(f"{error} It is renamed to damaged.{Path(path).name}.", flush=True)
                for file in self._files(path):
                    file.rename(file.with_name(f"damaged.{file.name}"))
            else:
                self._remove_interrupted()
                self._list(paths[: number + 1])
                return path
        # Also those that an earlier start has renamed.
        damaged = sorted(self._directory.glob(f"damaged.{NAME}-*{self.suffix}"))
        if damaged:
            raise UserError(
                f"None of the {len(damaged)} checkpoints in {self._directory} can be read: "
                f"{', '.join(file.name for file in damaged)}. {self._way_on()}",
                code="checkpoint_damaged",
            )
        if self._has_saved():
            raise UserError(
                f"The checkpoints that were saved in {self._directory} are gone, so the run cannot "
                f"continue: expected {NAME}-*{self.suffix} and what belongs to it. Put them back. "
                f"Or: {self._way_on()}",
                code="checkpoints_gone",
            )
        return None

    def _way_on(self) -> str:
        best = checkpoint_paths(self._directory / BEST, self.suffix)
        warm_start = f", with --warm_start_from={best[-1]} to begin with the best" if best else ""
        return f"Give a new --output_dir{warm_start}; or remove {self._directory} to train anew."

    def save(self, step: int) -> str:
        """Writes the state as the checkpoint of a step, whose path it returns; deletes the oldest.

        Raises:
          UserError: it cannot be written, as on a full disk; earlier ones stay.
        """
        before = checkpoint_paths(self._directory, self.suffix)
        path = path_of(self._directory / f"{NAME}-{step}{self.suffix}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write(path)
        except self.write_errors as error:
            self._remove([path] if path not in before else [])
            self._remove_interrupted()
            advice = "give the same command again"
            # A run does not continue from weights alone, as those of best/.
            if "optimizer" in self._state:
                begin = before[-1] if before else "the beginning"
                advice = f"the same command continues from {begin}"
            raise UserError(
                f"Cannot write the checkpoint {path}: {first_line(error)}. Make room; {advice}.",
                code="not_written",
            ) from error
        paths = [*(each for each in before if each != path), path]
        self._list(paths[-self._keep :])
        self._remove(paths[: -self._keep])
        return path

    def _files(self, path: str) -> list[Path]:
        # The index first: without it, what is left is not taken for a checkpoint.
        return sorted(self._directory.glob(f"{NAME}-{step_of(path)}.*"), reverse=True)

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            for file in self._files(path):
                with contextlib.suppress(OSError):
                    file.unlink()

    def _remove_interrupted(self) -> None:
        """Deletes what interrupted writes have left."""
        for left in self._directory.glob(f"{NAME}-*_temp"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self._directory.glob(f"{NAME}-*{TEMPORARY_SUFFIX}"):
            left.unlink(missing_ok=True)


def unreadable(path: str | Path, error: Exception, is_unseen: bool = False) -> UserError:
    """Returns the error of a checkpoint whose reading failed.

    It is damaged only if its bytes can be read and are wrong: not if a permission or memory was
    missing, nor if `is_unseen`: the reader did not find or open a file that is there.
    """
    name = Path(path).name.removesuffix(NPZ_SUFFIX)
    is_refused = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno)
    refusal: BaseException | None = error if is_unseen or is_refused else None
    if refusal is None:
        # Errors of TensorFlow and of zip archives do not say what the system refused.
        try:
            for file in Path(path).parent.glob(f"{glob.escape(name)}.*"):
                with file.open("rb") as content:
                    while content.read(1 << 20):
                        pass
        except (OSError, MemoryError) as refused:
            refusal = refused
    if refusal is None:
        return DamagedCheckpointError(path, error)
    return UserError(
        f"Cannot read the checkpoint {path}: {first_line(refusal)}. It is left as it is; give the "
        f"same command again when it can be read.",
        code="checkpoint_not_read",
    )


@contextlib.contextmanager
def named_alternative(path: str | Path, suffix: str, read: Callable[[str], object]) -> Iterator:
    """Names the newest earlier checkpoint that `read` can read, if a checkpoint is damaged."""
    try:
        yield
    except DamagedCheckpointError as damaged:
        step = step_of(path)
        for earlier in reversed(checkpoint_paths(Path(path).parent, suffix)):
            if step is None or step_of(earlier) >= step:
                continue
            try:
                read(earlier)
            except UserError:
                continue
            raise DamagedCheckpointError(path, damaged.error, earlier) from damaged.error
        raise


def other_hyperparameters(path: str | Path, reason: str) -> UserError:
    """Returns the error of a checkpoint that does not fit the model."""
    return UserError(
        f"The checkpoint {path} is of a model with other hyperparameters: {reason}.",
        code="other_model",
    )


def first_line(error: BaseException) -> str:
    """Returns the type and the first line of an error, without a full stop."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}".rstrip(".: ")
