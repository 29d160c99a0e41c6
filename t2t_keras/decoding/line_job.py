"""A job that turns the lines of a file or a stream into lines of outputs, chunk by chunk."""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.io.files import (
    STANDARD_STREAM,
    TEMPORARY_SUFFIX,
    as_json,
    check_outputs,
    differences,
    is_stream,
    lock,
    make_parent,
    read_json,
    sha256_of,
    write_json,
)
from t2t_keras.io.terminal import LineProgress, abandon, printable, product
from t2t_keras.text.files import check_readable, count_lines, decoded, lines_of, read_lines

# work(lines, number of the first one, progress) -> the lines of each output by name, and counts to
# add up. `progress` takes the number of further lines that are done. An output's line is a string,
# which gets a line feed, or bytes, which are written unchanged.
Work = Callable[
    [Sequence[str], int, Callable[[int], object]],
    tuple[Mapping[str, Iterable[str | bytes]], Counter[str]],
]


@dataclasses.dataclass(frozen=True)
class Shard:
    """Part `number`, from 1, of `count` parts of contiguous lines."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Returns the shard that "3/100" names; raises `UserError` for what names none."""
        numbers = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        shard = cls(int(numbers[1]), int(numbers[2])) if numbers else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise UserError(
                f"--shard: expected NUMBER/COUNT with 1 <= NUMBER <= COUNT, such as 3/100, got "
                f"'{text}'.",
                code="bad_value",
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def lines(self, total: int) -> range:
        """Returns its lines of `total`, from 0; shards differ by at most one line."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def path(self, whole: str | Path) -> str:
        """Returns the name of its part of a file, "news.de-00003-of-00100"; they sort by number."""
        return f"{whole}-{self.number:05d}-of-{self.count:05d}"


class JobSummary(NamedTuple):
    """The result of a job."""

    counts: Counter[str]  # sums over all lines, also of those done before an interruption
    lines: int
    new_lines: int  # done since this start
    seconds: float  # since this start


def run_line_job(
    source: str | Path,
    outputs: Mapping[str, Path],
    provenance: Mapping[str, Any],
    work: Work,
    lines_at_once: int,
    shard: Shard | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> JobSummary:
    """Works through a source, or through the rest of it after an interrupted job.

    Outputs, from `resolve_outputs`, that are files grow under the names `<output>.partial`. A
    record beside the first one, `<output>.progress.json`, states how many lines are done, the
    checksum of the lines read, and the provenance: what the result depends on besides the source,
    as JSON can hold it. A source that is "-" (standard input), a device or a pipe is read once.
    With a `shard` of a source that is a file, only its lines are read, and they keep their numbers.
    A `manifest` is written beside the first output, for `read_manifest`; the provenance is added,
    and the seconds that the job took unless it was interrupted.

    Raises:
      UserError: a file cannot be read or written, a line is not UTF-8, another process writes the
        same outputs, a job with other settings was interrupted there, or a file with the name of
        a partial one is of no job. Finished lines are kept.
    """
    start = time.perf_counter()
    standard = str(source) == STANDARD_STREAM
    lines = lines_of(sys.stdin.buffer) if standard else read_lines(Path(source))
    total = None if is_stream(source) else count_lines(Path(source))
    first = 0
    if shard:
        if total is None:
            raise UserError(
                f"A shard must be of a regular file, whose lines are counted: {source}.",
                code="not_a_file",
            )
        part = shard.lines(total)
        first, total = part.start, len(part)
        lines = itertools.islice(lines, part.start, part.stop)
    with contextlib.closing(_Outputs(outputs, provenance)) as job:
        job.open()
        if before := job.lines_done:
            job.check_source(itertools.islice(lines, before))
            print(f"{before:,} lines were done before.", file=sys.stderr, flush=True)
        with LineProgress(total, before) as progress:
            while chunk := list(itertools.islice(lines, lines_at_once)):
                number = first + job.lines_done
                numbered = enumerate(chunk, number + 1)
                texts = [decoded(line, source, at) for at, line in numbered]
                job.append(chunk, *work(texts, number, progress.update))
                # Blank lines do not report progress, and sentences of split lines report too much.
                progress.update(job.lines_done - progress.n)
        seconds = time.perf_counter() - start
        if manifest is not None:
            job.write_manifest({**manifest, "seconds": None if before else round(seconds, 3)})
        job.complete()
    return JobSummary(job.counts, job.lines_done, job.lines_done - before, seconds)


def read_manifest(output: Path) -> dict[str, Any]:
    """Returns the manifest of a job's first output; {} if missing or of another file.

    Raises:
      UserError: the manifest cannot be read.
    """
    path = _manifest(output)
    if not (output.is_file() and path.exists()):
        return {}
    manifest = read_json(path, "Remove it.")
    return manifest if manifest.get("output") == sha256_of(output) else {}


def resolve_outputs(
    reads: Iterable[str | Path], outputs: Mapping[str, str | Path]
) -> dict[str, Path]:
    """Checks the files of a job; returns those to write: a link stays, its target is written.

    No output may replace a file of a folder that is read. The record stands beside the first one.

    Raises:
      UserError: an input cannot be read, an output must not be written (see `check_outputs`), or
        one of several outputs is a stream.
    """
    inputs = [Path(path) for path in reads]
    for path in inputs:
        if str(path) != STANDARD_STREAM and not path.is_dir():
            check_readable(path)
    files, written = {name: Path(path) for name, path in outputs.items()}, []
    for name, path in files.items():
        if not is_stream(path) or path.is_dir():
            files[name] = path.resolve() if path.is_symlink() else path
            written += [files[name], _partial(files[name])]
        elif len(files) > 1:
            raise UserError(
                f"Only a job with one output can write to a stream, got {path}.", code="not_a_file"
            )
    if written:
        check_outputs(inputs, [*written, _record(written[0])])
    return files


def _partial(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.progress.json")


def _manifest(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


class _Outputs:
    """One stream; or files, locked and under other names until they are complete."""

    def __init__(self, paths: Mapping[str, Path], provenance: Mapping[str, Any]):
        self._paths, self._files = dict(paths), dict[str, BinaryIO]()
        self._main = next(iter(paths.values()))
        self._is_stream = is_stream(self._main)
        # Relative names: a folder may be moved between two starts.
        names = {name: os.path.relpath(path, self._main.parent) for name, path in paths.items()}
        self._settings = as_json({"files": names, "provenance": provenance})
        self._source_hash, self._hash_before = hashlib.sha256(), ""
        self.lines_done, self.counts = 0, Counter[str]()

    def open(self) -> None:
        """Opens the outputs; files are as they were when the record was written."""
        for name, path in self._paths.items():
            self._files[name] = self._open_stream() if self._is_stream else _open_locked(path)
        if not self._is_stream:
            self._restore()

    def _open_stream(self) -> BinaryIO:
        if str(self._main) == STANDARD_STREAM:
            return product().buffer
        try:
            # Unlike `open`, this makes no new file if it is gone by now.
            return os.fdopen(os.open(self._main, os.O_WRONLY), "wb")
        except OSError as error:
            raise self._write_error(error) from error

    def _restore(self) -> None:
        """Returns to the state of the record; begins anew if a file was lost."""
        path, sizes = _record(self._main), dict[str, int]()
        filled = [self._paths[name] for name, file in self._files.items() if _size(file)]
        if filled and not path.exists():
            raise UserError(
                f"{_partial(filled[0])} is there, but not {path}, which would say what it is. "
                f"Delete or rename it, or give another name for the output.",
                code="output_exists",
            )
        if self._main in filled:
            record = _read_record(path, f"Delete {_partial(self._main)} to begin anew.")
            different = differences(record["files"], self._settings["files"])
            different += differences(record["provenance"], self._settings["provenance"])
            if different:
                raise UserError(
                    f"{_partial(self._main)} was begun with different settings "
                    f"({'; '.join(different)}) and has {record['lines']:,} lines. Give these "
                    f"again, delete the file to begin anew, or give another name for the output.",
                    code="other_settings",
                )
            if all(_size(file) >= record["bytes"][name] for name, file in self._files.items()):
                sizes, self.counts = record["bytes"], Counter(record["counts"])
                self.lines_done, self._hash_before = record["lines"], record["read"]
            else:
                lost = f"{_partial(self._main)}, or what belongs to it, has lost lines"
                print(printable(f"{lost}: all are done again."), file=sys.stderr, flush=True)
        for name, file in self._files.items():
            # Lines written after the record are written again.
            file.truncate(sizes.get(name, 0))
            file.seek(0, os.SEEK_END)
        if not sizes:
            # Before the first line: a file without a record is of no job.
            self._write_record()

    def check_source(self, lines: Iterable[bytes]) -> None:
        """Raises `UserError` unless these are the `lines_done` lines that were read before."""
        self._hash(lines)
        if self._source_hash.hexdigest() != self._hash_before:
            raise UserError(
                f"The source has changed: its first {self.lines_done:,} lines are not those that "
                f"{_partial(self._main)} was made from. Delete this file to begin anew, or give "
                f"another name for the output.",
                code="changed_source",
            )

    def append(
        self,
        source: Sequence[bytes],
        lines: Mapping[str, Iterable[str | bytes]],
        counts: Counter[str],
    ) -> None:
        """Adds the output of the next lines of the source; files are synced and recorded."""
        try:
            for name, file in self._files.items():
                file.writelines(map(_as_bytes, lines[name]))
                file.flush()
                if not self._is_stream:
                    os.fsync(file.fileno())
        except BrokenPipeError:
            raise  # The reader has gone, as `head` goes.
        except OSError as error:
            raise self._write_error(error) from error
        self._hash(source)
        self.lines_done += len(source)
        self.counts.update(counts)
        if not self._is_stream:
            self._write_record()

    def _write_record(self) -> None:
        record = {
            "lines": self.lines_done,
            "read": self._source_hash.hexdigest(),
            "bytes": {name: file.tell() for name, file in self._files.items()},
            "counts": self.counts,
            **self._settings,
        }
        write_json(_record(self._main), record, indent=None)

    def _hash(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._source_hash.update(line + b"\n")

    def _write_error(self, error: OSError) -> UserError:
        if not self._is_stream:
            return UserError(
                f"Cannot write {_partial(self._main)}: {error.strerror}. Its first "
                f"{self.lines_done:,} lines are good: make room, and run the same command again.",
                code="not_written",
            )
        name = str(self._main)
        if name == STANDARD_STREAM:
            name = "standard output"
            abandon(sys.stdout)
        return UserError(
            f"Cannot write {name}: {error.strerror}. {self.lines_done:,} lines are written. Write "
            f"to a file to be able to continue.",
            code="not_written",
        )

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest of the first output, before the file gets its name.

        So an interruption, or a full disk, leaves neither a file of unknown origin nor work to be
        done again: until the files have their names, the manifest is of no file that is there.
        """
        if not self._is_stream:
            content = {**self._settings["provenance"], **manifest}
            content["output"] = sha256_of(_partial(self._main))
            write_json(_manifest(self._main), content)

    def complete(self) -> None:
        """Gives the files their names while they are locked."""
        if not self._is_stream:
            for path in self._paths.values():
                _partial(path).replace(path)
            _record(self._main).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the files, and removes those without content; the job can continue later."""
        for name, file in self._files.items():
            if not self._is_stream and not _size(file):
                _partial(self._paths[name]).unlink(missing_ok=True)
                if self._paths[name] == self._main:
                    _record(self._main).unlink(missing_ok=True)
            if str(self._main) != STANDARD_STREAM:
                # The error of an earlier write was reported.
                with contextlib.suppress(OSError):
                    file.close()


def _read_record(path: Path, advice: str) -> dict[str, Any]:
    """Reads the record of a job; a `UserError` for a damaged one ends with `advice`."""
    objects = ("bytes", "counts", "files", "provenance")
    record = read_json(path, advice, ("lines", "read", *objects))
    valid = all(isinstance(record[name], dict) for name in objects)
    if valid and record["bytes"].keys() == record["files"].keys():
        sizes = record["lines"], *record["bytes"].values()
        valid = all(type(number) is int for number in (*sizes, *record["counts"].values()))
        if valid and all(0 <= size <= sys.maxsize for size in sizes):
            return record
    raise UserError(f"{path} is damaged. {advice}", code="damaged_file")


def _as_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else f"{line}\n".encode()


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _open_locked(output: Path) -> BinaryIO:
    """Opens an output's partial file; until it is closed, no other process can."""
    path = _partial(output)
    make_parent(path)
    try:
        file = path.open("ab")
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror}. Give another name for the output.",
            code="not_written",
        ) from error
    free = lock(file) is not False
    # Its owner may have completed or deleted it between the opening and the lock.
    if not (free and path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
        file.close()
        raise UserError(
            f"{path} is in use by another process. Wait until it ends, or give another name for "
            f"the output.",
            code="in_use",
        )
    return file
