"""The one error that a user's input can cause, and the hint for a mistyped name."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What the user gave cannot be used; the text says what came, what was expected, what to do.

    Commands print the text without a traceback and exit with `exit_status`.
    """

    exit_status = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" for the known names closest to `name`, or ""."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(match) for match in close)}?"
