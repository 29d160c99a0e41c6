"""Files that grow line by line, so that an interrupted job goes on where it stopped."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.data.atomic_file import TEMPORARY_SUFFIX, make_parent, write_atomically
from t2t_keras.errors import UserError

_RECORD_SUFFIX = ".progress.json"


class ResumableOutputs:
    """One or several files that are made from the lines of a source, chunk by chunk.

    Until they are complete they stand under other names (`.partial`), beside a record of how far
    they go, by what they are made, and what was read. The same job, started again, cuts off what
    the record does not know of, checks that the lines read so far are the same, and goes on.

    Args:
      paths: the files, each by a name of its own; their directories are made.
      made_by: what the lines depend on besides the source, as JSON can hold it.

    Raises:
      UserError: a file cannot be written, or another job was interrupted at the same files.

    Attributes:
      lines_done: how many lines of the source are done.
    """

    def __init__(self, paths: Mapping[str, Path], made_by: Mapping[str, Any]):
        self._paths = {name: Path(path) for name, path in paths.items()}
        self._main = next(iter(self._paths.values()))
        self._record_path = self._main.with_name(self._main.name + _RECORD_SUFFIX)
        for path in self._paths.values():
            make_parent(path)
        self._made_by = json.loads(json.dumps(made_by))
        self._read = hashlib.sha256()
        record = self._load_record()
        self.lines_done = record["lines"]
        self._read_before = record["read"]
        self._counts = Counter(record["counts"])
        self._files = {
            name: self._open(path, record["bytes"].get(name, 0))
            for name, path in self._paths.items()
        }

    def check_source(self, lines: Iterable[bytes]) -> None:
        """Compares the source's first `lines_done` lines with those that were read before.

        Raises:
          UserError: they are others, or fewer.
        """
        for line in lines:
            self._remember(line)
        if self._read.hexdigest() != self._read_before:
            raise UserError(
                f"The source has changed since {self._partial(self._main)} was begun: its first "
                f"{self.lines_done:,} lines are not those that were translated. Delete this file, "
                f"or give another name for the output."
            )

    def append(
        self, source: Sequence[bytes], lines: Mapping[str, Sequence[str]], counts: Counter
    ) -> None:
        """Adds what was made of the next lines of the source, and syncs it.

        Args:
          source: the lines that were read.
          lines: for each file, its next lines.
          counts: whole numbers to add up over the whole job.

        Raises:
          UserError: it cannot be written, as on a full disk; what was there stays.
        """
        try:
            for name, file in self._files.items():
                file.write("".join(f"{line}\n" for line in lines[name]).encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"{self._partial(self._main)} cannot be written: {error.strerror}. Its first "
                f"{self.lines_done:,} lines are good: make room, and run the same command again."
            ) from error
        for line in source:
            self._remember(line)
        self.lines_done += len(source)
        self._counts.update(counts)
        self._save_record()

    def finish(self) -> Counter:
        """Gives the files their names; returns the sums of the counts."""
        for name, file in self._files.items():
            file.close()
            self._partial(self._paths[name]).replace(self._paths[name])
        self._record_path.unlink(missing_ok=True)
        return self._counts

    def close(self) -> None:
        """Closes the files; the job can go on later."""
        for name, file in self._files.items():
            file.close()
            if not self.lines_done:
                self._partial(self._paths[name]).unlink(missing_ok=True)

    def _load_record(self) -> dict[str, Any]:
        new = {"lines": 0, "read": self._read.hexdigest(), "bytes": {}, "counts": {}}
        try:
            record = json.loads(self._record_path.read_text(encoding="utf-8"))
            different = differences(record["made_by"], self._made_by)
        except FileNotFoundError:
            return new
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(
                f"{self._record_path} cannot be read ({error}). Delete it to begin anew."
            ) from error
        if different:
            raise UserError(
                f"Another job was interrupted at {self._partial(self._main)}, "
                f"{record['lines']:,} lines from its start ({'; '.join(different)}). Repeat that "
                f"one, or delete {self._record_path}, or give another name for the output."
            )
        return record

    def _save_record(self) -> None:
        record = {
            "lines": self.lines_done,
            "read": self._read.hexdigest(),
            "bytes": {name: file.tell() for name, file in self._files.items()},
            "counts": self._counts,
            "made_by": self._made_by,
        }
        write_atomically(self._record_path, (json.dumps(record) + "\n").encode("utf-8"))

    def _open(self, path: Path, size: int) -> BinaryIO:
        partial = self._partial(path)
        try:
            if size and partial.stat().st_size < size:
                raise UserError(
                    f"{partial} is shorter than when it was written. Delete {self._record_path} to "
                    f"begin anew."
                )
            file = partial.open("r+b" if size else "wb")
            file.truncate(size)
            file.seek(size)
        except OSError as error:
            raise UserError(
                f"{partial} cannot be written: {error.strerror}. Give another name for the output."
            ) from error
        return file

    def _partial(self, path: Path) -> Path:
        return path.with_name(path.name + TEMPORARY_SUFFIX)

    def _remember(self, line: bytes) -> None:
        self._read.update(line + b"\n")


def differences(there: Mapping[str, Any], asked_for: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting by which two jobs differ, by name."""
    return sorted(
        f"{name}: {there.get(name)} there, {asked_for.get(name)} asked for"
        for name in {*there, *asked_for}
        if there.get(name) != asked_for.get(name)
    )
