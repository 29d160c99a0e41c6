"""JSON records of what was done, how two of them differ, and locks on the folders they stand in."""

import contextlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError, brief
from t2t_keras.io.atomic import lock, make_parent, write_atomically
from t2t_keras.io.foreign import read_bounded

_LOCK_FILE = ".lock"


def write_json(path: Path, content: Any, indent: int | None = 2) -> dict[str, int | str]:
    """Writes JSON and a line feed atomically; see `write_atomically`."""
    text = json.dumps(content, indent=indent, ensure_ascii=False) + "\n"
    # A lone surrogate, as in the name of a file that is not UTF-8, becomes its escape in JSON.
    return write_atomically(path, text.encode("utf-8", errors="backslashreplace"))


def read_json(path: Path, advice: str, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Reads a JSON object that must have some keys; a `UserError` ends with `advice`."""
    try:
        content = json.loads(read_bounded(path))
    except UserError as error:
        raise UserError(f"{error} {advice}", code=error.code) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {brief(error)}"
        raise UserError(
            f"Cannot read {path} ({reason}). {advice}",
            code="not_read" if isinstance(error, OSError) else "damaged_file",
        ) from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: expected a JSON object, got {type(content).__name__}. {advice}",
            code="damaged_file",
        )
    missing = [key for key in keys if key not in content]
    if missing:
        raise UserError(
            f"{path}: expected {', '.join(map(repr, missing))} in it. {advice}", code="damaged_file"
        )
    return content


def as_json(content: Any) -> Any:
    """Returns what reading `content` back from a JSON file would give, to compare with one."""
    return json.loads(json.dumps(content))


def differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting that differs, in the order of `recorded`."""
    return [
        f"{name}: recorded {recorded.get(name)}, requested {requested.get(name)}"
        for name in {**recorded, **requested}
        if recorded.get(name) != requested.get(name)
    ]


@contextlib.contextmanager
def locked_directory(directory: str | Path, what: str) -> Iterator[BinaryIO]:
    """Keeps other processes from writing into a directory, which is made where it is missing.

    Readers are not locked out. The system frees the lock when its owner ends, however it ends. A
    file system without locks lets everybody in. `what` names the command in the `UserError` that
    others get; the file that is locked is what is yielded.
    """
    path = Path(directory) / _LOCK_FILE
    make_parent(path)
    try:
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise UserError(
            f"Cannot write in {directory}: {error.strerror}. Give another directory.",
            code="not_written",
        ) from error
    with file:
        if lock(file) is False:
            file.seek(0)
            owner = file.read(200).decode("utf-8", errors="replace").strip() or "another process"
            raise UserError(
                f"{directory} is in use by {owner}. Wait until it ends, or give another directory.",
                code="in_use",
            )
        with contextlib.suppress(OSError):  # As on a full disk; it only informs.
            file.truncate(0)
            file.write(f"{what}, process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield file


def last_writer(directory: str | Path) -> str:
    """Returns the command that locked a directory last, or "" where none has."""
    with contextlib.suppress(OSError):
        content = (Path(directory) / _LOCK_FILE).read_bytes()
        return content.decode("utf-8", errors="replace").partition(",")[0]
    return ""
