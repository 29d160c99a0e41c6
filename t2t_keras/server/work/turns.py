"""Turns: which client's search is next, where several wait for one machine."""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping


class Shares:
    """How much of a machine each client has had, of those that have work.

    A client that comes, or comes back, begins with as much as the one that had least: idling saves
    nothing up.
    """

    def __init__(self):
        self._used: dict[str, float] = {}
        self._jobs: dict[str, int] = {}

    def arrive(self, client: str) -> None:
        """Counts a job of a client, which waits or is worked on."""
        if not self._jobs.get(client):
            least = min((self._used[each] for each in self._jobs), default=0.0)
            self._used[client] = max(self._used.get(client, 0.0), least)
        self._jobs[client] = self._jobs.get(client, 0) + 1

    def leave(self, client: str) -> None:
        """Counts a job as done."""
        self._jobs[client] -= 1
        if not self._jobs[client]:
            del self._jobs[client]
            # Whoever is not ahead of the others has nothing to be remembered for.
            most = max((self._used[each] for each in self._jobs), default=0.0)
            self._used = {
                each: used
                for each, used in self._used.items()
                if each in self._jobs or used > most > 0
            }

    def add(self, shares: Mapping[str, float], cost: float) -> None:
        """Counts what was done for clients together, whose shares add up to 1."""
        for client, share in shares.items():
            self._used[client] = self._used.get(client, 0.0) + share * cost

    def rank(self, clients: Iterable[str]) -> float:
        """Returns what the client of some that had least has had: the least goes first."""
        return min((self._used.get(each, 0.0) for each in clients), default=0.0)

    @property
    def are_several(self) -> bool:
        """Whether more than one client has work."""
        return len(self._jobs) > 1


class Turns:
    """Lets few searches run at a time, those first whose client has had least.

    Args:
      most: searches at a time.
      shares: what each client has had; guarded by `changed`.
      changed: guards them.
    """

    def __init__(self, most: int, shares: Shares, changed: threading.Condition):
        self._free, self._shares, self._changed = most, shares, changed
        self._waiting: list[tuple[object, list[str]]] = []

    @contextlib.contextmanager
    def turn(self, clients: list[str]) -> Iterator[None]:
        """Waits for a turn of a search for these clients, and has it."""
        me = object()
        with self._changed:
            self._waiting.append((me, clients))
            while not (self._free and self._first() is me):
                self._changed.wait()
            self._waiting = [each for each in self._waiting if each[0] is not me]
            self._free -= 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _first(self) -> object:
        me, _ = min(self._waiting, key=lambda each: self._shares.rank(each[1]))
        return me
