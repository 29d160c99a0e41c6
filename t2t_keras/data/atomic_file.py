"""Files that are either complete or not there."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from t2t_keras.errors import UserError

TEMPORARY_SUFFIX = ".partial"


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """Gives a file to write to; it is synced and renamed into place when all went well.

    Raises:
      OSError: it cannot be written, as on a full disk; nothing of it is left, and what stood under
        the name before stays.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> dict[str, int | str]:
    """Writes a file under a temporary name, syncs it, then renames it into place.

    Returns:
      Its record for a manifest: {"size": bytes, "sha256": hex}.

    Raises:
      UserError: the file cannot be written, as on a full disk; nothing of it is left.
    """
    try:
        with replaced_atomically(path) as file:
            file.write(content)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror} ({len(content):,} bytes). Make room or "
            f"give another directory, then run the same command again."
        ) from error
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def make_parent(path: Path) -> None:
    """Makes the directory that a file is to stand in, where it is not there.

    Raises:
      UserError: it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be made: {error.strerror}.") from error


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
