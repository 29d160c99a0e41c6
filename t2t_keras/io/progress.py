"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

import contextlib
import os
import sys
import time
from collections.abc import Callable

from tqdm import tqdm

from t2t_keras.io.terminal import printable

_SECONDS_BETWEEN = 60.0


class ProgressBar(tqdm):
    """A tqdm bar, quiet where standard error is not a terminal."""

    def __init__(self, *iterable, **arguments):
        # None: tqdm shows it on a terminal only.
        disable = True if _has_no_columns() else None
        super().__init__(*iterable, disable=disable, dynamic_ncols=True, **arguments)
        # By its own clock it stands still for as long as the system's time is set back.
        self._time = time.monotonic
        self.start_t = self.last_print_t = time.monotonic()


def _has_no_columns() -> bool:
    """Returns whether standard error is a terminal of width 0, where a bar is invisible."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns == 0
    return False


def show_reading(stream, total: int | None, desc: str):
    """Returns a context whose value reads from `stream`, with a bar of `total` bytes."""
    return tqdm.wrapattr(stream, "read", total=total, desc=printable(desc), disable=None)


def print_beside_bar(text: str) -> None:
    """Prints a line without breaking the bars; what standard output cannot encode, as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, errors="backslashreplace").decode(encoding)
    with tqdm.external_write_mode():
        print(text, flush=True)


class LineProgress(ProgressBar):
    """A bar on a terminal; elsewhere, as in a log, a line every minute. Both show the time left.

    `total` is the number of lines, None if unknown; so many were `done` before.
    """

    def __init__(self, total: int | None, done: int, clock: Callable[[], float] = time.monotonic):
        super().__init__(total=total, initial=done, unit=" lines", leave=False)
        self._before, self._clock = done, clock
        self._start = self._printed = clock()

    def update(self, n: float = 1) -> None:
        """Counts lines, or sentences of split ones, as done; fewer than 0 takes some back."""
        super().update(n)
        if not self.disable:
            return
        self.n += n
        now = self._clock()
        if now - self._printed < _SECONDS_BETWEEN:
            return
        self._printed = now
        speed = (self.n - self._before) / (now - self._start)
        of_total = left = ""
        if self.total is not None:
            of_total = f" of {self.total:,}"
            rest = max(self.total - self.n, 0)
            left = f", {self.format_interval(rest / speed)} left" if speed else ""
        line = f"{self.n:,}{of_total} lines are done, {speed:.1f} a second{left}."
        print(line, file=sys.stderr, flush=True)
