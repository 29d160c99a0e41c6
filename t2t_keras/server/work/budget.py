"""What one job of a client may cost, what it has cost, and whether anybody still waits for it."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from t2t_keras.errors import UserError

# Searches that a job may need: no sentence is shorter than a character, and some are searched for
# again, for their placeholders or terms.
_SEARCHES, _SEARCHES_A_CHARACTER = 256, 2


class JobEndedError(UserError):
    """A job that is not done: its client has left, its budget is used up, or the server stops.

    Attributes:
      code: "client_gone", "job_too_long" or "server_stops".
    """


class Budget:
    """Seconds and searches for the work of a request or of a file.

    Seconds are those in which its lines are worked on, alone or among others; in a batch with
    others it has its share of them. Waiting costs nothing.

    Args:
      client: names whom the work is for, to share the machine out fairly.
      seconds: most seconds of work.
      characters: of the text, by which the number of searches is bounded.
      clock: seconds, which only grow.
    """

    def __init__(
        self,
        client: str = "",
        seconds: float = 60.0,
        characters: int = 1_000_000,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.client, self._seconds, self._clock = client, seconds, clock
        self._searches = _SEARCHES + characters * _SEARCHES_A_CHARACTER
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
        """Counts no seconds, amid `working`."""
        self.pause()
        try:
            yield
        finally:
            self.begin(1.0)

    def begin(self, share: float) -> None:
        """Counts seconds from now, as such a share of a batch's."""
        with self._lock:
            self._settle()
            self._running += 1
            self._share = share

    def pause(self) -> None:
        """Counts no more seconds."""
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
        """Ends the job: what is not begun is left, what is begun ends at its next search."""
        with self._lock:
            self._ended = self._ended or JobEndedError(text, code=code)

    @property
    def ended(self) -> JobEndedError | None:
        """Why the job must end, for example as its budget is used up; None = it may go on."""
        if self.seconds > self._seconds or self._searches < 0:
            self.end(
                "job_too_long",
                f"This takes longer than the {self._seconds:g} seconds of work that a request may "
                f"take. Send less at once, or fewer terms.",
            )
        return self._ended

    def check(self) -> None:
        """Raises `JobEndedError` if the job is ended, or has used its budget up."""
        if error := self.ended:
            raise error
