"""Files that a stranger may have made: regular ones of bounded size, inside their folder."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from t2t_keras.errors import UserError, brief

# Far above every vocabulary and record; weights have no such limit.
MOST_BYTES = 1 << 26
# No setting is nested as deep, and no file of settings has as many values.
_MOST_DEPTH = 64
_MOST_NODES = 1_000_000
_LONGEST_NAME = 255
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | Path) -> BinaryIO:
    """Opens a regular file for reading; does not wait for the writer of a FIFO.

    Raises:
      UserError: it is a device, a FIFO or a socket.
      OSError: it cannot be opened.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        mode = os.fstat(descriptor).st_mode
        # For a folder, `fdopen` raises IsADirectoryError.
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _not_a_file(path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _not_a_file(path: str | Path) -> UserError:
    return UserError(
        f"{path} is a device, a FIFO or a socket: expected a file. Put the file there.",
        code="not_a_file",
    )


def read_bounded(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Returns the content of a regular file of at most `most` bytes.

    Raises:
      UserError: it is larger, or not a regular file.
      OSError: it cannot be read.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(
            f"{path} is too large: expected at most {most:,} bytes. Give the right file.",
            code="file_too_large",
        )
    return content


def check_regular(paths: Iterable[Path]) -> None:
    """Raises `UserError` for a device, a FIFO or a socket among paths."""
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise _not_a_file(path)


def inside(folder: Path, name: object) -> Path:
    """Returns the path of a file that a record in the same folder names.

    Raises:
      UserError: the name is invalid, or leads out of the folder.
    """
    if not isinstance(name, str) or not name or "\0" in name or len(name) > _LONGEST_NAME:
        raise UserError(
            f"{folder}: expected the name of a file in this folder, got {brief(name)}.",
            code="bad_file_name",
        )
    path = Path(os.path.normpath(name))
    if path.is_absolute() or path.parts[:1] in ((), (os.pardir,)):
        raise UserError(
            f"{folder}: expected a file inside this folder, got {brief(name)}. Put the file into "
            f"the folder, and name it without a path.",
            code="outside_folder",
        )
    return folder / path


class TreeBound:
    """Counts the values of nested settings as a tree: a value that is shared counts each time.

    Forty lists, each of which holds the next one twice, take little memory, but a walk through
    them never ends.
    """

    def __init__(self, origin: str):
        self._origin, self._nodes = origin, 0

    def check(self, depth: int) -> None:
        """Counts one more value; a `UserError` where there are too many, or they are too deep."""
        self._nodes += 1
        if depth > _MOST_DEPTH or self._nodes > _MOST_NODES:
            raise UserError(
                f"{self._origin}: expected at most {_MOST_NODES:,} values, nested at most "
                f"{_MOST_DEPTH} deep, got more. Save the settings without the nested ones.",
                code="too_many_values",
            )
