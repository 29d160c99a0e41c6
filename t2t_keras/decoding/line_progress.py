"""How many lines of a job are done, as it goes on, on standard error."""

import sys
import time
from collections.abc import Callable

import tqdm

_SECONDS_BETWEEN = 60.0


class LineProgress:
    """A bar on a terminal; elsewhere, as in a log, a line every minute. Both tell the time left.

    Args:
      total: how many lines there are, None if not known.
      done: how many were done before.
      clock: tells the time in seconds.
    """

    def __init__(
        self, total: int | None, done: int, clock: Callable[[], float] = time.perf_counter
    ):
        self._bar = tqdm.tqdm(total=total, initial=done, unit=" lines", leave=False, disable=None)
        self._total, self._before, self._done = total, done, done
        self._clock = clock
        self._start = self._said = clock()

    def __enter__(self) -> "LineProgress":
        return self

    def __exit__(self, *_) -> None:
        self._bar.close()

    def add(self, lines: int) -> None:
        """Counts lines, or sentences of split ones."""
        self.set(self._done + lines)

    def set(self, done: int) -> None:
        """Says how many are done."""
        self._bar.update(done - self._done)
        self._done = done
        now = self._clock()
        if self._bar.disable and now - self._said >= _SECONDS_BETWEEN:
            self._said = now
            a_second = (done - self._before) / (now - self._start)
            of_total = left = ""
            if self._total is not None:
                of_total = f" of {self._total:,}"
                if a_second:
                    seconds = max(self._total - done, 0) / a_second
                    left = f", {tqdm.tqdm.format_interval(seconds)} left"
            print(
                f"{done:,}{of_total} lines are done, {a_second:.1f} a second{left}.",
                file=sys.stderr,
                flush=True,
            )
