"""Paths that TensorFlow reads as they are.

TensorFlow takes the path of a checkpoint or a SavedModel for a pattern when it reads: `exp[1]` then
names the folder `exp1`, and a backslash vanishes. It writes to the path itself.
"""

import contextlib
import glob
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError

_PATTERN = re.compile(r"[\[\]*?\\]")


@contextlib.contextmanager
def plain_path(path: str | Path) -> Iterator[str]:
    """Yields a path to the same files without characters of a pattern.

    `path` is a file, a folder, or the prefix of files, up to a dot in their names. Where it has
    such characters, symbolic links in a temporary folder stand for the files meanwhile.

    Raises:
      UserError: the temporary folder has such a path itself.
    """
    path = Path(path)
    if not _PATTERN.search(str(path)):
        yield str(path)
        return
    with tempfile.TemporaryDirectory(prefix="t2t_keras-") as folder:
        if _PATTERN.search(folder):
            raise UserError(
                f"TensorFlow reads {path} as a pattern, and so it reads {folder}, where a link "
                f"to it could stand: expected a path without []*?\\ in one of the two. Rename the "
                f"folder, or set TMPDIR to another one.",
                code="path_is_a_pattern",
            )
        names = f"{glob.escape(path.name)}.*"
        for file in [path] if path.exists() else path.parent.glob(names):
            suffix = file.name.removeprefix(path.name)
            (Path(folder) / f"linked{suffix}").symlink_to(file.absolute())
        yield str(Path(folder) / "linked")
