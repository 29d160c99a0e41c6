"""Translation of files and of what is typed."""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError


def translate_to_file(
    translator: Translator, sources: Sequence[str], path: str | Path
) -> list[str]:
    """Translates lines into a file, line by line; the file appears when it is complete.

    Prints how many lines there were, how many of them blank, and how long it took.

    Args:
      translator: what translates.
      sources: the source text.
      path: the file; its directory is made if it is not there.

    Returns:
      The lines of the file.

    Raises:
      UserError: the file cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be made: {error.strerror}.") from error
    start = time.perf_counter()
    texts = [found.text for found in translator.translate(sources, show_progress=True)]
    seconds = time.perf_counter() - start
    # A vocabulary that spells in bytes can spell the end of a line, which would shift all others.
    lines = [text.replace("\n", " ") for text in texts]
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))
    blank = sum(not source.strip() for source in sources)
    print(
        f"{path}: {len(sources):,} lines, {blank:,} of them blank, in {seconds:.1f} s "
        f"({(len(sources) - blank) / seconds:.1f} sentences/s)"
    )
    if broken := sum("\n" in text for text in texts):
        print(f"{broken:,} translations held line breaks, which are spaces in the file.")
    return lines


def translate_typed(
    translator: Translator, read_line: Callable[[], str], write_line: Callable[[str], None]
) -> None:
    """Translates line after line until the input ends (Ctrl-D) or is interrupted (Ctrl-C).

    Args:
      translator: what translates.
      read_line: gives the next line, raises EOFError at the end.
      write_line: takes each translation.
    """
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            line = read_line()
            if _is_text(line):
                write_line(translator.translate([line])[0].text)
            else:
                write_line("(This line is not UTF-8.)")


def _is_text(line: str) -> bool:
    """Whether the line is free of the surrogates that stand for bytes that are no UTF-8."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
