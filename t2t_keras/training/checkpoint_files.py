"""Checkpoint files: their format (safetensors with a head), their names, and waiting for new ones.

A file has eight bytes with the length of a header, the header (JSON: type, shape and place of each
array, and the head), and the arrays' bytes. The library `safetensors` can read it too, but ignores
the checksums. The writer here needs no copy of all arrays in memory, and its files are complete or
absent.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import ml_dtypes
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.io.files import (
    BEST,
    CHECKPOINT_PREFIX,
    SAFETENSORS,
    atomic_writer,
    not_a_run,
    open_regular,
)
from t2t_keras.training.run_config import RunConfig

Result = TypeVar("Result")

_VERSION = 1
_TYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "U32": np.dtype(np.uint32),
    "I8": np.dtype(np.int8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
_TYPE_NAMES = {dtype: name for name, dtype in _TYPES.items()}
# safetensors rejects longer headers.
_MAX_HEADER_BYTES = 100_000_000
_MAX_CRC32 = 2**32 - 1
_CHECKSUM_DIGITS = len(str(_MAX_CRC32))


class DamagedCheckpointError(UserError):
    """A checkpoint is damaged: reading it raised `error`."""

    def __init__(self, path: str | Path, error: BaseException, intact: str = ""):
        advice = ""
        if intact:
            name = Path(intact).name
            advice = f" The newest intact one is {name}: use it, with --checkpoint_path={intact}."
        super().__init__(
            f"The checkpoint {path} is damaged: {first_line(error)}.{advice}",
            code="checkpoint_damaged",
        )
        self.error = error


def first_line(error: BaseException) -> str:
    """Returns the type and the first line of an error, without a full stop."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}".rstrip(".: ")


def write(
    path: str | Path,
    arrays: Mapping[str, Any],
    head: Mapping[str, Any],
    to_array: Callable[[Any], np.ndarray] = np.asarray,
) -> None:
    """Writes a checkpoint, which is complete or absent.

    Args:
      path: the file.
      arrays: objects with a shape and a dtype, by name; their order is kept.
      head: JSON to store beside the arrays. "version", "crc32" (of each array) and "digest" are
        added; equal digests mean equal arrays.
      to_array: converts an object to an array just before it is written, so that memory need not
        hold all arrays at once.

    Raises:
      OSError: it cannot be written, as on a full disk.
    """
    table, end = {}, 0
    for name, array in arrays.items():
        dtype = np.dtype(array.dtype)
        start, end = end, end + math.prod(array.shape) * dtype.itemsize
        type_name, shape = _TYPE_NAMES[dtype], list(array.shape)
        table[name] = {"dtype": type_name, "shape": shape, "data_offsets": [start, end]}
    checksums = dict.fromkeys(arrays, _MAX_CRC32)
    # The header is written last, into space reserved for its greatest length.
    header_size = len(_encode_header(table, checksums, head)) + _CHECKSUM_DIGITS
    header_size += -header_size % 8
    with atomic_writer(Path(path)) as file:
        file.seek(8 + header_size)
        for name, array in arrays.items():
            data = to_array(array).reshape(-1).view(np.uint8).data
            checksums[name] = zlib.crc32(data)
            file.write(data)
        file.seek(0)
        header = _encode_header(table, checksums, head).ljust(header_size)
        file.write(header_size.to_bytes(8, "little") + header)


