"""`UserError`, helpers for its messages, and out-of-memory errors."""

import contextlib
import difflib
import reprlib
import shlex
from collections.abc import Iterable, Iterator

# EX_TEMPFAIL of sysexits.h: the same command may succeed later.
TRY_AGAIN_STATUS = 75


class UserError(ValueError):
    """Invalid input; the text says what is wrong, what was expected and what to do.

    Commands print the text without a traceback and exit with `exit_status`.

    Attributes:
      code: the kind of the error, for programs and tests; independent of the wording.
    """

    # Keeps Keras from replacing the error by a copy with a layer's arguments and without the code.
    _keras_call_info_injected = True

    def __init__(self, text: str, exit_status: int = 2, *, code: str = "bad_input"):
        super().__init__(text)
        self.exit_status = exit_status
        self.code = code


def missing_package(subject: str, package: object, extra: str) -> UserError:
    """Returns the error for a missing package, with the command that installs its extra."""
    return UserError(
        f"{subject} needs {package}, which is not installed. In the clone of t2t_keras, run: "
        f"pip install -e '.[{extra}]'",
        code="missing_package",
    )


@contextlib.contextmanager
def report_missing_package(purpose: str, extra: str) -> Iterator[None]:
    """Raises `UserError` if a package imported in the block is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("t2t_keras"):
            raise
        raise missing_package(purpose, error.name, extra) from error


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" for the known names closest to `name`, or ""."""
    matches = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def unknown_name(kind: str, name: str, known: Iterable[str], advice: str = "") -> UserError:
    """Returns the error for a name that is not among the known ones."""
    known = list(known)
    return UserError(
        f"There is no {kind} {name!a}.{suggest(name, known)} Choose from {', '.join(known)}. "
        f"{advice}".rstrip(),
        code="unknown_name",
    )


def command_line(program: str, *arguments: object, **flags: object) -> str:
    """Returns a command for a message: on its own line, quoted for a shell.

    Leaves out flags whose value is "" or None.
    """
    options = [f"--{name}={value}" for name, value in flags.items() if value not in ("", None)]
    return f"\n  {shlex.join([program, *map(str, arguments), *options])}"


def shorten(value: object, max_length: int = 300) -> str:
    """Returns a value or an error of any size as one short line for a message."""
    if isinstance(value, BaseException):
        text = " ".join(str(value)[: 4 * max_length].split()) or type(value).__name__
    else:
        shortener = reprlib.Repr()
        shortener.maxstring = shortener.maxother = max_length
        try:
            text = shortener.repr(value)
        except ValueError:  # Python does not write integers of more than 4,300 digits.
            text = "a number of thousands of digits"
    return text if len(text) <= max_length else f"{text[:max_length]} ..."


@contextlib.contextmanager
def translated_errors(
    kinds: type[BaseException] | tuple[type[BaseException], ...],
    text: str,
    advice: str = "",
    *,
    code: str,
) -> Iterator[None]:
    """Raises errors of other libraries as `UserError`: the text, the reason and the advice.

    The reason of an `OSError` names its file, unless the text does.

    A `UserError` passes unchanged.
    """
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {shorten(error)}"
        file = getattr(error, "filename", None)
        reason += f" ({file})" if file and str(file) not in text else ""
        raise UserError(f"{text}: {reason}. {advice}".rstrip(), code=code) from error


class OutOfMemoryError(Exception):
    """A gradient or a loss did not fit in memory; weights, moments and step are unchanged."""


@contextlib.contextmanager
def translated_memory_errors(error_class: type[Exception], marker: str = "") -> Iterator[None]:
    """Raises errors of class `error_class` whose text contains `marker` as `OutOfMemoryError`."""
    try:
        yield
    except error_class as error:
        if marker not in str(error):
            raise
        raise OutOfMemoryError(str(error)) from error
