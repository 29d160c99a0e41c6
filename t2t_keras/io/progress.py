"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

_SECONDS_BETWEEN = 60.0


def progress_bar(**arguments) -> tqdm:
    """Returns a tqdm bar with these arguments, quiet where standard error is not a terminal."""
    bar = tqdm(disable=None, dynamic_ncols=True, **arguments)
    # By its own clock it stands still for as long as the system's time is set back.
    bar._time = time.monotonic
    bar.start_t = bar.last_print_t = time.monotonic()
    return bar


def show_reading(stream, total: int | None, desc: str):
    """Returns a context whose value reads from `stream`, with a bar of `total` bytes."""
    return tqdm.wrapattr(stream, "read", total=total, desc=desc, disable=None)


def print_beside_bar(text: str) -> None:
    """Prints a line without breaking the bars; what standard output cannot encode, as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, errors="backslashreplace").decode(encoding)
    with tqdm.external_write_mode():
        print(text, flush=True)


class LineProgress:
    """A bar on a terminal; elsewhere, as in a log, a line every minute. Both show the time left.

    `total` is the number of lines, None if unknown; so many were `done` before.
    """

    def __init__(self, total: int | None, done: int, clock: Callable[[], float] = time.monotonic):
        self._bar = progress_bar(total=total, initial=done, unit=" lines", leave=False)
        self._total, self._before, self._done = total, done, done
        self._clock = clock
        self._start = self._printed = clock()

    def __enter__(self) -> "LineProgress":
        return self

    def __exit__(self, *_) -> None:
        self._bar.close()

    def add(self, lines: int) -> None:
        """Counts lines, or sentences of split ones, as done."""
        self.set(self._done + lines)

    def set(self, done: int) -> None:
        """Sets the number of lines done."""
        self._bar.update(done - self._done)
        self._done = done
        now = self._clock()
        if not self._bar.disable or now - self._printed < _SECONDS_BETWEEN:
            return
        self._printed = now
        speed = (done - self._before) / (now - self._start)
        of_total = left = ""
        if self._total is not None:
            of_total = f" of {self._total:,}"
            rest = max(self._total - done, 0)
            left = f", {tqdm.format_interval(rest / speed)} left" if speed else ""
        line = f"{done:,}{of_total} lines are done, {speed:.1f} a second{left}."
        print(line, file=sys.stderr, flush=True)
