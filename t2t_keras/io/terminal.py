"""What goes to a terminal, and what comes from one."""

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator

# C0 and C1 controls but for tab and line feed, lone surrogates, and what turns the direction of
# writing around.
_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


def printable(text: str, most: int | None = None) -> str:
    r"""Returns text in which no character controls a terminal: ESC becomes \x1b.

    Line feeds and tabs stay. Lone surrogates and marks that change the direction of writing become
    escapes as well. At most `most` characters of the text are shown.
    """
    if most is not None and len(text) > most:
        text = f"{text[:most]} ... ({len(text):,} characters)"
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def interactive_lines(prompt: str) -> Iterator[str]:
    """Yields lines from standard input until it ends (Ctrl-D) or is interrupted (Ctrl-C).

    A terminal gets a prompt, and editing and history where Python has readline. Lines that are not
    UTF-8 are skipped, which is said.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
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
