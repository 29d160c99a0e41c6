"""The part of a run's loop in which one worker and several differ.

`OneWorker` is a process that trains alone; `SeveralWorkers` is one of several that do every step
together. The loop asks either in the same words.
"""

import contextlib
import dataclasses
import signal
from contextlib import AbstractContextManager
from pathlib import Path

from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.training import backend
from t2t_keras.training.cluster import Cluster, cluster_from_environment
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.worker_fault import TRY_AGAIN, WorkerError
from t2t_keras.training.worker_files import ChiefCheckpoints, FollowerCheckpoints, FollowerCurves
from t2t_keras.training.worker_identity import worker_identity
from t2t_keras.training.worker_meeting import meet_as_chief, meet_chief, tell_failure
from t2t_keras.training.worker_watch import WorkerWatch

# TensorFlow's errors of which a lost worker may be the cause.
_LOSS = {
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "InternalError",
    "UnavailableError",
}
# How much longer than by a worker's silence its loss may take to be known; and a crash, at once.
_CAUSE_SECONDS, _CRASH_SECONDS = 30.0, 5.0


@dataclasses.dataclass(frozen=True)
class Agreed:
    """What all workers do after a step.

    Attributes:
      stop: number of the signal that ends the run, or 0.
      save: whether a checkpoint is written.
    """

    stop: int = 0
    save: bool = False


class OneWorker:
    """A process that trains alone.

    Attributes:
      cluster: None.
      is_chief: True: it writes everything.
      count: 1.
    """

    cluster = None
    is_chief = True
    count = 1

    def __enter__(self) -> "OneWorker":
        return self

    def __exit__(self, *_) -> None:
        pass

    def meet(self, record: RunRecord, generated: Generated, options) -> None:
        """Meets nobody."""

    def open_checkpoints(self, output_dir: str | Path, state: dict[str, object], keep: int):
        """Returns the run's `Checkpoints`."""
        return backend.checkpoints().Checkpoints(output_dir, state, keep)

    def make_curves(self, output_dir: str | Path):
        """Returns what writes the run's curves."""
        return backend.make_curves(output_dir)

    def begins(self, number: int) -> None:
        """Takes note that step `number` begins."""

    def busy(self, what: str) -> AbstractContextManager:
        """Returns a context for what is done between two steps."""
        return contextlib.nullcontext()

    def hear(self, number: int, sums: dict[str, float]) -> None:
        """Takes what other workers say with the sums of a step."""

    def agree(self, step: backend.Step, number: int, stop: int, save: bool) -> Agreed:
        """Returns what is done after step `number`: what this worker wants."""
        return Agreed(stop, save)

    def stopped_by(self, stop: int, agreed: Agreed) -> int:
        """Returns the number of the signal that came, even after the last step, or 0."""
        return stop


