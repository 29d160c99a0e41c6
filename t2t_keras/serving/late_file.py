"""A file that is not touched before there is something to write."""

from pathlib import Path


class LateFile:
    """A file to write, which stays as it is until the first write or flush.

    Where nothing came to be written, as when no server answers, an older file of that name is still
    there.

    Args:
      path: of the file; its folder is made if it is not there.
    """

    def __init__(self, path: Path):
        self._path = path
        self._file = None

    def write(self, content: bytes) -> None:
        """Writes to the file, which was emptied.

        Raises:
          OSError: it cannot be written.
        """
        self._opened().write(content)

    def flush(self) -> None:
        """Gives what was written to the system; the file is there then, if only empty.

        Raises:
          OSError: it cannot be written.
        """
        self._opened().flush()

    def __enter__(self) -> "LateFile":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if self._file is not None:
            self._file.close()

    def _opened(self):
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        return self._file