def read(
    path: str | Path, prefixes: tuple[str, ...] = ("",)
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays of a checkpoint, in the order of writing, and its head.

    Reads and checks only arrays whose names begin with one of `prefixes`; by default, all.

    Raises:
      DamagedCheckpointError: the content has changed since it was written.
      UserError: the file cannot be opened or read.
    """
    arrays = {}
    try:
        with open_regular(path) as file:
            table, head = _read_header(file)
            data_start = file.tell()
            for name, entry in table.items():
                if not name.startswith(prefixes):
                    continue
                begin, end = entry["data_offsets"]
                file.seek(data_start + begin)
                data = file.read(end - begin)
                if zlib.crc32(data) != head["crc32"][name]:
                    raise ValueError(f"checksum mismatch in {name}")
                arrays[name] = np.frombuffer(data, _TYPES[entry["dtype"]]).reshape(entry["shape"])
        return arrays, head
    except UserError:
        raise
    except (OSError, MemoryError) as error:
        raise UserError(
            f"Cannot read the checkpoint {path}: {first_line(error)}. It is unchanged; run the "
            f"same command again when it can be read.",
            code="checkpoint_not_read",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpointError(path, error) from error


def read_head(path: str | Path) -> dict[str, Any]:
    """Returns a checkpoint's head without reading the arrays; raises the same errors as `read`."""
    return read(path, prefixes=())[1]


def _read_header(file: BinaryIO) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns the entry of each array, and the head, after checking header and file size."""
    length = int.from_bytes(file.read(8), "little")
    header = file.read(length) if length <= _MAX_HEADER_BYTES else b""
    if not header or len(header) < length:
        raise ValueError("file is truncated")
    table = json.loads(header)
    metadata = table.pop("__metadata__")
    if str(zlib.crc32(metadata["head"].encode())) != metadata["crc32"]:
        raise ValueError("checksum mismatch in the head")
    head = json.loads(metadata["head"])
    if head["version"] != _VERSION:
        raise UserError(
            f"{file.name} has version {head['version']} of the checkpoint format, expected "
            f"{_VERSION}. Use the version of t2t_keras that wrote it.",
            code="other_checkpoint_version",
        )
    if _digest(table, head["crc32"]) != head["digest"]:
        raise ValueError("the digest of names, types and shapes does not match")
    offset = 0
    for name, entry in table.items():
        size = math.prod(entry["shape"]) * _TYPES[entry["dtype"]].itemsize
        if entry["data_offsets"] != [offset, offset := offset + size]:
            raise ValueError(f"unexpected offset of {name}")
    size, expected = os.fstat(file.fileno()).st_size, 8 + length + offset
    if size != expected:
        truncated = "file is truncated: " if size < expected else ""
        raise ValueError(f"{truncated}expected {expected:,} bytes, got {size:,}")
    return table, head


def _encode_header(
    table: Mapping[str, Any], checksums: Mapping[str, int], head: Mapping[str, Any]
) -> bytes:
    added = {"version": _VERSION, "crc32": checksums, "digest": _digest(table, checksums)}
    head_json = json.dumps({**head, **added})
    metadata = {"head": head_json, "crc32": str(zlib.crc32(head_json.encode()))}
    return json.dumps({"__metadata__": metadata, **table}).encode()


def _digest(table: Mapping[str, Mapping[str, Any]], checksums: Mapping[str, int]) -> str:
    """Returns the SHA-256 of names, types, shapes and checksums, whatever the arrays' order."""
    content = [
        [name, table[name]["dtype"], table[name]["shape"], checksums[name]] for name in table
    ]
    return hashlib.sha256(json.dumps(sorted(content)).encode()).hexdigest()


_STEP = re.compile(r"-(\d+)(?:\.\w+)?$")
_NAME_AND_STEP = re.compile(r"(.+)-(\d+)")


def path_at(directory: str | Path, step: int) -> str:
    """Returns the path of a step's checkpoint."""
    return str(Path(directory) / f"{CHECKPOINT_PREFIX}-{step}{SAFETENSORS}")


def checkpoint_paths(directory: str | Path) -> list[str]:
    """Returns the paths of the checkpoints in a directory, ordered by step, newest last."""
    paths = {}
    for file in Path(directory).glob(f"{CHECKPOINT_PREFIX}-*{SAFETENSORS}"):
        if match := re.fullmatch(
            rf"{re.escape(CHECKPOINT_PREFIX)}-(\d+){re.escape(SAFETENSORS)}", file.name
        ):
            paths[int(match[1])] = str(file)
    return [paths[step] for step in sorted(paths)]


def newest_checkpoint(directory: str | Path) -> str:
    """Returns a run's newest checkpoint; raises `UserError` if there is none."""
    paths = checkpoint_paths(directory)
    if not paths:
        is_run = RunConfig.exists(directory)
        advice = "The training has not saved one yet." if is_run else not_a_run(directory)
        if is_run and checkpoint_paths(best := Path(directory) / BEST):
            advice = f"The best one is in {best}: give that folder."
        raise UserError(f"There is no checkpoint in {directory}. {advice}", code="no_checkpoint")
    return paths[-1]


def checkpoint_at(path: str | Path) -> str:
    """Returns the path of a run's newest checkpoint, or of a checkpoint with or without its suffix.

    Raises:
      UserError: there is no such checkpoint.
    """
    if Path(path).is_dir():
        return newest_checkpoint(path)
    file = Path(f"{str(path).removesuffix(SAFETENSORS)}{SAFETENSORS}")
    if not file.exists():
        names = [Path(existing).name for existing in checkpoint_paths(file.parent)]
        raise UserError(
            f"There is no checkpoint {file}. In its directory: {', '.join(names) or 'none'}.",
            code="no_checkpoint",
        )
    return str(file)


def identity(checkpoint: str | Path) -> dict[str, str]:
    """Returns a checkpoint's path, and its digest to tell it from a later file of the same name.

    Raises:
      UserError: there is no such checkpoint, or its head cannot be read.
    """
    path = checkpoint_at(checkpoint)
    with suggest_intact(path):
        return {"checkpoint": path, "digest": read_head(path)["digest"]}


@contextlib.contextmanager
def suggest_intact(path: str | Path) -> Iterator[None]:
    """Makes the error for a damaged checkpoint name the newest intact one before it."""
    try:
        yield
    except DamagedCheckpointError as damaged:
        step = step_of(path)
        earlier = (
            other
            for other in reversed(checkpoint_paths(Path(path).parent))
            if step is not None and known_step_of(other) < step and _is_intact(other)
        )
        intact = next(earlier, None)
        if intact is None:
            raise
        raise DamagedCheckpointError(path, damaged.error, intact) from damaged.error


def _is_intact(path: str) -> bool:
    try:
        read(path)
    except UserError:
        return False
    return True


def step_of(path: str | Path) -> int | None:
    """Returns the step number in a checkpoint's path; None if it has none, as in a renamed copy."""
    match = _STEP.search(str(path))
    return int(match[1]) if match else None


def known_step_of(path: str | Path) -> int:
    """Returns the step number in a checkpoint's path; raises `UserError` if it has none."""
    step = step_of(path)
    if step is None:
        raise UserError(
            f"{path}: expected a name with a step, like {CHECKPOINT_PREFIX}-1000{SAFETENSORS}.",
            code="bad_file_name",
        )
    return step


@dataclasses.dataclass(frozen=True)
class PollPolicy:
    """How often, and for how long, to look for a file.

    Attributes:
      wait_minutes: longest wait for the next file; 0 = look only once.
      poll_seconds: seconds between two looks.
      sleep: function that waits for a number of seconds.
    """

    wait_minutes: float = 0.0
    poll_seconds: float = 5.0
    sleep: Callable[[float], object] = time.sleep

    def poll(self, noun: str) -> Iterator[None]:
        """Yields whenever it is time to look for `noun`: at once, then after each pause."""
        yield
        seconds_left = 60 * self.wait_minutes
        if seconds_left:
            print(f"Waiting for the {noun}, at most {self.wait_minutes:g} minutes.", flush=True)
        while seconds_left > 0:
            pause = min(self.poll_seconds, seconds_left)
            seconds_left -= pause
            self.sleep(pause)
            yield


NO_WAIT = PollPolicy()


def wait_for(find: Callable[[], Result], policy: PollPolicy, noun: str) -> Result:
    """Returns the first true result of `find`, or its last result when the wait is over."""
    for _ in policy.poll(f"first {noun}"):
        if result := find():
            break
    return result


class CheckpointWatcher:
    """Iterates over files with steps in their names as they appear, each step once.

    Steps before `min_steps` and steps in `done` are ignored. `files` returns the existing paths by
    step, `last_step` the last step to wait for (None = unknown).

    Attributes:
      skipped: the reason for each skipped step.
    """

    def __init__(
        self,
        files: Callable[[], Mapping[int, str]],
        policy: PollPolicy = NO_WAIT,
        *,
        noun: str = "checkpoint",
        min_steps: int = 0,
        done: Iterable[int] = (),
        last_step: Callable[[], int | None] = lambda: None,
    ):
        self._find_files, self._policy, self._noun = files, policy, noun
        self._min_steps, self._done, self._last_step = min_steps, set(done), last_step
        self.skipped: dict[int, str] = {}

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yields step and path, the earliest first, until the last step or the end of the wait."""
        done, new_files = self._done, dict[int, str]()
        while True:
            for _ in self._policy.poll(f"next {self._noun}"):
                all_files, previous_files = self._find_files(), new_files
                new_files = {
                    step: path
                    for step, path in all_files.items()
                    if step >= self._min_steps and step not in done
                }
                for step in sorted(previous_files.keys() - new_files.keys() - done):
                    self._skip(step, f"{previous_files[step]} was deleted before it could be read.")
                if new_files:
                    break
                last_step = self._last_step() if self._policy.wait_minutes else None
                if last_step is not None and max(all_files, default=-1) >= last_step:
                    return
            if not new_files:
                if minutes := self._policy.wait_minutes:
                    print(f"No further {self._noun} in {minutes:g} minutes.", flush=True)
                return
            step = min(new_files)
            done.add(step)
            yield step, new_files[step]

    def load_each(self, load: Callable[[str], object]) -> Iterator[tuple[int, str]]:
        """Loads each file with `load(path)`, then yields its step and path.

        A file for which `load` raises `UserError` may be incomplete: it is tried once more after a
        pause, and skipped if it fails again.
        """
        for step, path in self:
            if reason := self._load_error(load, step, path):
                self._skip(step, reason)
            else:
                yield step, path

    def _load_error(self, load: Callable[[str], object], step: int, path: str) -> str:
        for may_retry in (True, False):
            try:
                load(path)
                return ""
            except UserError as error:
                reason = str(error)
            if step not in self._find_files():
                return f"{path} was deleted while it was read."
            if may_retry:
                self._policy.sleep(self._policy.poll_seconds)
        return reason

    def _skip(self, step: int, reason: str) -> None:
        self.skipped[step] = reason
        print(f"{reason} It is skipped.", flush=True)


def files_by_name_and_step(directory: str | Path) -> dict[str, dict[int, str]]:
    """Returns the paths of the files `<name>-<step>` in a directory, by name and step."""
    paths: dict[str, dict[int, str]] = {}
    for path in Path(directory).glob("*"):
        if match := _NAME_AND_STEP.fullmatch(path.name):
            paths.setdefault(match[1], {})[int(match[2])] = str(path)
    return paths


def follow_run(
    output_dir: str | Path, policy: PollPolicy = NO_WAIT, min_steps: int = 0, **options: Any
) -> CheckpointWatcher:
    """Returns an iterator over the checkpoints of a run as they appear."""
    return CheckpointWatcher(
        lambda: {known_step_of(path): path for path in checkpoint_paths(output_dir)},
        policy,
        min_steps=min_steps,
        # Read every time, as a continued run may get more steps.
        last_step=lambda: RunConfig.load(output_dir).hparams.train_steps,
        **options,
    )
