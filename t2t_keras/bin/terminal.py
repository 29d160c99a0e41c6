"""Lines that somebody types, with editing and history where Python has readline."""

import contextlib
import importlib
import sys
from collections.abc import Iterator

from t2t_keras.data.text_files import is_text


def typed_lines(prompt: str) -> Iterator[str]:
    """Yields what is typed until the input ends (Ctrl-D) or is interrupted (Ctrl-C).

    Lines that are not UTF-8 are left out, and told of. Standard input may be a pipe: then there is
    no prompt.

    Args:
      prompt: what stands before each line.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    sys.stdin.reconfigure(errors="surrogateescape")
    if sys.stdin.isatty():
        print("Type a sentence and press Enter; Ctrl-D ends.")
    else:
        prompt = ""
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            line = input(prompt)
            if is_text(line):
                yield line
            else:
                print("(This line is not UTF-8.)", flush=True)
