"""Batches the lines of many requests, and shares the machine fairly between clients."""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.errors import UserError
from t2t_keras.workbench.server.requests import Budget, JobEndedError

# Scoring this many sentences costs as much as one search.
_SCORED_PER_SEARCH = 8
_MAX_SCORED = 256  # sentences at a time, because attention needs memory
# Methods of an engine that take translations with their sources.
_SCORING_METHODS = {"log_probs", "scores", "cross_attention", "attention"}
# Takes lines, their options and the batch; returns a result for each line.
Translate = Callable[[list[str], Any, "Batch"], Sequence[Any]]

# Maximum lines and characters of one client in a batch with other clients.
_MAX_SHARED_LINES, _MAX_SHARED_CHARACTERS = 8, 2_000
# A batch is long if one client exceeds that maximum, or if most of the batch is one client's and it
# needs more searches than this. A long batch delays only its own clients. It searches for few
# sentences at a time, and for fewer while other clients have work.
_MAX_SHORT_SEARCHES = 4
_ROWS_ALONE, _ROWS_AMONG_OTHERS = 64, 2
_MAX_LONG_BATCHES = 6  # concurrent long batches, in addition to `at_once` others


class QueueFullError(Exception):
    """Too many lines are waiting; the request can be retried later."""


class Shares:
    """How much each client with work has used the machine.

    New and returning clients start at the others' lowest use or above: idle time earns no credit.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._jobs: dict[str, int] = {}

    def arrive(self, client: str) -> None:
        """Adds a waiting or running job of a client."""
        if not self._jobs.get(client):
            lowest_use = min((self._used[name] for name in self._jobs), default=0.0)
            self._used[client] = max(self._used.get(client, 0.0), lowest_use)
        self._jobs[client] = self._jobs.get(client, 0) + 1

    def leave(self, client: str) -> None:
        """Removes a finished job of a client."""
        self._jobs[client] -= 1
        if not self._jobs[client]:
            del self._jobs[client]
            # Remember only absent clients that have used more than all present ones.
            highest_use = max((self._used[name] for name in self._jobs), default=0.0)
            self._used = {
                name: use
                for name, use in self._used.items()
                if name in self._jobs or use > highest_use > 0
            }

    def charge(self, shares: Mapping[str, float], cost: float) -> None:
        """Charges a cost to clients, whose shares add up to 1."""
        for client, share in shares.items():
            self._used[client] = self._used.get(client, 0.0) + share * cost

    def rank(self, clients: Iterable[str]) -> float:
        """Returns the lowest use of the clients; the lowest rank comes first."""
        return min((self._used.get(client, 0.0) for client in clients), default=0.0)

    @property
    def has_several_clients(self) -> bool:
        """Whether more than one client has work."""
        return len(self._jobs) > 1


@dataclasses.dataclass(eq=False)
class _Waiter:
    """A thread that waits for a turn."""

    clients: list[str]
    has_turn: bool = False


class Turns:
    """Limits concurrent searches; the client that has used least comes first.

    Args:
      limit: maximum number of concurrent searches.
      shares: use by each client; guarded by `changed`.
      changed: condition that is notified when turns are granted.
    """

    def __init__(self, limit: int, shares: Shares, changed: threading.Condition):
        self._free, self._shares, self._changed = limit, shares, changed
        self._waiting: list[_Waiter] = []

    @contextlib.contextmanager
    def turn(self, clients: list[str]) -> Iterator[None]:
        """Waits for a turn to search on behalf of clients, and holds it."""
        waiter = _Waiter(clients)
        with self._changed:
            self._waiting.append(waiter)
            self._grant()
            while not waiter.has_turn:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._grant()

    def _grant(self) -> None:
        """Grants the free turns.

        Waiters must not decide themselves who is first: the order changes while they wake up, and
        each might leave the turn to another.
        """
        while self._free and self._waiting:
            first = min(self._waiting, key=lambda waiter: self._shares.rank(waiter.clients))
            self._waiting.remove(first)
            first.has_turn = True
            self._free -= 1
        self._changed.notify_all()


@dataclasses.dataclass(eq=False)
class _Job:
    """Lines of one request. `runs_alone`: a shared batch failed, so the job is retried alone."""

    lines: list[str]
    options: Hashable
    budget: Budget
    runs_alone: bool = False
    future: concurrent.futures.Future = dataclasses.field(default_factory=concurrent.futures.Future)

    @property
    def client(self) -> str:
        return self.budget.client

    @property
    def size(self) -> int:
        """Characters plus lines: the job's weight when a batch's cost is divided."""
        return sum(map(len, self.lines)) + len(self.lines)

    @property
    def fraction_of_limit(self) -> float:
        """The job's size as a fraction of a client's maximum in a batch with other clients."""
        return max(len(self.lines) / _MAX_SHARED_LINES, self.size / _MAX_SHARED_CHARACTERS)


class Batch:
    """Jobs that are translated together.

    Args:
      jobs: jobs with the same options.
      shares: how much each client has used the machine.
      turns: limits searches.
      changed: condition that guards the shares and turns.
    """

    def __init__(
        self, jobs: Sequence[_Job], shares: Shares, turns: Turns, changed: threading.Condition
    ):
        self.jobs, self._shares, self._turns, self._changed = jobs, shares, turns, changed
        total_size = sum(job.size for job in jobs)
        self._job_shares = [job.size / max(total_size, 1) for job in jobs]
        self.client_shares: dict[str, float] = collections.defaultdict(float)
        totals: dict[str, float] = collections.defaultdict(float)
        for job, share in zip(jobs, self._job_shares, strict=True):
            self.client_shares[job.client] += share
            totals[job.client] += job.fraction_of_limit
        self._is_large = max(totals.values()) > 1
        self._num_searches = self._num_waiting = self._num_searching = 0
        self._since: float | None = None

    @property
    def is_long(self) -> bool:
        """Whether the batch is large, or needs many searches and is mostly one client's."""
        has_many_searches = self._num_searches > _MAX_SHORT_SEARCHES
        return self._is_large or (has_many_searches and max(self.client_shares.values()) > 0.5)

    @property
    def rows_at_once(self) -> int:
        """Maximum number of sentences in one turn."""
        if not self.is_long:
            return 1 << 30
        return _ROWS_AMONG_OTHERS if self._shares.has_several_clients else _ROWS_ALONE

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Charges the time of the block to the clients' shares and the jobs' budgets."""
        self._update()
        try:
            yield
        finally:
            self._update(ends=True)

    @contextlib.contextmanager
    def turn(self, num_sentences: int = 0) -> Iterator[None]:
        """Waits for a turn to search translations of `num_sentences`, and holds it.

        Raises:
          JobEndedError: all jobs of the batch have ended.
        """
        for job, share in zip(self.jobs, self._job_shares, strict=True):
            job.budget.count_searches(num_sentences * share)
        if all(job.budget.end_error for job in self.jobs):
            self.jobs[0].budget.check()
        self._update(waiting=1)
        with self._turns.turn(list(self.client_shares)):
            self._update(waiting=-1, searching=1)
            try:
                yield
            finally:
                self._update(searching=-1)

    def _update(self, waiting: int = 0, searching: int = 0, ends: bool = False) -> None:
        """Charges the time since the last update, unless all work waited; then adds the changes."""
        now = time.monotonic()
        with self._changed:
            was_long = self.is_long
            if self._since is not None:
                self._shares.charge(self.client_shares, now - self._since)
                for job in self.jobs:
                    job.budget.pause()
            self._num_waiting += waiting
            self._num_searching += searching
            self._num_searches += max(searching, 0)
            is_idle = ends or (self._num_waiting and not self._num_searching)
            self._since = None if is_idle else now
            if self._since is not None:
                for job, share in zip(self.jobs, self._job_shares, strict=True):
                    job.budget.begin(share)
            if self.is_long and not was_long:
                self._changed.notify_all()


class Batcher:
    """Translates the lines of several requests together, in its own threads.

    An idle batcher waits briefly for more lines. Lines that arrive during a translation form the
    next batch, so under load batches are full without waiting. Lines with different options go
    into different batches. The client that has used the machine least comes first, with its
    requests in order.

    Args:
      translate: takes lines, options and the `Batch`, and returns a result for each line.
      max_wait_ms: maximum wait of an idle batcher.
      max_lines: maximum lines of a batch; a longer job becomes a separate batch.
      max_queued: maximum lines in the queue.
      at_once: maximum concurrent batches, in addition to other clients' long ones.
      observe: takes the number of lines and the seconds of each batch.
      searches: maximum concurrent searches; 0 = `at_once`.
    """

    def __init__(
        self,
        translate: Translate,
        max_wait_ms: float,
        max_lines: int,
        max_queued: int,
        at_once: int = 1,
        observe: Callable[[int, float], object] = lambda lines, seconds: None,
        searches: int = 0,
    ):
        self._translate, self._observe = translate, observe
        self._max_wait, self._max_lines = max_wait_ms / 1000, max_lines
        self._max_queued, self._at_once = max_queued, at_once
        lock = threading.RLock()
        self._changed, self._shares = threading.Condition(lock), Shares()
        self._turns = Turns(searches or at_once, self._shares, threading.Condition(lock))
        self._jobs: dict[str, collections.deque[_Job]] = {}
        self._running: list[Batch] = []
        self._is_open = True
        self._threads = [
            threading.Thread(target=self._work, name="batcher", daemon=True)
            for _ in range(at_once + _MAX_LONG_BATCHES)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued_lines(self) -> int:
        """Number of waiting lines whose jobs have not ended."""
        with self._changed:
            jobs = itertools.chain(*self._jobs.values())
            return sum(len(job.lines) for job in jobs if not job.budget.end_error)

    async def translate(
        self,
        lines: Sequence[str],
        options: Hashable = None,
        may_wait: bool = False,
        budget: Budget | None = None,
    ) -> list[Any]:
        """Returns the result for each line; cancelling ends the work.

        Raises:
          QueueFullError: too many lines are waiting.
          JobEndedError: the budget is used up, or the server is stopping.
          UserError: see `Translator.translate`.
        """
        if not lines:
            return []
        budget = budget or Budget()
        try:
            return await asyncio.wrap_future(self.submit(lines, options, may_wait, budget))
        except asyncio.CancelledError:
            budget.end("client_gone", "The client has closed the connection.")
            raise

    def submit(
        self,
        lines: Sequence[str],
        options: Hashable = None,
        may_wait: bool = False,
        budget: Budget | None = None,
    ) -> concurrent.futures.Future[list[Any]]:
        """Returns the result of `translate` as a future, for threads.

        With `may_wait`, the job is accepted even if the queue is full.
        """
        job = _Job(list(lines), options, budget or Budget())
        job.budget.check()
        with self._changed:
            queued = self.queued_lines
            # If no lines are waiting, accept any request.
            if not may_wait and queued and queued + len(job.lines) > self._max_queued:
                raise QueueFullError
            if not self._is_open:
                raise UserError(
                    "The model was removed during the request. Try again.", code="model_removed"
                )
            self._shares.arrive(job.client)
            self._jobs.setdefault(job.client, collections.deque()).append(job)
            self._changed.notify_all()
        job.future.add_done_callback(lambda _: self._leave(job))
        return job.future

    def _leave(self, job: _Job) -> None:
        with self._changed:
            self._shares.leave(job.client)
            waiting_jobs = self._jobs.get(job.client, collections.deque())
            if job.future.cancelled() and job in waiting_jobs:
                waiting_jobs.remove(job)
                if not waiting_jobs:
                    del self._jobs[job.client]

    def end_all(self, code: str, text: str) -> None:
        """Ends all jobs; running ones end at their next search."""
        with self._changed:
            jobs = [*itertools.chain(*self._jobs.values())]
            for job in itertools.chain(jobs, *(batch.jobs for batch in self._running)):
                job.budget.end(code, text)

    def close(self, seconds: float | None = None) -> None:
        """Stops the threads when all jobs are done; waits at most this number of seconds."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        while batch := self._next_batch():
            start = time.perf_counter()
            failed_jobs = self._run(batch)
            if not failed_jobs:
                num_lines = sum(len(job.lines) for job in batch.jobs)
                self._observe(num_lines, time.perf_counter() - start)
            with self._changed:
                for job in reversed(failed_jobs):
                    job.runs_alone = True
                    self._jobs.setdefault(job.client, collections.deque()).appendleft(job)
                self._running.remove(batch)
                self._changed.notify_all()

    def _next_batch(self) -> Batch | None:
        """Waits for jobs and returns a batch of them; None = the batcher is closed and empty."""
        with self._changed:
            while True:
                while (first := self._first_job()) is None:
                    if not (self._is_open or self._jobs):
                        return None
                    self._changed.wait()
                    if self._first_job():
                        self._wait_for_more()
                if jobs := [job for job in self._take_batch(first) if _may_begin(job)]:
                    batch = Batch(jobs, self._shares, self._turns, self._changed)
                    self._running.append(batch)
                    return batch

    def _first_job(self) -> _Job | None:
        """Returns the first job of the client that has used least; None = no job may begin."""
        long_batches = [batch for batch in self._running if batch.is_long]
        if len(long_batches) >= _MAX_LONG_BATCHES:
            return None
        for client in sorted(self._jobs, key=lambda name: self._shares.rank([name])):
            # A long batch delays only its own clients.
            num_unrelated = sum(client not in batch.client_shares for batch in long_batches)
            if len(self._running) - num_unrelated < self._at_once:
                return self._jobs[client][0]
        return None

    def _take_batch(self, first: _Job) -> list[_Job]:
        """Takes a job from the queue, with other jobs that fit into its batch."""
        jobs, room = [first], 0 if first.runs_alone else self._max_lines - len(first.lines)
        totals = collections.defaultdict(float, {first.client: first.fraction_of_limit})
        for client in sorted(self._jobs, key=lambda name: self._shares.rank([name])):
            skipped_jobs: collections.deque[_Job] = collections.deque()
            may_follow = True
            for job in self._jobs[client]:
                if job is first:
                    continue
                if job.options != first.options:
                    skipped_jobs.append(job)
                elif may_follow and len(job.lines) <= room and _may_join(totals, job):
                    jobs.append(job)
                    room -= len(job.lines)
                    totals[job.client] += job.fraction_of_limit
                else:
                    skipped_jobs.append(job)
                    may_follow = False  # Later jobs of the client must not overtake it.
            self._jobs[client] = skipped_jobs
        self._jobs = {client: queue for client, queue in self._jobs.items() if queue}
        return jobs

    def _wait_for_more(self) -> None:
        """Waits briefly for more lines, or until a batch is full or another thread takes jobs."""
        deadline = time.monotonic() + self._max_wait
        while self._is_open and (first := self._first_job()):
            jobs = itertools.chain(*self._jobs.values())
            num_lines = sum(len(job.lines) for job in jobs if job.options == first.options)
            seconds_left = deadline - time.monotonic()
            if num_lines >= self._max_lines or seconds_left <= 0:
                break
            self._changed.wait(seconds_left)

    def _run(self, batch: Batch) -> Sequence[_Job]:
        """Sets the results or errors of jobs; returns the jobs that must run again, alone."""
        jobs = batch.jobs
        lines = [line for job in jobs for line in job.lines]
        try:
            with batch.running():
                results = list(self._translate(lines, jobs[0].options, batch))
        except JobEndedError as error:
            for job in jobs:
                job.future.set_exception(job.budget.end_error or error)
            return []
        except BaseException as error:  # Any error must be reported to its request.
            if len(jobs) > 1:
                return jobs  # One request's lines must not make others fail.
            jobs[0].future.set_exception(error)
            return []
        for job in jobs:
            job.future.set_result(results[: len(job.lines)])
            results = results[len(job.lines) :]
        return []


