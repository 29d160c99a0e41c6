"""The budget of a job: its limits, its cost so far, and whether it has ended."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from t2t_keras.errors import UserError

# Limit on the searches of a job: a sentence has at least one character, and some sentences are
# searched again for their placeholders or terms.
_SEARCHES, _SEARCHES_A_CHARACTER = 256, 2


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
