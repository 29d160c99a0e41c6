"""Fair order of searches: the client that has used the machine least comes next."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping


class Shares:
    """How much of the machine each client with work has used.

    A new or returning client starts at the lowest use of the others: idle time earns no credit.
    """

    def __init__(self):
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