def _may_join(totals: Mapping[str, float], job: _Job) -> bool:
    """Returns whether a job may join: all jobs are one client's, or no client exceeds its maximum.

    Args:
      totals: sum of `_Job.fraction_of_limit` for each client in the batch.
      job: a job with the same options.
    """
    if job.runs_alone:
        return False
    if totals.keys() == {job.client}:
        return True
    return max(totals.values()) <= 1 and totals.get(job.client, 0.0) + job.fraction_of_limit <= 1


def _may_begin(job: _Job) -> bool:
    """Returns whether a job can still run; sets the error of a job that has ended."""
    if not (job.future.running() or job.future.set_running_or_notify_cancel()):
        return False
    if error := job.budget.end_error:
        job.future.set_exception(error)
    return error is None


@Engine.register
class EngineInTurns:
    """An engine that waits for a turn before each computation, and stops when its batch ends.

    Args:
      engine: the wrapped engine.
      batch: takes turns for the computations.
    """

    def __init__(self, engine: Engine, batch: Batch):
        self._engine, self._batch = engine, batch

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._engine, name)
        return functools.partial(self._score, attribute) if name in _SCORING_METHODS else attribute

    def with_all_hypotheses(self) -> "EngineInTurns":
        """See `Engine`."""
        engine = self._engine.with_all_hypotheses()
        return self if engine is self._engine else EngineInTurns(engine, self._batch)

    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        """See `Engine`."""
        outputs: list[list[Output]] = []
        while len(outputs) < len(sources):
            start = len(outputs)
            rows = slice(start, start + self._batch.rows_at_once)
            with self._batch.turn(len(sources[rows])):
                outputs += self._engine.outputs(sources[rows], prefixes[rows], numbers[rows])
        return outputs

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        with self._batch.turn(1):
            return self._engine.next_symbols(source, prefix, count)

    def _score(
        self, score: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, Any]]:
        """Calls one of `_SCORING_METHODS`, in turns."""
        start = 0
        while start < len(sources):
            num_rows = min(_SCORED_PER_SEARCH * self._batch.rows_at_once, _MAX_SCORED)
            rows = slice(start, start + num_rows)
            with self._batch.turn(len(sources[rows]) // _SCORED_PER_SEARCH):
                results = list(score(sources[rows], targets[rows]))
            yield from ((start + number, result) for number, result in results)
            start = rows.stop
