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

from t2t_keras.errors import UserError, translated_errors
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
from t2t_keras.io.terminal import LineProgress, discard_buffer, printable, product
from t2t_keras.text.files import check_readable, count_lines, decoded, lines_of, read_lines

# work(lines, number of the first line, progress) -> the lines of each output by name, and counts to
# add up. `progress` takes the number of lines done since its last call. A line of an output is a
# string, which gets a line feed, or bytes, which are written unchanged.
Work = Callable[
    [Sequence[str], int, Callable[[int], object]],
    tuple[Mapping[str, Iterable[str | bytes]], Counter[str]],
]


@dataclasses.dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of a file that is divided into `count` parts."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Returns the shard that a text such as "3/100" names, or raises `UserError`."""
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
        """Returns the numbers (from 0) of its lines; sizes of shards differ by at most one."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def path(self, file: str | Path) -> str:
        """Returns the name of its file, such as "news.de-00003-of-00100"; names sort by number."""
        return f"{file}-{self.number:05d}-of-{self.count:05d}"


class JobSummary(NamedTuple):
    """The result of a job."""

    counts: Counter[str]  # sums over all lines, including those before an interruption
    lines: int
    new_lines: int  # without those before an interruption
    seconds: float  # time for the new lines


def run_line_job(
    source: str | Path,
    outputs: Mapping[str, Path],
    provenance: Mapping[str, Any],
    work: Work,
    lines_at_once: int,
    shard: Shard | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> JobSummary:
    """Processes a source, or the rest of it after an interrupted job.

    Output files, from `resolve_outputs`, grow under the names `<output>.partial`. A record next
    to the first one, `<output>.progress.json`, has the number of finished lines, the checksum of
    the lines read, and the provenance: everything else that the result depends on, as JSON.

    Args:
      source: the file; "-" (standard input), a device or a pipe is read once.
      outputs: output files by name.
      provenance: see above.
      work: the work on some lines.
      lines_at_once: number of lines that `work` gets per call.
      shard: the part of a file to read; its lines keep their numbers in the file.
      manifest: written next to the first output, for `read_manifest`, together with the provenance
        and, unless the job was interrupted, the seconds it took.

    Raises:
      UserError: a file cannot be read or written, a line is not UTF-8, another process writes the
        same outputs, a job with other settings was interrupted there, or a partial file has no
        record. Finished lines are kept.
    """
    start = time.perf_counter()
    is_stdin = str(source) == STANDARD_STREAM
    lines = lines_of(sys.stdin.buffer) if is_stdin else read_lines(Path(source))
    total = None if is_stream(source) else count_lines(Path(source))
    first_number = 0
    if shard:
        if total is None:
            raise UserError(
                f"A shard needs a regular file, whose lines can be counted, got {source}.",
                code="not_a_file",
            )
        shard_lines = shard.lines(total)
        first_number, total = shard_lines.start, len(shard_lines)
        lines = itertools.islice(lines, shard_lines.start, shard_lines.stop)
    with contextlib.closing(_Outputs(outputs, provenance)) as job:
        job.open()
        if lines_before := job.lines_done:
            job.check_source(itertools.islice(lines, lines_before))
            print(f"{lines_before:,} lines are complete: continuing.", file=sys.stderr, flush=True)
        with LineProgress(total, lines_before) as progress:
            while chunk := list(itertools.islice(lines, lines_at_once)):
                number = first_number + job.lines_done
                numbered = enumerate(chunk, number + 1)
                texts = [decoded(line, source, line_number) for line_number, line in numbered]
                job.append(chunk, *work(texts, number, progress.update))
                # Corrects the progress: `work` skips blank lines, and counts split sentences.
                progress.update(job.lines_done - progress.n)
        seconds = time.perf_counter() - start
        if manifest is not None:
            job.write_manifest({**manifest, "seconds": None if lines_before else round(seconds, 3)})
        job.complete()
    return JobSummary(job.counts, job.lines_done, job.lines_done - lines_before, seconds)


def read_manifest(output: Path) -> dict[str, Any]:
    """Returns the manifest of a job's first output; {} if it is missing or describes another file.

    Raises:
      UserError: the manifest cannot be read.
    """
    path = _manifest_path(output)
    if not (output.is_file() and path.exists()):
        return {}
    manifest = read_json(path, "Remove it.")
    return manifest if manifest.get("output") == sha256_of(output) else {}


def resolve_outputs(
    inputs: Sequence[str | Path], outputs: Mapping[str, str | Path]
) -> dict[str, Path]:
    """Checks the files of a job; returns the files to write, with links followed.

    Neither an output nor the record next to the first one may replace an input or a needed file.

    Raises:
      UserError: an input cannot be read, an output must not be written (see `check_outputs`), or
        one of several outputs is a stream.
    """
    for path in map(Path, inputs):
        if str(path) != STANDARD_STREAM and not path.is_dir():
            check_readable(path)
    files, owned_paths = {name: Path(path) for name, path in outputs.items()}, []
    for name, path in files.items():
        if not is_stream(path) or path.is_dir():
            files[name] = path.resolve() if path.is_symlink() else path
            owned_paths += [files[name], _partial_path(files[name])]
        elif len(files) > 1:
            raise UserError(
                f"Only a job with one output can write to a stream, got {path}.", code="not_a_file"
            )
    if owned_paths:
        check_outputs(inputs, [*owned_paths, _record_path(owned_paths[0])])
    return files


def _partial_path(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.progress.json")


def _manifest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


class _Outputs:
    """A job's outputs: one stream, or files that are locked and renamed once complete."""

    def __init__(self, paths: Mapping[str, Path], provenance: Mapping[str, Any]):
        self._paths, self._files = dict(paths), dict[str, BinaryIO]()
        self._main = next(iter(paths.values()))
        self._is_stream = is_stream(self._main)
        # Relative names, as the folder may be moved before the job continues.
        names = {name: os.path.relpath(path, self._main.parent) for name, path in paths.items()}
        self._settings = as_json({"files": names, "provenance": provenance})
        self._source_hash, self._recorded_hash = hashlib.sha256(), ""
        self.lines_done, self.counts = 0, Counter[str]()

    def open(self) -> None:
        """Opens the outputs; restores files to the recorded state."""
        for name, path in self._paths.items():
            self._files[name] = self._open_stream() if self._is_stream else _open_locked(path)
        if not self._is_stream:
            self._restore()

    def _open_stream(self) -> BinaryIO:
        if str(self._main) == STANDARD_STREAM:
            return product().buffer
        try:
            # Unlike `open`, this makes no new file if the stream is gone.
            return os.fdopen(os.open(self._main, os.O_WRONLY), "wb")
        except OSError as error:
            raise self._write_error(error) from error

    def _restore(self) -> None:
        """Restores the recorded state; starts over if a file has lost lines."""
        path, sizes = _record_path(self._main), dict[str, int]()
        nonempty_outputs = [self._paths[name] for name, file in self._files.items() if _size(file)]
        if nonempty_outputs and not path.exists():
            raise UserError(
                f"{_partial_path(nonempty_outputs[0])} exists without its record {path}, so its "
                f"origin is unknown. Delete or rename it, or give another name for the output.",
                code="output_exists",
            )
        if self._main in nonempty_outputs:
            record = _read_record(path, f"Delete {_partial_path(self._main)} to start over.")
            mismatches = differences(record["files"], self._settings["files"])
            mismatches += differences(record["provenance"], self._settings["provenance"])
            if mismatches:
                raise UserError(
                    f"{_partial_path(self._main)} has {record['lines']:,} lines made with other "
                    f"settings ({'; '.join(mismatches)}). Give the recorded settings, delete the "
                    f"file to start over, or give another name for the output.",
                    code="other_settings",
                )
            if all(_size(file) >= record["bytes"][name] for name, file in self._files.items()):
                sizes, self.counts = record["bytes"], Counter(record["counts"])
                self.lines_done, self._recorded_hash = record["lines"], record["read"]
            else:
                complaint = f"{_partial_path(self._main)}, or another output, has lost lines"
                print(printable(f"{complaint}: starting over."), file=sys.stderr, flush=True)
        for name, file in self._files.items():
            # Lines written after the record are written again.
            file.truncate(sizes.get(name, 0))
            file.seek(0, os.SEEK_END)
        if not sizes:
            # Write a record before the first line: a file without one would not be recognised.
            self._write_record()

    def check_source(self, lines: Iterable[bytes]) -> None:
        """Raises `UserError` unless these are the `lines_done` lines that were read before."""
        self._hash(lines)
        if self._source_hash.hexdigest() != self._recorded_hash:
            raise UserError(
                f"The source has changed: {_partial_path(self._main)} was made from "
                f"{self.lines_done:,} other lines. Delete it to start over, or give another name "
                f"for the output.",
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
            raise  # The reader has exited, as `head` does.
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
        write_json(_record_path(self._main), record, indent=None)

    def _hash(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._source_hash.update(line + b"\n")

    def _write_error(self, error: OSError) -> UserError:
        if not self._is_stream:
            return UserError(
                f"Cannot write {_partial_path(self._main)}: {error.strerror}. Its first "
                f"{self.lines_done:,} lines are good: make room, and run the same command again.",
                code="not_written",
            )
        name = str(self._main)
        if name == STANDARD_STREAM:
            name = "standard output"
            discard_buffer(sys.stdout)
        return UserError(
            f"Cannot write {name}: {error.strerror}. {self.lines_done:,} lines are written. A job "
            f"that writes to a file can be continued.",
            code="not_written",
        )

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest of the first output, before the file gets its final name.

        So an interruption or a full disk loses no work, and leaves no file of unknown origin. A
        manifest without its file is ignored.
        """
        if not self._is_stream:
            content = {**self._settings["provenance"], **manifest}
            content["output"] = sha256_of(_partial_path(self._main))
            write_json(_manifest_path(self._main), content)

    def complete(self) -> None:
        """Gives the files their final names while they are locked."""
        if not self._is_stream:
            for path in self._paths.values():
                _partial_path(path).replace(path)
            _record_path(self._main).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the files and removes empty ones; the job can be continued later."""
        for name, file in self._files.items():
            if not self._is_stream and not _size(file):
                _partial_path(self._paths[name]).unlink(missing_ok=True)
                if self._paths[name] == self._main:
                    _record_path(self._main).unlink(missing_ok=True)
            if str(self._main) != STANDARD_STREAM:
                # Errors of writing were reported before.
                with contextlib.suppress(OSError):
                    file.close()


def _read_record(path: Path, advice: str) -> dict[str, Any]:
    """Reads the record of a job; if it is damaged, raises `UserError`, which ends with `advice`."""
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
    """Opens and locks an output's partial file, so that no other process opens it."""
    path = _partial_path(output)
    make_parent(path)
    advice = "Give another name for the output."
    with translated_errors(OSError, f"Cannot write {path}", advice, code="not_written"):
        file = path.open("ab")
    is_locked = lock(file) is not False
    # Its previous owner may have completed or deleted it before the lock.
    if not (is_locked and path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
        file.close()
        raise UserError(
            f"{path} is in use by another process. Wait until it ends, or give another name for "
            f"the output.",
            code="in_use",
        )
    return file
