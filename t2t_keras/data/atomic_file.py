"""Files that are either complete or not there."""

import contextlib
import fcntl
import glob
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from t2t_keras.errors import UserError

TEMPORARY_SUFFIX = ".partial"
_SECONDS_TO_LOCK = 60


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """Gives a file to write to; it is synced and renamed into place when all went well.

    Until then it has a name that no other process takes, so several may write the same file: the
    last one's stays. What was left under such a name by a process that was killed is removed.

    Raises:
      OSError: it cannot be written, as on a full disk; nothing of it is left, and what stood under
        the name before stays.
    """
    _remove_abandoned(path)
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")


def _remove_abandoned(path: Path) -> None:
    """Removes what killed processes left of a file; one that is written is locked."""
    for other in path.parent.glob(f"{glob.escape(path.name)}.{'?' * 8}{TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError), other.open("rb") as file:
            # One that has just begun may not have its lock yet.
            old = time.time() - other.stat().st_mtime > _SECONDS_TO_LOCK
            if old and _lock(file):
                other.unlink()


def _lock(file: BinaryIO) -> bool:
    """Locks a file until it is closed; returns False where another has it, or there are no locks.

    The system ends the lock of a process that is killed.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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


def check_parent(path: Path) -> None:
    """`make_parent`, and a try whether a file can be made there: before long work, not after it.

    Raises:
      UserError: the directory cannot be made or written to.
    """
    make_parent(path)
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UserError(
            f"Nothing can be written in {path.parent}: {error.strerror}. Give another directory."
        ) from error


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    return checksum_of(path, "sha256")


def checksum_of(path: Path, kind: str) -> str:
    """Returns a checksum of a file, in hex, of a kind that hashlib knows."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
