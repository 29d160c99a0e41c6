"""How the machine is shared: places for slow work, budgets of jobs, and turns of their searches."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from t2t_keras.errors import UserError

Result = TypeVar("Result")
# Limit on the searches of a job: a sentence has at least one character, and some sentences are
# searched again for their placeholders or terms.
_SEARCHES, _SEARCHES_A_CHARACTER = 256, 2


class Places:
    """Limits how much work is done at a time, in all and for each client.

    Args:
      most: places in all.
      of_client: places of a client.
    """

    def __init__(self, most: int, of_client: int):
        self._all, self._of_client = asyncio.Semaphore(most), of_client
        # A client is forgotten once nobody has or awaits a place of it.
        self._clients: weakref.WeakValueDictionary[str, asyncio.Semaphore]
        self._clients = weakref.WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Waits for a place for a client, and keeps it."""
        of_client = self._clients.setdefault(client, asyncio.Semaphore(self._of_client))
        async with of_client, self._all:
            yield


async def in_own_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Returns a function's result, from a thread that ends with the process.

    The threads of `asyncio.to_thread` are few, and the process waits for them at its end.
    """
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def run() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    # Cancelling the waiting must not keep the thread from ending.
    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name="work", daemon=True).start()
    return await asyncio.wrap_future(future)


class JobEndedError(UserError):
    """A job was ended: its client has left, its budget is used up, or the server is stopping.

    Attributes:
      code: "client_gone", "job_too_long" or "server_stops".
    """


class Budget:
    """Limits on the seconds and searches of a request or a file.

    Seconds count while its lines are translated; in a batch with other jobs, in proportion to its
    size. Waiting is free.

    Args:
      client: whose share of the machine it uses.
      seconds: most seconds of work.
      characters: of the text; they determine the limit on searches.
      clock: monotonic seconds.
    """

    def __init__(
        self,
        client: str = "",
        seconds: float = 60.0,
        characters: int = 1_000_000,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.client, self._seconds, self._clock = client, seconds, clock
        self._searches: float = _SEARCHES + characters * _SEARCHES_A_CHARACTER
        self._lock = threading.Lock()
        self._used, self._since, self._share, self._running = 0.0, 0.0, 1.0, 0
        self._ended: JobEndedError | None = None

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Counts seconds."""
        self.begin(1.0)
        try:
            yield
        finally:
            self.pause()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Pauses the count during `working`."""
        self.pause()
        try:
            yield
        finally:
            self.begin(1.0)

    def begin(self, share: float) -> None:
        """Counts seconds from now, times this share."""
        with self._lock:
            self._settle()
            self._running += 1
            self._share = share

    def pause(self) -> None:
        """Stops counting seconds."""
        with self._lock:
            self._settle()
            self._running -= 1

    def _settle(self) -> None:
        now = self._clock()
        if self._running:
            self._used += (now - self._since) * self._share
        self._since = now

    @property
    def seconds(self) -> float:
        """The seconds that the job has cost."""
        with self._lock:
            self._settle()
            return self._used

    def count_searches(self, searches: float) -> None:
        """Takes searches off the budget."""
        with self._lock:
            self._searches -= searches

    def end(self, code: str, text: str) -> None:
        """Ends the job: before it begins, or at its next search."""
        with self._lock:
            self._ended = self._ended or JobEndedError(text, code=code)

    @property
    def ended(self) -> JobEndedError | None:
        """Why the job has ended, such as a used-up budget; None = it may go on."""
        if self.seconds > self._seconds or self._searches < 0:
            self.end(
                "job_too_long",
                f"This takes longer than a request may: at most {self._seconds:g} seconds of work, "
                f"and a limited number of searches. Send less text at once, or fewer terms.",
            )
        return self._ended

    def check(self) -> None:
        """Raises `JobEndedError` if the job has ended or its budget is used up."""
        if error := self.ended:
            raise error


class Shares:
    """How much of the machine each client with work has used.

    A new or returning client starts at the lowest use of the others: idle time earns no credit.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._jobs: dict[str, int] = {}

    def arrive(self, client: str) -> None:
        """Counts a job of a client, waiting or running."""
        if not self._jobs.get(client):
            least = min((self._used[name] for name in self._jobs), default=0.0)
            self._used[client] = max(self._used.get(client, 0.0), least)
        self._jobs[client] = self._jobs.get(client, 0) + 1

    def leave(self, client: str) -> None:
        """Counts a job as done."""
        self._jobs[client] -= 1
        if not self._jobs[client]:
            del self._jobs[client]
            # Only clients that have used more than all present ones must be remembered.
            most = max((self._used[name] for name in self._jobs), default=0.0)
            self._used = {
                name: used
                for name, used in self._used.items()
                if name in self._jobs or used > most > 0
            }

    def add(self, shares: Mapping[str, float], cost: float) -> None:
        """Charges a cost to clients, whose shares add up to 1."""
        for client, share in shares.items():
            self._used[client] = self._used.get(client, 0.0) + share * cost

    def rank(self, clients: Iterable[str]) -> float:
        """Returns the lowest use of some clients; the lowest rank comes first."""
        return min((self._used.get(client, 0.0) for client in clients), default=0.0)

    @property
    def are_several(self) -> bool:
        """Whether more than one client has work."""
        return len(self._jobs) > 1


@dataclasses.dataclass(eq=False)
class _Waiting:
    """Whoever waits for a turn."""

    clients: list[str]
    has_turn: bool = False


class Turns:
    """Limits the searches at a time; the client that has used least comes first.

    Args:
      most: searches at a time.
      shares: the use by each client; guarded by `changed`.
      changed: tells of turns that were given.
    """

    def __init__(self, most: int, shares: Shares, changed: threading.Condition):
        self._free, self._shares, self._changed = most, shares, changed
        self._waiting: list[_Waiting] = []

    @contextlib.contextmanager
    def turn(self, clients: list[str]) -> Iterator[None]:
        """Waits for a turn to search for these clients, and keeps it."""
        me = _Waiting(clients)
        with self._changed:
            self._waiting.append(me)
            self._give()
            while not me.has_turn:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._give()

    def _give(self) -> None:
        """Gives the free turns.

        Those that wait must not find out by themselves who is first: the order changes while they
        wake up, and then each might leave the turn to another.
        """
        while self._free and self._waiting:
            first = min(self._waiting, key=lambda waiting: self._shares.rank(waiting.clients))
            self._waiting.remove(first)
            first.has_turn = True
            self._free -= 1
        self._changed.notify_all()
