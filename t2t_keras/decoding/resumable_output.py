"""Files that grow line by line, so that an interrupted job goes on where it stopped."""

import contextlib
import fcntl
import hashlib
import json
import os
import sys
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
    the record does not know of, checks that the lines read so far are the same, and goes on. Where
    a partial file or the record is gone, it begins anew. No other process can write to the files
    meanwhile.

    Args:
      paths: the files, each by a name of its own; their directories are made.
      made_by: what the lines depend on besides the source, as JSON can hold it.

    Raises:
      UserError: a file cannot be written, another process writes it, or another job was interrupted
        at the same files.

    Attributes:
      lines_done: how many lines of the source are done.
    """

    def __init__(self, paths: Mapping[str, Path], made_by: Mapping[str, Any]):
        self._paths = {name: Path(path) for name, path in paths.items()}
        self._main = next(iter(self._paths.values()))
        self._record_path = record_of(self._main)
        self._made_by = json.loads(json.dumps(made_by))
        self._read = hashlib.sha256()
        with contextlib.ExitStack() as opened:
            self._files, missing = {}, []
            for name, path in self._paths.items():
                make_parent(path)
                file, was_there = _open_alone(partial_of(path))
                self._files[name] = opened.enter_context(file)
                if not was_there:
                    missing.append(path)
                    opened.callback(partial_of(path).unlink)
            record = self._new_record() if self._main in missing else self._load_record()
            if missing:
                record = self._new_record()
            self.lines_done = record["lines"]
            self._read_before = record["read"]
            self._counts = Counter(record["counts"])
            for name, file in self._files.items():
                self._cut(file, record["bytes"].get(name, 0))
            # From here on, `close` closes them.
            opened.pop_all()

    def check_source(self, lines: Iterable[bytes]) -> None:
        """Compares the source's first `lines_done` lines with those that were read before.

        Raises:
          UserError: they are others, or fewer.
        """
        for line in lines:
            self._remember(line)
        if self._read.hexdigest() != self._read_before:
            raise UserError(
                f"The source has changed since {partial_of(self._main)} was begun: its first "
                f"{self.lines_done:,} lines are not those that were translated. Delete this file "
                f"to begin anew, or give another name for the output."
            )

    def append(
        self, source: Sequence[bytes], lines: Mapping[str, Iterable[str | bytes]], counts: Counter
    ) -> None:
        """Adds what was made of the next lines of the source, and syncs it.

        Args:
          source: the lines that were read.
          lines: for each file, its next lines; bytes are written as they are.
          counts: whole numbers to add up over the whole job.

        Raises:
          UserError: it cannot be written, as on a full disk; what was there stays.
        """
        try:
            for name, file in self._files.items():
                file.writelines(map(_written, lines[name]))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"{partial_of(self._main)} cannot be written: {error.strerror}. Its first "
                f"{self.lines_done:,} lines are good: make room, and run the same command again."
            ) from error
        for line in source:
            self._remember(line)
        self.lines_done += len(source)
        self._counts.update(counts)
        self._save_record()

    def finish(self) -> Counter:
        """Gives the files their names; returns the sums of the counts."""
        # While the files are open, and with them locked: nobody else takes them for unfinished.
        self._record_path.unlink(missing_ok=True)
        for path in self._paths.values():
            partial_of(path).replace(path)
        return self._counts

    def close(self) -> None:
        """Closes the files; the job can go on later."""
        for name, file in self._files.items():
            if not self.lines_done:
                partial_of(self._paths[name]).unlink(missing_ok=True)
            file.close()

    def _new_record(self) -> dict[str, Any]:
        return {"lines": 0, "read": self._read.hexdigest(), "bytes": {}, "counts": {}}

    def _load_record(self) -> dict[str, Any]:
        try:
            record = json.loads(self._record_path.read_text(encoding="utf-8"))
            different = differences(record["files"], self._names())
            different += differences(record["made_by"], self._made_by)
        except FileNotFoundError:
            return self._new_record()
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(
                f"{self._record_path} cannot be read ({error}). Delete it to begin anew."
            ) from error
        if different:
            raise UserError(
                f"Another job was interrupted at {partial_of(self._main)}, "
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
            "files": self._names(),
            "made_by": self._made_by,
        }
        write_atomically(self._record_path, (json.dumps(record) + "\n").encode("utf-8"))

    def _names(self) -> dict[str, str]:
        """Returns where the files stand, seen from the first: a folder may be moved."""
        return {
            name: os.path.relpath(path, self._main.parent) for name, path in self._paths.items()
        }

    def _cut(self, file: BinaryIO, size: int) -> None:
        if os.fstat(file.fileno()).st_size < size:
            raise UserError(
                f"{file.name} is shorter than when it was written. Delete it to begin anew."
            )
        file.truncate(size)
        file.seek(size)

    def _remember(self, line: bytes) -> None:
        self._read.update(line + b"\n")


def _written(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else f"{line}\n".encode()


def partial_of(path: Path) -> Path:
    """Returns the name that a file has until it is complete."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def record_of(path: Path) -> Path:
    """Returns the name of the record beside a job's first file."""
    return path.with_name(path.name + _RECORD_SUFFIX)


def differences(there: Mapping[str, Any], asked_for: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting by which two jobs differ, by name."""
    return sorted(
        f"{name}: {there.get(name)} there, {asked_for.get(name)} asked for"
        for name in {*there, *asked_for}
        if there.get(name) != asked_for.get(name)
    )


def _open_alone(path: Path) -> tuple[BinaryIO, bool]:
    """Opens a file, new or not, which no other process may open so until it is closed.

    Returns:
      The file, and whether it was there before.

    Raises:
      UserError: it cannot be written, or another process has it.
    """
    while True:
        was_there = path.exists()
        try:
            file = path.open("ab")
        except OSError as error:
            raise UserError(
                f"{path} cannot be written: {error.strerror}. Give another name for the output."
            ) from error
        _lock(file)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file, was_there
        # Before it was locked here, another process gave it its final name, or deleted it.
        file.close()


def _lock(file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(
            f"Another process is writing {file.name}. Wait for its end, or give another name for "
            f"the output."
        ) from None
    except OSError as error:
        # Not every file system can.
        print(f"{file.name} is not locked: {error.strerror}.", file=sys.stderr, flush=True)
