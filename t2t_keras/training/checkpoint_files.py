"""The files of checkpoints: named arrays as safetensors, a head, and their names.

Eight bytes (the length of what follows), JSON (the type, shape and place of each array, and the
head), and the arrays' bytes. The library `safetensors` reads it too, but has no checksums; written
here, a file needs no copy of all arrays in memory and is complete or absent.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import ml_dtypes
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.io.files import check_regular, not_a_run, replaced_atomically

Result = TypeVar("Result")

SUFFIX = ".safetensors"
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
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
# safetensors rejects longer headers.
_LONGEST_HEADER = 100_000_000
_LARGEST_CRC32 = 2**32 - 1
_HEAD_CHECKSUM = len(str(_LARGEST_CRC32))


class DamagedCheckpointError(UserError):
    """A checkpoint cannot be read, because of `error`."""

    def __init__(self, path: str | Path, error: BaseException, sound: str = ""):
        advice = ""
        if sound:
            name = Path(sound).name
            advice = f" The newest intact one is {name}: give it, as by --checkpoint_path={sound}."
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
    value: Callable[[Any], np.ndarray] = np.asarray,
) -> None:
    """Writes a checkpoint, which is complete or absent.

    Args:
      path: of the file.
      arrays: what has a shape and a dtype, by name; their order is kept.
      head: what JSON can hold. "version", "crc32" (of each array) and "digest" are added: the
        digest is equal for equal arrays, and tells them from all others.
      value: returns one of them as an array, when its turn comes, so that not all need be in
        memory at once.

    Raises:
      OSError: it cannot be written, as on a full disk.
    """
    table, end = {}, 0
    for name, array in arrays.items():
        dtype = np.dtype(array.dtype)
        begin, end = end, end + math.prod(array.shape) * dtype.itemsize
        kind, shape = _NAMES[dtype], list(array.shape)
        table[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    checksums = dict.fromkeys(arrays, _LARGEST_CRC32)
    # It is written last, in the room for the longest that it can be.
    room = len(_header(table, checksums, head)) + _HEAD_CHECKSUM
    room += -room % 8
    with replaced_atomically(Path(path)) as file:
        file.seek(8 + room)
        for name, array in arrays.items():
            part = value(array).reshape(-1).view(np.uint8).data
            checksums[name] = zlib.crc32(part)
            file.write(part)
        file.seek(0)
        header = _header(table, checksums, head).ljust(room)
        file.write(room.to_bytes(8, "little") + header)


def read(
    path: str | Path, prefixes: tuple[str, ...] = ("",)
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays of a checkpoint, in the order in which they were written, and its head.

    Only arrays whose names begin with one of `prefixes` are read and checked; by default, all.

    Raises:
      DamagedCheckpointError: what is read is not what was written.
      UserError: the system does not let it be read.
    """

    def read_from(file: BinaryIO) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        table, head = _read_header(file)
        start, arrays = file.tell(), {}
        for name, entry in table.items():
            if not name.startswith(prefixes):
                continue
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            part = file.read(end - begin)
            if zlib.crc32(part) != head["crc32"][name]:
                raise ValueError(f"checksum mismatch in {name}")
            arrays[name] = np.frombuffer(part, _TYPES[entry["dtype"]]).reshape(entry["shape"])
        return arrays, head

    return _checked(path, read_from)


def read_head(path: str | Path) -> dict[str, Any]:
    """Returns the head of a checkpoint without reading its arrays; raises what `read` does."""
    return _checked(path, lambda file: _read_header(file)[1])


