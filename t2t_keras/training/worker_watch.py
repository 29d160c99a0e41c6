"""While workers train together, each knows within seconds when and why another no longer does.

A collective operation whose peer is gone waits, or fails without saying which peer it was. So a
thread in each process exchanges signs of life with the chief, beside TensorFlow. The chief sees who
is gone, silent or behind, and tells all; a worker that hears of it, or that hears nothing more from
the chief, ends its process, since nothing else ends a collective operation that waits.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from t2t_keras.training.cluster import Cluster
from t2t_keras.training.worker_fault import TRY_AGAIN, WorkerError
from t2t_keras.training.worker_links import Link, wait_for_any
from t2t_keras.training.worker_meeting import capital, crashed, ended, failed, stopped

# The longest that building a model, the first step, writing a checkpoint or evaluating may take.
_BUSY_SECONDS = 3600.0
# No worker begins a step for so long, and for so many times the longest step before, and none is
# busy otherwise: the devices or the network hang.
_NO_STEP_SECONDS = 600.0
_LONGER_THAN_BEFORE = 5
# How long an end waits for a checkpoint that is being written.
_SAVING_SECONDS = 60.0
_FINISHED = 1 << 60


class _Worker:
    """What is known of a worker, this one or another."""

    def __init__(self):
        self.step, self.busy = -1, "starting"
        self.heard = self.changed = time.monotonic()
        self.behind_since: float | None = None
        self.longest_step = 0.0
        self.done = False

    def report(self, step: int, busy: str) -> None:
        if (step, busy) != (self.step, self.busy):
            now = time.monotonic()
            if step > self.step >= 0 and not self.busy:
                self.longest_step = max(self.longest_step, now - self.changed)
            self.changed, self.behind_since = now, None
        self.step, self.busy = step, busy

    def where(self) -> str:
        if self.busy:
            return f"while {self.busy}"
        return "after the last step" if self.step == _FINISHED else f"in step {self.step + 1:,}"


def end_process(fault: WorkerError, checkpoint: str) -> None:
    """Ends this process, whatever its other threads wait for.

    Args:
      fault: why; printed to standard error.
      checkpoint: the newest one, "" where there is none.
    """
    further = ""
    if fault.exit_status == TRY_AGAIN:
        since = f"continues from {checkpoint}" if checkpoint else "begins anew"
        further = f" The same command on every machine {since}."
    sys.stdout.flush()
    print(f"t2t-trainer: {fault}{further}", file=sys.stderr, flush=True)
    os._exit(fault.exit_status)


class WorkerWatch:
    """The thread that watches the other workers of a run.

    Args:
      cluster: the workers.
      links: connections to the others: the chief has one to each, the others one to the chief.
      silence_seconds: how long a worker may be silent, or behind the others.
      end: ends this process; it is called in the watch's own thread.

    Attributes:
      checkpoint: the newest that is known to be whole, "" where there is none.
    """

    def __init__(
        self,
        cluster: Cluster,
        links: Mapping[int, Link],
        silence_seconds: float,
        end: Callable[[WorkerError, str], None] = end_process,
    ):
        self._cluster, self._links = cluster, dict(links)
        self._silence_seconds, self._end = silence_seconds, end
        self._period = min(1.0, silence_seconds / 4)
        self._workers = {index: _Worker() for index in range(len(cluster.addresses))}
        self._own = self._workers[cluster.index]
        self._saving = threading.Lock()
        self._changed = threading.Condition()
        self._told_checkpoint: list[int | None] = []
        self._over = threading.Event()
        self.checkpoint = ""
        self._thread = threading.Thread(target=self._watch, name="worker watch", daemon=True)
        self._thread.start()

    def begins(self, step: int) -> None:
        """Says that this worker begins a step, counted from 0."""
        self._own.report(step, "")

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Says what this worker does between two steps, for which the others wait."""
        before = self._own.busy
        self._own.report(self._own.step, what)
        try:
            yield
        finally:
            self._own.report(self._own.step, before)

    def saving(self) -> threading.Lock:
        """Returns the context in which a checkpoint is written: no fault interrupts it."""
        return self._saving

    def tell_checkpoint(self, step: int | None) -> None:
        """Tells all other workers, as the chief, which checkpoint to continue from, if any."""
        self._send({"checkpoint": step})

    def told_checkpoint(self) -> int | None:
        """Returns what the chief told by `tell_checkpoint`, after waiting for it."""
        with self._changed:
            self._changed.wait_for(lambda: self._told_checkpoint)
        return self._told_checkpoint[0]

    def tell_saved(self, path: str) -> None:
        """Tells all other workers, as the chief, that this checkpoint is whole."""
        self.checkpoint = path
        self._send({"saved": path})

    def fail(self, text: str, exit_status: int) -> None:
        """Tells the others that this worker ends with an error, and no longer watches."""
        self._over.set()
        self._thread.join()
        self._tell_end(WorkerError(text, exit_status), own=True)

    def wait_for_end(self, seconds: float) -> None:
        """Waits, at most so long, for this process to be ended because of another worker."""
        self._thread.join(seconds)

    def finish(self) -> None:
        """Waits until all workers have finished, and no longer watches."""
        self._own.report(_FINISHED, "")
        self._own.done = True
        if not self._cluster.is_chief:
            self._send({"done": True})
        others = [self._workers[index] for index in self._links]
        with self._changed:
            self._changed.wait_for(lambda: all(each.done for each in others))
        if self._cluster.is_chief:
            self._send({"done": True})
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._send({"step": self._own.step, "busy": self._own.busy})
            fault = self._read(self._period) or self._silent()
            if fault is None and self._cluster.is_chief:
                fault = self._behind() or self._hangs()
            if fault:
                self._tell_end(fault)
                # What is written is whole in any case; but waiting for it saves the work.
                self._saving.acquire(timeout=_SAVING_SECONDS)
                self._end(fault, self.checkpoint)
                return

    def _send(self, message: dict) -> None:
        for link in list(self._links.values()):
            # Who cannot be reached is found when nothing more is read from it.
            with contextlib.suppress(OSError):
                link.send(message)

    def _tell_end(self, fault: WorkerError, own: bool = False) -> None:
        text, status = str(fault), fault.exit_status
        if not self._cluster.is_chief:
            self._send({"failed": text, "status": status})
        elif own:
            self._send({"stop": str(ended(self._cluster, 0, text)), "status": status})
        else:
            self._send({"stop": text, "status": status})

    def _read(self, seconds: float) -> WorkerError | None:
        """Takes in what the others say, for at most so long; returns the fault they tell of."""
        deadline = time.monotonic() + seconds
        while not self._over.is_set():
            remaining = deadline - time.monotonic()
            if not self._links:
                self._over.wait(max(remaining, 0.0))
                return None
            wait_for_any(list(self._links.values()), min(remaining, 0.1))
            for index, link in list(self._links.items()):
                try:
                    messages = link.receive(0)
                except OSError:
                    if not self._workers[index].done:
                        return self._gone(index)
                    del self._links[index]
                    continue
                for message in messages:
                    fault = self._take_in(index, message)
                    if fault:
                        return fault
            if remaining <= 0:
                return None
        return None

    def _take_in(self, index: int, message: dict) -> WorkerError | None:
        worker = self._workers[index]
        worker.heard = time.monotonic()
        if "stop" in message:
            return stopped(message)
        if "failed" in message:
            return failed(self._cluster, index, message)
        self.checkpoint = message.get("saved", self.checkpoint)
        with self._changed:
            if "checkpoint" in message:
                self._told_checkpoint = [message["checkpoint"]]
            if "done" in message:
                worker.done = True
                worker.report(_FINISHED, "")
            self._changed.notify_all()
        if "step" in message:
            worker.report(message["step"], message["busy"])
        return None

    def _gone(self, index: int) -> WorkerError:
        return crashed(self._cluster, index, self._workers[index].where())

    def _silent(self) -> WorkerError | None:
        for index in self._links:
            worker = self._workers[index]
            if not worker.done and time.monotonic() - worker.heard > self._silence_seconds:
                return WorkerError(
                    f"{capital(self._cluster.name(index))} has not been heard of for "
                    f"{self._silence_seconds:g} s (--worker_timeout_secs), last {worker.where()}: "
                    f"it is stopped, or its machine or the network is down."
                )
        return None

    def _behind(self) -> WorkerError | None:
        """Returns the fault of a worker for which others wait at a later step."""
        now, ahead = time.monotonic(), max(each.step for each in self._workers.values())
        for index, worker in self._workers.items():
            if worker.step == ahead or worker.busy:
                worker.behind_since = None
                continue
            worker.behind_since = worker.behind_since or now
            # A little later than its silence would be, which says more.
            if now - worker.behind_since > self._silence_seconds + 2 * self._period:
                return WorkerError(
                    f"{capital(self._cluster.name(index))} stalls {worker.where()}: others have "
                    f"waited for it for {self._silence_seconds:g} s (--worker_timeout_secs). It "
                    f"may wait for its data or its device."
                )
        return None

    def _hangs(self) -> WorkerError | None:
        """Returns the fault of workers that are alive but no longer begin steps."""
        now = time.monotonic()
        for index, worker in self._workers.items():
            if worker.busy and now - worker.changed > _BUSY_SECONDS:
                return WorkerError(
                    f"{capital(self._cluster.name(index))} has been {worker.busy} for more than "
                    f"{_BUSY_SECONDS:g} s."
                )
        idle = min(now - each.changed for each in self._workers.values())
        longest = max(each.longest_step for each in self._workers.values())
        most = max(_NO_STEP_SECONDS, _LONGER_THAN_BEFORE * longest) if longest else _BUSY_SECONDS
        if idle > most and not any(each.busy for each in self._workers.values()):
            return WorkerError(
                f"No worker has begun a step for {most:.0f} s: all are "
                f"{self._own.where()}. Their devices or the network between them hang."
            )
        return None
