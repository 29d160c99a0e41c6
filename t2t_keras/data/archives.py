"""Members of tar archives, read in one pass without unpacking the rest."""

import contextlib
import tarfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from t2t_keras.progress_bar import show_reading


def member_names(path: Path) -> set[str]:
    """Returns the names of an archive's files, without their folders."""
    with _opened(path) as archive:
        return {_base_name(member) for member in archive if member.isfile()}


def read_members(
    path: Path, names: Collection[str], read: Callable[[BinaryIO, str], None]
) -> set[str]:
    """Gives each wanted file of an archive to `read`, in the archive's order.

    Args:
      path: a tar archive, packed or not.
      names: of the wanted files, without folders: these differ between editions of an archive.
      read: takes a file and its name; it is called once for a name.

    Returns:
      The names that the archive does not have.
    """
    missing = set(names)
    with _opened(path) as archive:
        for member in archive:
            name = _base_name(member)
            if member.isfile() and name in missing:
                with archive.extractfile(member) as file:
                    read(file, name)
                missing.discard(name)
            if not missing:
                break
    return missing


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    with (
        path.open("rb") as file,
        show_reading(file, path.stat().st_size, path.name) as shown,
        # As a stream: going back in a packed archive means unpacking it from its start.
        tarfile.open(fileobj=shown, mode="r|*") as archive,
    ):
        yield archive


def _base_name(member: tarfile.TarInfo) -> str:
    return PurePosixPath(member.name).name