def _checked(path: str | Path, read_from: Callable[[BinaryIO], Result]) -> Result:
    # Opening a FIFO would block until there is a writer.
    check_regular([Path(path)])
    try:
        with Path(path).open("rb") as file:
            return read_from(file)
    except (OSError, MemoryError) as error:
        raise UserError(
            f"Cannot read the checkpoint {path}: {first_line(error)}. It is left as it is; give "
            f"the same command again when it can be read.",
            code="checkpoint_not_read",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpointError(path, error) from error


def _read_header(file: BinaryIO) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns the entry of each array and the head, both of which are as they were written."""
    length = int.from_bytes(file.read(8), "little")
    header = file.read(length) if length <= _LONGEST_HEADER else b""
    if not header or len(header) < length:
        raise ValueError("file is truncated")
    table = json.loads(header)
    metadata = table.pop("__metadata__")
    if str(zlib.crc32(metadata["head"].encode())) != metadata["crc32"]:
        raise ValueError("checksum mismatch in the head")
    head = json.loads(metadata["head"])
    if head["version"] != _VERSION:
        raise UserError(
            f"{file.name} has version {head['version']} of the format of checkpoints, expected "
            f"{_VERSION}. Read it with the version of t2t_keras that wrote it.",
            code="other_checkpoint_version",
        )
    if _digest(table, head["crc32"]) != head["digest"]:
        raise ValueError("its arrays have other names, types or shapes than were written")
    place = 0
    for name, entry in table.items():
        size = math.prod(entry["shape"]) * _TYPES[entry["dtype"]].itemsize
        if entry["data_offsets"] != [place, place := place + size]:
            raise ValueError(f"unexpected offset of {name}")
    size, expected = os.fstat(file.fileno()).st_size, 8 + length + place
    if size != expected:
        truncated = "file is truncated: " if size < expected else ""
        raise ValueError(f"{truncated}expected {expected:,} bytes, got {size:,}")
    return table, head


def _header(
    table: Mapping[str, Any], checksums: Mapping[str, int], head: Mapping[str, Any]
) -> bytes:
    own = {"version": _VERSION, "crc32": checksums, "digest": _digest(table, checksums)}
    text = json.dumps({**head, **own})
    metadata = {"head": text, "crc32": str(zlib.crc32(text.encode()))}
    return json.dumps({"__metadata__": metadata, **table}).encode()


def _digest(table: Mapping[str, Mapping[str, Any]], checksums: Mapping[str, int]) -> str:
    """Returns the SHA-256 of names, types, shapes and checksums, in any order of the arrays."""
    content = [
        [name, table[name]["dtype"], table[name]["shape"], checksums[name]] for name in table
    ]
    return hashlib.sha256(json.dumps(sorted(content)).encode()).hexdigest()


NAME = "model.ckpt"
BEST = "best"  # The folder within a run for the weights with the lowest dev loss.
_STEP = re.compile(r"-(\d+)(?:\.\w+)?$")


def path_at(directory: str | Path, step: int) -> str:
    """Returns the path of the checkpoint of a step."""
    return str(Path(directory) / f"{NAME}-{step}{SUFFIX}")


def checkpoint_paths(directory: str | Path) -> list[str]:
    """Returns the paths of the checkpoints in a directory, by step, newest last."""
    paths = {}
    for file in Path(directory).glob(f"{NAME}-*{SUFFIX}"):
        if match := re.fullmatch(rf"{re.escape(NAME)}-(\d+){re.escape(SUFFIX)}", file.name):
            paths[int(match[1])] = str(file)
    return [paths[step] for step in sorted(paths)]


def newest_checkpoint(directory: str | Path) -> str:
    """Returns a run's newest checkpoint; raises `UserError` if there is none."""
    paths = checkpoint_paths(directory)
    if not paths:
        run = (Path(directory) / "run.json").exists()
        why = "The training has saved none yet." if run else not_a_run(directory)
        if run and checkpoint_paths(best := Path(directory) / BEST):
            why = f"The one with the lowest dev loss is in {best}: give that folder."
        raise UserError(f"There is no checkpoint in {directory}. {why}", code="no_checkpoint")
    return paths[-1]


def existing_checkpoint(path: str | Path) -> str:
    """Returns the path of a checkpoint that may be given with or without its suffix.

    Where there is none, a `UserError` names those in its directory.
    """
    file = Path(f"{str(path).removesuffix(SUFFIX)}{SUFFIX}")
    if not file.exists():
        names = [Path(other).name for other in checkpoint_paths(file.parent)]
        raise UserError(
            f"There is no checkpoint {file}. In its directory: {', '.join(names) or 'none'}.",
            code="no_checkpoint",
        )
    return str(file)


def checkpoint_at(path: str | Path) -> str:
    """Returns the path of a run's newest checkpoint, or of one given with or without its suffix.

    Raises:
      UserError: there is none.
    """
    if Path(path).is_dir():
        return newest_checkpoint(path)
    return existing_checkpoint(path)


def identity(checkpoint: str | Path) -> dict[str, str]:
    """Returns what tells a checkpoint from one later written in its place.

    Raises:
      UserError: it is not there, or its head cannot be read.
    """
    path = existing_checkpoint(checkpoint)
    with named_alternative(path):
        return {"checkpoint": path, "digest": read_head(path)["digest"]}


@contextlib.contextmanager
def named_alternative(path: str | Path) -> Iterator[None]:
    """Names the newest earlier checkpoint that is intact, if a checkpoint is damaged."""
    try:
        yield
    except DamagedCheckpointError as damaged:
        step = step_of(path)
        earlier = (
            other
            for other in reversed(checkpoint_paths(Path(path).parent))
            if step is not None and known_step_of(other) < step and _is_intact(other)
        )
        newest = next(earlier, None)
        if newest is None:
            raise
        raise DamagedCheckpointError(path, damaged.error, newest) from damaged.error


def _is_intact(path: str) -> bool:
    try:
        read(path)
    except UserError:
        return False
    return True


def step_of(path: str | Path) -> int | None:
    """Returns the step number in a checkpoint's path; None if it has none, as that of a copy."""
    found = _STEP.search(str(path))
    return int(found[1]) if found else None


def known_step_of(path: str | Path) -> int:
    """Returns the step number in a checkpoint's path; a `UserError` where it has none."""
    step = step_of(path)
    if step is None:
        raise UserError(
            f"{path}: expected a name with its step, as {NAME}-1000{SUFFIX}.", code="bad_file_name"
        )
    return step
