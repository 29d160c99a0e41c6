"""Standard streams, progress bars and signals of a command.

Reports go to `sys.stdout` and `sys.stderr`, which never fail while `guarded_streams` is active: a
full disk or a closed pipe loses the report, not the work. The product of a command, such as
translations on standard output, goes to `product()`, which raises errors.
"""

import contextlib
import errno
import importlib
import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TextIO

from tqdm import tqdm

# C0 and C1 controls except tab and line feed, lone surrogates, and marks of writing direction.
_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


def printable(text: str, max_length: int | None = None) -> str:
    r"""Escapes terminal controls, such as ESC (as \x1b), but not line feeds and tabs.

    Also escapes lone surrogates and marks of writing direction; cuts the text after `max_length`.
    """
    if max_length is not None and len(text) > max_length:
        text = f"{text[:max_length]} ... ({len(text):,} characters)"
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def interactive_lines(prompt: str) -> Iterator[str]:
    """Yields lines from standard input until it ends (Ctrl-D) or is interrupted (Ctrl-C).

    A terminal gets a prompt, and editing and history if Python has readline. Lines that are not
    UTF-8 are reported and skipped.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    if sys.stdin.isatty():
        print("Type a sentence and press Enter; Ctrl-D ends.")
    else:
        prompt = ""
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            line = input(prompt)
            try:
                line.encode("utf-8")
            except UnicodeEncodeError:
                print("(This line is not UTF-8.)", flush=True)
            else:
                yield line


_STREAM_NAMES = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


class Report:
    """A text stream that never fails: after its first error it discards text.

    Args:
      stream: the stream to write to.
      is_escaped: whether to escape characters that control a terminal, as file names may have.

    Attributes:
      stream: the stream to write to.
      error: the first error, or None.
      is_product: whether the command writes its product to this stream.
    """

    def __init__(self, stream: Any, is_escaped: bool = False):
        self.stream, self._is_escaped = stream, is_escaped
        self.error: OSError | None = None
        self.is_product = False

    def write(self, text: str) -> int:
        """Writes text, like `TextIO`."""
        self._attempt(self.stream.write, printable(text) if self._is_escaped else text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes lines, like `TextIO`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Writes the buffered text."""
        self._attempt(self.stream.flush)

    def _attempt(self, call: Callable[..., Any], *arguments: str) -> None:
        if self.error:
            return
        try:
            call(*arguments)
        except OSError as error:
            self.error = error
            discard_buffer(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _ClosedStream:
    """Stands in for a closed standard stream."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, name: str):
        self.name = name

    def _fail(self, *_: object) -> Any:
        raise OSError(errno.EBADF, "it is closed", self.name)

    read = readline = write = writelines = fileno = __iter__ = _fail
    reconfigure = flush = lambda self, **_: None

    def isatty(self) -> bool:
        """Returns False: a closed stream is no terminal."""
        return False

    @property
    def buffer(self) -> "_ClosedStream":
        """Returns the stream itself, which fails in the same way."""
        return self


@contextlib.contextmanager
def guarded_streams(is_process: bool) -> Iterator[tuple[Report, Report]]:
    """Guards the standard streams; yields standard output and standard error.

    Args:
      is_process: whether the process runs nothing but this command. Then closed descriptors among
        0 to 2 are opened, so that printed text cannot end up in a file opened later.
    """
    if is_process:
        for descriptor in range(3):
            with contextlib.suppress(OSError):
                os.fstat(descriptor)
                continue
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    saved_streams = {name: getattr(sys, name) for name in _STREAM_NAMES}
    streams = {n: saved_streams[n] or _ClosedStream(title) for n, title in _STREAM_NAMES.items()}
    # Not escaped on standard error, where progress bars move the cursor.
    output, errors = Report(streams["stdout"], is_escaped=True), Report(streams["stderr"])
    for name, stream in (streams | {"stdout": output, "stderr": errors}).items():
        setattr(sys, name, stream)
    # Escape characters that the locale lacks, as standard error does by itself.
    if hasattr(output, "reconfigure"):
        output.reconfigure(errors="backslashreplace")
    try:
        yield output, errors
    finally:
        output.flush()
        errors.flush()
        if not is_process:
            for name, stream in saved_streams.items():
                setattr(sys, name, stream)


def product() -> TextIO:
    """Returns standard output for a command's product, as a stream that raises errors."""
    if isinstance(sys.stdout, Report):
        sys.stdout.is_product = True
        return sys.stdout.stream
    return sys.stdout


def discard_buffer(stream: IO[Any]) -> None:
    """Discards buffered text, which Python would otherwise try to write again at exit."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


_SECONDS_BETWEEN_LINES = 60.0


class ProgressBar(tqdm):
    """A tqdm bar that is shown only if standard error is a terminal."""

    def __init__(self, *iterable: Iterable, **arguments: Any):
        disable = None  # tqdm shows the bar on a terminal only.
        with contextlib.suppress(OSError, ValueError):
            # Disabled in a terminal without columns, where it would be invisible.
            disable = os.get_terminal_size(sys.stderr.fileno()).columns == 0 or None
        super().__init__(*iterable, disable=disable, dynamic_ncols=True, **arguments)
        # tqdm's own clock stops when the system's time is set back.
        self._time = time.monotonic
        self.start_t = self.last_print_t = time.monotonic()


def show_reading(stream: Any, total: int | None, desc: str) -> Any:
    """Returns a context that yields the stream with a progress bar for reading `total` bytes."""
    return tqdm.wrapattr(stream, "read", total=total, desc=printable(desc), disable=None)


def print_beside_bar(text: str) -> None:
    """Prints a line without breaking progress bars; escapes what standard output cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, errors="backslashreplace").decode(encoding)
    with tqdm.external_write_mode():
        print(text, flush=True)


class LineProgress(ProgressBar):
    """Shows the time left: in a bar on a terminal, else in a line every minute.

    Args:
      total: number of lines, None if unknown.
      done: lines done by earlier runs.
      clock: returns seconds.
    """

    def __init__(self, total: int | None, done: int, clock: Callable[[], float] = time.monotonic):
        super().__init__(total=total, initial=done, unit=" lines", leave=False)
        self._done_before, self._clock = done, clock
        self._start = self._printed_at = clock()

    def update(self, n: float = 1) -> None:
        """Counts lines (of split lines, sentences) as done; a negative number takes some back."""
        super().update(n)
        if not self.disable:
            return
        self.n += n
        now = self._clock()
        if now - self._printed_at < _SECONDS_BETWEEN_LINES:
            return
        self._printed_at = now
        speed = (self.n - self._done_before) / (now - self._start)
        of_total = time_left = ""
        if self.total is not None:
            of_total = f" of {self.total:,}"
            remaining = max(self.total - self.n, 0)
            time_left = f", {self.format_interval(remaining / speed)} left" if speed else ""
        line = f"{self.n:,}{of_total} lines are done, {speed:.1f} a second{time_left}."
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def caught_signals() -> Iterator[list[int]]:
    """Yields a list whose last item is the SIGTERM or SIGINT received last, or 0.

    The first signal of a kind only adds its number; the second has the kind's usual effect.
    """
    signals, handlers = [0], dict[int, Any]()

    def catch(number: int, _frame: object) -> None:
        signals.append(number)
        signal.signal(number, handlers[number])

    with contextlib.suppress(ValueError):  # Only the main thread may take signals.
        for caught_signal in (signal.SIGTERM, signal.SIGINT):
            handlers[caught_signal] = signal.signal(caught_signal, catch)
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
