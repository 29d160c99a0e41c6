"""Standard output, a device or a pipe in the place of a file: nothing is resumed."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from t2t_keras.decoding.job_files import STANDARD_STREAM
from t2t_keras.errors import UserError


class StreamOutput:
    """Lines that are gone when they are written; otherwise as `ResumableOutputs`.

    Args:
      path: "-", standard output; or a device or a named pipe.

    Raises:
      UserError: it cannot be written.

    Attributes:
      lines_done: how many lines of the source are done.
    """

    def __init__(self, path: str | Path):
        self.lines_done = 0
        self._counts = Counter()
        self._is_standard = str(path) == STANDARD_STREAM
        self._name = "Standard output" if self._is_standard else str(path)
        self._opened = contextlib.ExitStack()
        try:
            if self._is_standard:
                self._stream = sys.stdout.buffer
            else:
                # Never a new file.
                descriptor = os.open(path, os.O_WRONLY)
                self._stream = self._opened.enter_context(os.fdopen(descriptor, "wb"))
        except OSError as error:
            raise self._failure(error) from error

    def append(
        self, source: Sequence[bytes], lines: Mapping[str, Sequence[str]], counts: Counter
    ) -> None:
        """Writes lines, and adds up counts.

        Raises:
          UserError: they cannot be written, as where nobody reads them any more.
        """
        [written] = lines.values()
        try:
            self._stream.write("".join(f"{line}\n" for line in written).encode("utf-8"))
            self._stream.flush()
        except OSError as error:
            if self._is_standard:
                # Python writes what is left once more at its end, and would complain of it.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise self._failure(error) from error
        self.lines_done += len(source)
        self._counts.update(counts)

    def finish(self) -> Counter:
        """Returns the sums of the counts."""
        return self._counts

    def close(self) -> None:
        """Closes what is not standard output."""
        # What could not be written was told of.
        with contextlib.suppress(OSError):
            self._opened.close()

    def _failure(self, error: OSError) -> UserError:
        return UserError(
            f"{self._name} cannot be written: {error.strerror}. {self.lines_done:,} lines are "
            f"written; a file as the output can be continued."
        )
