"""What the workers that are not the chief do where the chief writes: checkpoints and curves.

`--output_dir` is one folder that all workers see. Only mirrored variables are in a checkpoint, and
each worker has a copy of its own, so that the chief can write them without the others; a variable
whose value is a sum over replicas would need all to take part.
"""

import time
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_names import NAME, step_of
from t2t_keras.training.worker_watch import WorkerWatch

# How long a network file system may need to show a file to another machine.
_SHOWN_SECONDS = 10.0


class ChiefCheckpoints:
    """The checkpoints of a run with several workers, as the chief keeps them.

    Args:
      checkpoints: as one worker alone would keep them.
      watch: through which the others are told which is restored.
    """

    def __init__(self, checkpoints, watch: WorkerWatch):
        self._checkpoints, self._watch = checkpoints, watch

    def restore_newest(self) -> str | None:
        """Restores the newest checkpoint that is whole, and has all others restore it."""
        path = self._checkpoints.restore_newest()
        self._watch.tell_checkpoint(step_of(path) if path else None)
        self._watch.checkpoint = path or ""
        return path

    def save(self, step: int) -> str:
        """Writes a checkpoint; no other worker's end interrupts it."""
        with self._watch.saving():
            path = self._checkpoints.save(step)
            # Still here, where an end waits for it: or the end would name the one before.
            self._watch.tell_saved(path)
        return path


class FollowerCheckpoints:
    """The chief's checkpoints, as the other workers read them.

    Args:
      directory: the run's, where the chief writes.
      checkpoints: what restores from there.
      watch: through which the chief says which is restored.
    """

    def __init__(self, directory: str | Path, checkpoints, watch: WorkerWatch):
        self._directory, self._checkpoints, self._watch = Path(directory), checkpoints, watch

    def restore_newest(self) -> str | None:
        """Restores the checkpoint that the chief has restored.

        Raises:
          UserError: it is not in this worker's `--output_dir`, or cannot be read.
        """
        step = self._watch.told_checkpoint()
        if step is None:
            return None
        path = str(self._directory / f"{NAME}-{step}")
        deadline = time.monotonic() + _SHOWN_SECONDS
        while not Path(f"{path}.index").exists():
            if time.monotonic() > deadline:
                raise UserError(
                    f"The chief continues from step {step:,}, but {path} is not there. "
                    f"--output_dir must be one folder that all workers see."
                )
            time.sleep(0.2)
        self._checkpoints.restore(path)
        self._watch.checkpoint = path
        return path

    def save(self, step: int) -> str:
        """Returns the path of what the chief writes at this step."""
        return str(self._directory / f"{NAME}-{step}")


class FollowerCurves:
    """Takes what the chief writes to the curves, and writes nothing."""

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Writes nothing."""

    def close(self) -> None:
        """Has nothing to end."""
