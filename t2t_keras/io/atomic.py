"""Files that are either complete or absent, and the checksums that tell."""

import contextlib
import fcntl
import glob
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError

TEMPORARY_SUFFIX = ".partial"
_SECONDS_TO_LOCK = 60


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file to write to; syncs it and renames it to `path` if all goes well.

    Several processes may write the same file: the last one wins. What killed ones left is removed.
    After an error, such as `OSError`, nothing of it is left, and an older file stays.
    """
    _remove_abandoned(path)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Removes temporary files of killed processes; those of a living one are locked."""
    for other in path.parent.glob(f"{glob.escape(path.name)}.{'?' * 8}{TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError), other.open("rb") as file:
            # A new one may not have its lock yet.
            old = time.time() - other.stat().st_mtime > _SECONDS_TO_LOCK
            if old and lock(file):
                other.unlink()


def lock(file: BinaryIO) -> bool | None:
    """Locks a file until it is closed or its process ends.

    Returns whether this process has the lock, None where the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def write_atomically(path: Path, content: bytes) -> dict[str, int | str]:
    """Writes a file and returns its record for a manifest: {"size": bytes, "sha256": hex}.

    Its directory is made where it is missing. A file that cannot be written, as on a full disk, is
    a `UserError`, and nothing of it is left.
    """
    make_parent(path)
    try:
        with replaced_atomically(path) as file:
            file.write(content)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror} ({len(content):,} bytes). Make room "
            f"or give another directory, then run the same command again.",
            code="not_written",
        ) from error
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def make_parent(path: Path) -> None:
    """Makes the directory of a file; a `UserError` names what cannot be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path.parent} cannot be made: {error.strerror}.", code="not_written"
        ) from error


def check_parent(path: Path) -> None:
    """Makes the directory of a file and tries to write there: before long work, not after it."""
    make_parent(path)
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UserError(
            f"Nothing can be written in {path.parent}: {error.strerror}. Give another directory.",
            code="not_written",
        ) from error


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns "name (missing)" or "name (differs)" for each file that is not as recorded.

    The record of each file, by name, is what `write_atomically` returned.
    """
    damaged = []
    for name, record in files.items():
        path = directory / name
        if not path.exists():
            damaged.append(f"{name} (missing)")
        elif path.stat().st_size != record["size"] or sha256_of(path) != record["sha256"]:
            damaged.append(f"{name} (differs)")
    return damaged
