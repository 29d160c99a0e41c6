"""A file of how the translations of another file's lines must begin."""

import itertools
from pathlib import Path

from t2t_keras.data.text_files import count_lines, decoded, read_lines
from t2t_keras.decoding.job_files import is_stream
from t2t_keras.errors import UserError


class PrefixFile:
    """Prefixes, read in step with the source.

    Args:
      path: UTF-8 text, a line for each of the source's; it may be blank.
      source: what is translated; "-" is standard input.

    Raises:
      UserError: it cannot be read, is no file, or has another number of lines than a source that is
        a file.
    """

    def __init__(self, path: str | Path, source: str | Path):
        if is_stream(path):
            raise UserError(
                f"Prefixes are counted before they are used; {path} is no file, but a stream, that "
                f"can be read only once. Write them to a file."
            )
        self._path, self._source = path, source
        self._lines = read_lines(Path(path))
        self._position = 0
        self._count = count_lines(Path(path))
        if not is_stream(source):
            needed = count_lines(Path(source))
            if needed != self._count:
                raise self._other_number(f"{needed:,}")

    def of_lines(self, first: int, count: int) -> list[str]:
        """Returns the prefixes of lines; what is before them is passed over.

        Args:
          first: the number of the first line, from 0; not before the end of an earlier call.
          count: how many lines.

        Raises:
          UserError: there are not so many, or one is not UTF-8.
        """
        skipped = first - self._position
        found = list(itertools.islice(self._lines, skipped, skipped + count))
        self._position = first + count
        if len(found) < count:
            raise self._other_number(f"at least {self._position:,}")
        return [decoded(line, self._path, number) for number, line in enumerate(found, first + 1)]

    def count_after(self, lines: int) -> int:
        """Returns how many prefixes there are beyond those of so many lines."""
        return max(self._count - lines, 0)

    def _other_number(self, needed: str) -> UserError:
        return UserError(
            f"{self._path} has {self._count:,} lines, {self._source} has {needed}: give a prefix "
            f"for each line; it may be blank."
        )
