"""Standard input, output and error of a command; any of them may be closed or fail.

Reports about the work go to `sys.stdout` and `sys.stderr`, which never fail while `guarded_streams`
is active: a full disk or a closed pipe costs the report, not the work. The product of a command,
such as translations on standard output, goes to `product()`, which raises errors.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from t2t_keras.io.terminal import printable

_NAMES = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


class Report:
    """A text stream that never fails: after its first error it drops the text.

    Args:
      stream: takes the text.
      is_escaped: whether to escape terminal control characters, which file names may contain.

    Attributes:
      stream: takes the text.
      error: the first error, None while there is none.
      is_product: whether the command writes its product to this stream.
    """

    def __init__(self, stream: Any, is_escaped: bool = False):
        self.stream, self._is_escaped = stream, is_escaped
        self.error, self.is_product = None, False

    def write(self, text: str) -> int:
        """Writes text, like `TextIO`."""
        self._attempt(self.stream.write, printable(text) if self._is_escaped else text)
        return len(text)

    def writelines(self, lines) -> None:
        """Writes lines, like `TextIO`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Writes what is in the buffer."""
        self._attempt(self.stream.flush)

    def _attempt(self, call, *arguments) -> None:
        if self.error:
            return
        try:
            call(*arguments)
        except OSError as error:
            self.error = error
            # The buffer still holds text, which Python would try to write again at exit.
            with contextlib.suppress(OSError, ValueError):
                _redirect_to_null(self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Closed:
    """Stands in for a closed standard stream."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, name: str):
        self.name = name

    def _fail(self, *_) -> Any:
        raise OSError(errno.EBADF, "it is closed", self.name)

    read = readline = write = writelines = fileno = __iter__ = _fail
    reconfigure = flush = lambda self, **_: None

    def isatty(self) -> bool:
        """A closed stream is no terminal."""
        return False

    @property
    def buffer(self) -> "_Closed":
        """Fails like the stream."""
        return self


@contextlib.contextmanager
def guarded_streams(is_process: bool) -> Iterator[tuple[Report, Report]]:
    """Guards the standard streams; yields standard output and standard error.

    `is_process`: whether this is the process's main work, so that its file descriptors 0 to 2 may
    be opened where they are closed. Otherwise the next file would get such a number, and what is
    printed would be written into it.
    """
    if is_process:
        for descriptor in range(3):
            with contextlib.suppress(OSError):
                os.fstat(descriptor)
                continue
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = {name: getattr(sys, name) for name in _NAMES}
    streams = {name: stream or _Closed(_NAMES[name]) for name, stream in before.items()}
    # Bars on standard error move the cursor.
    streams["stdout"] = Report(streams["stdout"], is_escaped=True)
    streams["stderr"] = Report(streams["stderr"])
    for name, stream in streams.items():
        setattr(sys, name, stream)
    # Not every locale has every character; standard error escapes them by itself.
    if hasattr(streams["stdout"], "reconfigure"):
        streams["stdout"].reconfigure(errors="backslashreplace")
    try:
        yield streams["stdout"], streams["stderr"]
    finally:
        for stream in (streams["stdout"], streams["stderr"]):
            stream.flush()
        if not is_process:
            for name, stream in before.items():
                setattr(sys, name, stream)


def product() -> TextIO:
    """Returns standard output for a command's product; it raises errors."""
    if isinstance(sys.stdout, Report):
        sys.stdout.is_product = True
        return sys.stdout.stream
    return sys.stdout


def abandon(stream: TextIO) -> None:
    """Discards unwritten text, so that Python does not try to write it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        _redirect_to_null(stream.fileno())


def _redirect_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
