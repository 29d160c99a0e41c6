"""The one error that a user's input can cause, parts of its text, and missing memory."""

import contextlib
import difflib
import reprlib
import shlex
from collections.abc import Iterable, Iterator

# sysexits.h calls it EX_TEMPFAIL: the same command may well work when it is started again.
TRY_AGAIN = 75


class UserError(Exception):
    """Input that cannot be used; the text says what came, what was expected and what to do.

    Commands print the text without a traceback and exit with `exit_status`.

    Attributes:
      code: names the kind of the error for programs and tests; it stays when the text is reworded.
    """

    def __init__(self, text: str, exit_status: int = 2, *, code: str = "bad_input"):
        super().__init__(text)
        self.exit_status = exit_status
        self.code = code


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" for the known names closest to `name`, or ""."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def command_line(program: str, *arguments: object, **flags: object) -> str:
    """Returns a command to suggest in a message: on a line of its own, quoted for a shell.

    Leaves out flags whose value is "" or None.
    """
    options = [f"--{name}={value}" for name, value in flags.items() if value not in ("", None)]
    return f"\n  {shlex.join([program, *map(str, arguments), *options])}"


def brief(value: object, most: int = 300) -> str:
    """Returns a value or an error as one short line for a message, however large or deep it is."""
    if isinstance(value, BaseException):
        text = " ".join(str(value)[: 4 * most].split()) or type(value).__name__
    else:
        shown = reprlib.Repr()
        shown.maxstring = shown.maxother = most
        try:
            text = shown.repr(value)
        except ValueError:  # Python does not write integers of more than 4,300 digits.
            text = "a number of thousands of digits"
    return text if len(text) <= most else f"{text[:most]} ..."


class OutOfMemoryError(Exception):
    """A gradient or a loss did not fit; weights, moments and number of steps are as before."""


@contextlib.contextmanager
def translated_memory_errors(kind: type[Exception], sign: str = "") -> Iterator[None]:
    """Raises errors of this kind, with this sign in their text, as `OutOfMemoryError`."""
    try:
        yield
    except kind as error:
        if sign not in str(error):
            raise
        raise OutOfMemoryError(str(error)) from error
