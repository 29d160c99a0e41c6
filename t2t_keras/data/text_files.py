r"""Lines of text files, as parallel text needs them.

A line ends at "\n" and nowhere else: Python's `str.splitlines` also splits at U+2028, U+0085 and
the like, which occur inside real sentences and would shift every later pair.
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from t2t_keras.errors import UserError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path, offset: int = 0, count: int | None = None) -> Iterator[bytes]:
    r"""Yields lines without their "\n" or "\r\n"; a byte order mark at the start is dropped.

    Args:
      path: the file.
      offset: byte position of the first line, as `line_offsets` gives it.
      count: number of lines; None is all.
    """
    with Path(path).open("rb") as file:
        if offset:  # A pipe cannot seek.
            file.seek(offset)
        yield from lines_of(itertools.islice(file, count), at_start=offset == 0)


def lines_of(stream: Iterable[bytes], at_start: bool = True) -> Iterator[bytes]:
    r"""Yields the lines of a stream as `read_lines` does those of a file.

    Args:
      stream: lines with their "\n", as a binary file gives them.
      at_start: whether the first one is the first of the text.
    """
    for number, line in enumerate(stream):
        if number == 0 and at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def line_offsets(path: Path, every: int) -> tuple[int, list[int]]:
    """Returns the number of lines, and the byte position of lines 0, every, 2 * every, ...

    Raises:
      UserError: the file cannot be read.
    """
    offsets = []
    position = count = 0
    try:
        with Path(path).open("rb") as file:
            for line in file:
                if count % every == 0:
                    offsets.append(position)
                position += len(line)
                count += 1
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    return count, offsets


def count_lines(path: Path) -> int:
    """Returns the number of lines; raises as `line_offsets`."""
    return line_offsets(path, 1 << 30)[0]


def check_readable(path: Path) -> None:
    """Raises `UserError` if the file cannot be read.

    A pipe is not opened: whoever writes to it would lose its reader when it is closed.
    """
    if Path(path).is_fifo() and os.access(path, os.R_OK):
        return
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def read_text(path: Path) -> list[str]:
    """Returns the lines of a UTF-8 file.

    Raises:
      UserError: the file cannot be read, or a line is not UTF-8 (it is named).
    """
    try:
        return [decoded(line, path, number) for number, line in enumerate(read_lines(path), 1)]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def decoded(line: bytes, path: Path | str, number: int) -> str:
    """Returns a line as text.

    Raises:
      UserError: it is not UTF-8; `path` and `number`, from 1, say which.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number} is not UTF-8 (byte {error.start + 1} of the line is "
            f"0x{error.object[error.start]:02x}). Convert the file to UTF-8."
        ) from error


def is_text(line: str) -> bool:
    """Whether the line is free of the surrogates that stand for bytes that are no UTF-8."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def line_name(path: Path, line: int) -> str:
    """Returns "folder/file:line": corpora often call their files alike, as train.en."""
    return f"{'/'.join(path.parts[-2:])}:{line}"
