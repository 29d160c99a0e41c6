"""Paths that TensorFlow does not read as patterns.

TensorFlow writes a checkpoint or a SavedModel to the given path, but reads the path as a pattern:
`exp[1]` then names the folder `exp1`, and a backslash vanishes.
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
    """Yields a path to the same files without pattern characters.

    `path` is a file, a folder, or the prefix of files, up to a dot in their names. If it has such
    characters, the path yielded leads to symbolic links in a temporary folder.

    Raises:
      UserError: the path of the temporary folder has such characters too.
    """
    path = Path(path)
    if not _PATTERN.search(str(path)):
        yield str(path)
        return
    with tempfile.TemporaryDirectory(prefix="t2t_keras-") as folder:
        if _PATTERN.search(folder):
            raise UserError(
                f"TensorFlow would read {path} as a pattern, and the temporary folder {folder} "
                f"too: expected one of them without any of []*?\\. Rename the folder, or set "
                f"TMPDIR to another one.",
                code="path_is_a_pattern",
            )
        names = f"{glob.escape(path.name)}.*"
        for file in [path] if path.exists() else path.parent.glob(names):
            suffix = file.name.removeprefix(path.name)
            (Path(folder) / f"linked{suffix}").symlink_to(file.absolute())
        yield str(Path(folder) / "linked")