class SeveralWorkers:
    """One of several processes that do every step together.

    What a worker wants, to save because time has passed or to stop because of a signal, goes with
    the sums of its next step to all others, so that all do it after the same step and no further
    exchange is needed.

    Args:
      cluster: the workers.
      gpus: number of GPUs of this one.
      start_seconds: how long to wait for the others at the beginning.
      silence_seconds: how long one may be silent, or behind the others.

    Attributes:
      cluster: the workers.
      is_chief: whether this one writes checkpoints, curves and records.
      count: number of workers.
    """

    def __init__(
        self, cluster: Cluster, gpus: int, start_seconds: float = 300, silence_seconds: float = 60
    ):
        self.cluster, self.is_chief, self.count = cluster, cluster.is_chief, len(cluster.addresses)
        self._gpus = gpus
        self._start_seconds, self._silence_seconds = start_seconds, silence_seconds
        self._watch: WorkerWatch | None = None
        self._heard, self._acted_after = Agreed(), -1

    def __enter__(self) -> "SeveralWorkers":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if error is None:
            self._watch.finish()
        elif isinstance(error, WorkerError):
            pass  # The others have been told it together with this worker.
        else:
            self._tell(kind, error)

    def meet(self, record: RunRecord, generated: Generated, options) -> None:
        """Waits for all other workers, and compares; before TensorFlow uses its first device.

        Args:
          record: what this worker would use.
          generated: its data.
          options: a `TrainOptions`.

        Raises:
          WorkerError: not all come in time, or they use something else.
        """
        uses = worker_identity(self.cluster, record, generated, options, self._gpus)
        if self.is_chief:
            links = meet_as_chief(self.cluster, uses, self._start_seconds)
        else:
            links = {0: meet_chief(self.cluster, uses, self._start_seconds)}
        self._watch = WorkerWatch(self.cluster, links, self._silence_seconds)

    def open_checkpoints(self, output_dir: str | Path, state: dict[str, object], keep: int):
        """Returns what writes the run's checkpoints, as the chief, or reads the chief's."""
        checkpoints = backend.checkpoints().Checkpoints(output_dir, state, keep)
        if self.is_chief:
            return ChiefCheckpoints(checkpoints, self._watch)
        return FollowerCheckpoints(output_dir, checkpoints, self._watch)

    def make_curves(self, output_dir: str | Path):
        """Returns what writes the run's curves; only the chief's does."""
        return backend.make_curves(output_dir) if self.is_chief else FollowerCurves()

    def begins(self, number: int) -> None:
        """Tells the others that step `number` begins here."""
        self._watch.begins(number)

    def busy(self, what: str) -> AbstractContextManager:
        """Returns a context for what is done between two steps, for which the others wait."""
        return self._watch.busy(what)

    def hear(self, number: int, sums: dict[str, float]) -> None:
        """Takes what all workers want from the sums of a step, and out of them."""
        stop, save = sums.pop("stop_requests"), sums.pop("save_requests")
        # What was asked for before all have acted has been done.
        if number > self._acted_after:
            self._heard = Agreed(int(stop > 0), save > 0)

    def agree(self, step: backend.Step, number: int, stop: int, save: bool) -> Agreed:
        """Returns what all workers do after step `number`.

        Args:
          step: carries what this worker wants to the others, with the sums of the next steps.
          number: the step that was started last.
          stop: number of the signal that came here, or 0.
          save: whether a checkpoint is due by this worker's clock; only the chief's counts.
        """
        agreed, self._heard = self._heard, Agreed()
        if agreed.stop or agreed.save:
            self._acted_after = number
            step.request(stop=False, save=False)
        else:
            step.request(stop=bool(stop), save=save and self.is_chief)
        # Whoever got no signal itself ends as if it had got the usual one.
        return Agreed(agreed.stop and (stop or signal.SIGTERM), agreed.save)

    def stopped_by(self, stop: int, agreed: Agreed) -> int:
        """Returns the number of the signal that all workers were stopped by, or 0.

        Args:
          stop: number of the signal that came here: after the last step, it changes nothing.
          agreed: what was agreed on last.
        """
        return agreed.stop

    def _tell(self, kind: type[BaseException], error: BaseException) -> None:
        """Tells the others that this worker ends with an error."""
        expected = isinstance(error, UserError)
        text = str(error) if expected else f"{kind.__name__}: {error}"
        status = error.exit_status if expected else TRY_AGAIN
        if self._watch is None:
            tell_failure(self.cluster, text, status)
            return
        if kind.__module__.startswith("tensorflow"):
            # Where another worker is gone, the watch knows, or is about to, and ends this process
            # with the cause.
            lost = self._silence_seconds + _CAUSE_SECONDS
            self._watch.wait_for_end(lost if kind.__name__ in _LOSS else _CRASH_SECONDS)
        self._watch.fail(text, status)


def workers_of_run(options, worker_gpu: int | None = None) -> OneWorker | SeveralWorkers:
    """Returns this process and those that its environment says train with it.

    Args:
      options: a `TrainOptions`.
      worker_gpu: number of GPUs of each; None = all that are visible, 0 = the CPU.

    Raises:
      UserError: the environment cannot be read, or the backend trains on one machine only.
    """
    cluster = cluster_from_environment()
    if cluster is None:
        return OneWorker()
    gpus = backend.gpus_of_worker(worker_gpu)
    return SeveralWorkers(cluster, gpus, options.worker_start_secs, options.worker_timeout_secs)
