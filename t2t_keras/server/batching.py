"""Lines of many requests, translated together."""

import asyncio
import collections
import concurrent.futures
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from t2t_keras.errors import UserError

# Gives a result for each line, all with the same options.
Translate = Callable[[list[str], Hashable], Sequence[Any]]


class QueueFullError(Exception):
    """More lines wait than may; the request can be sent again later."""


class _Job(NamedTuple):
    """Lines of one request."""

    lines: list[str]
    options: Hashable
    future: concurrent.futures.Future


class Batcher:
    """Translates what several requests have sent in one go, in threads of its own.

    An idle one waits a moment for more lines. While it translates, others gather, so under load
    batches are full without waiting. Lines with other options wait for the next batch; no request
    is begun after later ones with its options.

    Args:
      translate: takes lines and options, and returns a result for each, as a `Translation`.
      max_wait_ms: longest wait of an idle batcher.
      max_lines: most lines of a batch; a longer job is a batch of its own.
      max_queued: most lines that wait.
      threads: most batches at a time.
      observe: takes the number of lines and the seconds of each batch.
    """

    def __init__(
        self,
        translate: Translate,
        max_wait_ms: float,
        max_lines: int,
        max_queued: int,
        threads: int = 1,
        observe: Callable[[int, float], object] = lambda lines, seconds: None,
    ):
        self._translate, self._observe = translate, observe
        self._max_wait, self._max_lines, self._max_queued = (
            max_wait_ms / 1000,
            max_lines,
            max_queued,
        )
        self._jobs: collections.deque[_Job] = collections.deque()
        self._changed = threading.Condition()
        self._open = True
        self._threads = [
            threading.Thread(target=self._work, name="batcher", daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued_lines(self) -> int:
        """Number of lines that wait."""
        with self._changed:
            return sum(len(job.lines) for job in self._jobs)

    async def translate(
        self, lines: Sequence[str], options: Hashable = None, may_wait: bool = False
    ) -> list[Any]:
        """Returns the result for each line; what is cancelled while it waits is not translated.

        Raises:
          QueueFullError: too many lines wait.
          UserError: the translator's.
        """
        return await asyncio.wrap_future(self.submit(lines, options, may_wait)) if lines else []

    def submit(
        self, lines: Sequence[str], options: Hashable = None, may_wait: bool = False
    ) -> concurrent.futures.Future[list[Any]]:
        """Returns what `translate` does as a future, for threads.

        What `may_wait` is taken however many lines wait already.
        """
        job = _Job(list(lines), options, concurrent.futures.Future())
        with self._changed:
            waiting = sum(len(each.lines) for each in self._jobs)
            # Whatever is allowed in a request must be possible on an idle server.
            if not may_wait and waiting and waiting + len(job.lines) > self._max_queued:
                raise QueueFullError
            if not self._open:
                raise UserError("The model was removed while it was asked: try again.")
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Ends the threads when all jobs are done."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while jobs := self._next_jobs():
            started = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            if not started:
                continue
            began = time.perf_counter()
            self._run(started)
            lines = sum(len(job.lines) for job in started)
            self._observe(lines, time.perf_counter() - began)

    def _next_jobs(self) -> list[_Job]:
        """Returns jobs of the same options; none when the batcher is closed and empty."""
        with self._changed:
            while not self._jobs and self._open:
                self._changed.wait()
                self._gather()
            taken: list[_Job] = []
            others: list[_Job] = []
            room = self._max_lines
            for job in self._jobs:
                fits = not taken or (job.options == taken[0].options and len(job.lines) <= room)
                (taken if fits else others).append(job)
                if fits:
                    room -= len(job.lines)
                elif job.options == taken[0].options:
                    room = 0  # Nothing overtakes it.
            self._jobs = collections.deque(others)
            if others:  # Those who came while this thread gathered have woken no other.
                self._changed.notify()
            return taken

    def _gather(self) -> None:
        """Waits for more lines, or until another thread has taken what is there."""
        until = time.monotonic() + self._max_wait
        while self._jobs and self._open:
            first = self._jobs[0].options
            lines = sum(len(job.lines) for job in self._jobs if job.options == first)
            left = until - time.monotonic()
            if lines >= self._max_lines or left <= 0 or not self._changed.wait(left):
                break

    def _run(self, jobs: Sequence[_Job]) -> None:
        try:
            lines = [line for job in jobs for line in job.lines]
            found = list(self._translate(lines, jobs[0].options))
        except BaseException as error:  # Whatever it is, its request must get an answer.
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            # One request's lines must not fail the others'.
            for job in jobs:
                self._run([job])
            return
        for job in jobs:
            job.future.set_result(found[: len(job.lines)])
            found = found[len(job.lines) :]
