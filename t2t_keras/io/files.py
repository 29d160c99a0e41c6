"""Files: untrusted ones, atomic writes, JSON, locks, kinds of folders, and checks of outputs."""

import contextlib
import fcntl
import fnmatch
import glob
import hashlib
import json
import os
import re
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError, shorten, suggest, translated_errors

# Far above the size of any vocabulary or record; weights have no such limit.
MAX_BYTES = 1 << 26
_MAX_NAME_LENGTH = 255
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: str | Path) -> BinaryIO:
    """Opens a regular file for reading; does not wait for the writer of a FIFO.

    Raises:
      UserError: it is a device, a FIFO or a socket.
      OSError: it cannot be opened.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _irregular_file_error(path)
    return file


def _irregular_file_error(path: str | Path) -> UserError:
    return UserError(
        f"{path} is a device, a FIFO or a socket: expected a file. Replace it by the file.",
        code="not_a_file",
    )


def read_bounded(path: str | Path, advice: str = "", max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the content of a regular file of at most `max_bytes`.

    Raises:
      UserError: it is larger, not a regular file, or cannot be read; the text ends with `advice`.
    """
    try:
        with open_regular(path) as file:
            content = file.read(max_bytes + 1)
    except UserError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path} cannot be read: {reason}. {advice}".rstrip(), code="not_read"
        ) from error
    if len(content) > max_bytes:
        raise UserError(
            f"{path} is too large: expected at most {max_bytes:,} bytes. {advice}".rstrip(),
            code="file_too_large",
        )
    return content


def check_regular(paths: Iterable[Path]) -> None:
    """Raises `UserError` for a device, a FIFO or a socket among paths."""
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise _irregular_file_error(path)


def path_inside(folder: Path, name: object) -> Path:
    """Returns the path of a file in a folder, from its name in a record there.

    Raises:
      UserError: the name is invalid, or leads out of the folder.
    """
    if not isinstance(name, str) or not name or "\0" in name or len(name) > _MAX_NAME_LENGTH:
        raise UserError(
            f"{folder}: expected the name of a file in this folder, got {shorten(name)}.",
            code="bad_file_name",
        )
    path = Path(os.path.normpath(name))
    if path.is_absolute() or path.parts[:1] in ((), (os.pardir,)):
        raise UserError(
            f"{folder}: expected a file inside this folder, got {shorten(name)}. Put the file into "
            f"the folder, and name it without a path.",
            code="outside_folder",
        )
    return folder / path


TEMPORARY_SUFFIX = ".partial"
_SECONDS_TO_LOCK = 60


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file to write to; syncs it and renames it to `path` if all goes well.

    Several processes may write the same file: the last one wins. Temporary files of killed
    processes are removed. After an error the temporary file is removed and an older file stays.
    """
    _remove_abandoned(path)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Removes temporary files of killed processes; files of a running process are locked."""
    for temporary in path.parent.glob(f"{glob.escape(path.name)}.{'?' * 8}{TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError), temporary.open("rb") as file:
            # A new file may not have its lock yet.
            is_old = time.time() - temporary.stat().st_mtime > _SECONDS_TO_LOCK
            if is_old and lock(file):
                temporary.unlink()


def lock(file: BinaryIO) -> bool | None:
    """Locks a file until it is closed or its process ends.

    Returns whether this process has the lock, None where the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def write_atomically(path: Path, content: bytes) -> dict[str, int | str]:
    """Writes a file and returns its record for a manifest: {"size": bytes, "sha256": hex}.

    Makes a missing directory. Raises `UserError` if the file cannot be written, as on a full disk;
    no partial file remains.
    """
    make_parent(path)
    text = f"{path} ({len(content):,} bytes) cannot be written"
    advice = "Make room or give another directory, then run the same command again."
    with translated_errors(OSError, text, advice, code="not_written"), atomic_writer(path) as file:
        file.write(content)
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def make_parent(path: Path) -> None:
    """Makes the directory of a file; raises `UserError` if it cannot be made."""
    with translated_errors(OSError, f"{path.parent} cannot be made", code="not_written"):
        path.parent.mkdir(parents=True, exist_ok=True)


def check_parent(path: Path) -> None:
    """Makes the directory of a file and tries to write there, before long work for the file."""
    make_parent(path)
    text, advice = f"Nothing can be written in {path.parent}", "Give another directory."
    with translated_errors(OSError, text, advice, code="not_written"):
        tempfile.TemporaryFile(dir=path.parent).close()


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns "name (missing)" or "name (differs)" for each file that is not as recorded.

    `files` has each file's record, by name, as `write_atomically` returned it.
    """
    damaged = []
    for name, record in files.items():
        path = directory / name
        if not path.exists():
            damaged.append(f"{name} (missing)")
        elif path.stat().st_size != record["size"] or sha256_of(path) != record["sha256"]:
            damaged.append(f"{name} (differs)")
    return damaged


def write_json(path: Path, content: Any, indent: int | None = 2) -> dict[str, int | str]:
    """Writes JSON and a line feed atomically; see `write_atomically`."""
    text = json.dumps(content, indent=indent, ensure_ascii=False) + "\n"
    # A lone surrogate, as in the name of a file that is not UTF-8, becomes its escape in JSON.
    return write_atomically(path, text.encode("utf-8", errors="backslashreplace"))


def read_json(path: Path, advice: str, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Reads a JSON object that must have `keys`; a `UserError` ends with `advice`."""
    encoded = read_bounded(path, advice)
    try:
        content = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {shorten(error)}"
        raise UserError(f"{path} is not JSON ({reason}). {advice}", code="damaged_file") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: expected a JSON object, got {type(content).__name__}. {advice}",
            code="damaged_file",
        )
    missing = [key for key in keys if key not in content]
    if missing:
        raise UserError(
            f"{path}: expected the keys {', '.join(map(repr, missing))}. {advice}",
            code="damaged_file",
        )
    return content


def as_json(content: Any) -> Any:
    """Returns `content` as a JSON file would give it back, for comparison with such a file."""
    return json.loads(json.dumps(content))


def differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting that differs, in the order of `recorded`."""
    return [
        f"{name}: recorded {recorded.get(name)}, requested {requested.get(name)}"
        for name in {**recorded, **requested}
        if recorded.get(name) != requested.get(name)
    ]


_LOCK_FILE = ".lock"


@contextlib.contextmanager
def locked_directory(directory: str | Path, command: str) -> Iterator[BinaryIO]:
    """Locks a directory against other writers, and makes it if missing; yields the lock's file.

    Does not lock out readers, nor anyone on a file system without locks. The system frees the lock
    when the process ends, even if killed. The `UserError` in other processes names `command`.
    """
    path = Path(directory) / _LOCK_FILE
    make_parent(path)
    text, advice = f"Nothing can be written in {directory}", "Give another directory."
    with translated_errors(OSError, text, advice, code="not_written"):
        file = path.open("a+b", buffering=0)
    with file:
        if lock(file) is False:
            file.seek(0)
            owner = file.read(200).decode("utf-8", errors="replace").strip() or "another process"
            raise UserError(
                f"{directory} is in use by {owner}. Wait until it ends, or give another directory.",
                code="in_use",
            )
        with contextlib.suppress(OSError):  # The disk may be full; the text only informs.
            file.truncate(0)
            file.write(f"{command}, process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield file


def last_writer(directory: str | Path) -> str:
    """Returns the command that locked a directory last, "" if none did."""
    with contextlib.suppress(OSError):
        content = (Path(directory) / _LOCK_FILE).read_bytes()
        return content.decode("utf-8", errors="replace").partition(",")[0]
    return ""


# The files of a run, in its directory.
RUN_FILE = "run.json"
BEST = "best"  # A folder for the weights that are best on the dev set.
CHECKPOINT_PREFIX, SAFETENSORS = "model.ckpt", ".safetensors"  # model.ckpt-1000.safetensors
EVALUATIONS_FILE = "evaluations.json"
MICROBATCH_FILE = "microbatch.json"
HAS_SAVED_FILE = "has_saved"  # Empty: the run must not restart if its checkpoints are gone.
CURVES_FILE = "scalars.jsonl"
RESULTS_FILE = "results.jsonl"
# The records of generated data and of exports; of data that is not complete; of a SavedModel.
MANIFEST_FILE = "manifest.json"
UNFINISHED_FILE = "unfinished.json"
SAVED_MODEL_FILE = "saved_model.pb"
# Marker file -> kind of its folder. The first match counts, since exports have a manifest too.
_KINDS = {
    RUN_FILE: "a run",
    "t2t_keras.json": "a model for another program",
    "task.json": "a model for another program",
    "model.onnx": "a model for another program",
    "model.tflite": "a model for another program",
    SAVED_MODEL_FILE: "an export",
    MANIFEST_FILE: "generated data",
    UNFINISHED_FILE: "generated data",
}
# Marker file -> what its folder is and what to do, where a run is expected.
_ADVICE = {
    "t2t_keras.json": "an export for CTranslate2: t2t-decoder, t2t-translate-file and t2t-filter "
    "read it with --engine=ctranslate2, and t2t-serve reads it without flags",
    "task.json": "an export for KerasHub. Commands read the run that it was exported from",
    "model.onnx": "an export for ONNX Runtime. Commands read the run that it was exported from",
    "model.tflite": "an export for LiteRT. Commands read the run that it was exported from",
    SAVED_MODEL_FILE: "a SavedModel: t2t_keras.load_export reads it from Python, and TensorFlow "
    "Serving serves it to t2t-query-server. Commands read the run that it was exported from",
    MANIFEST_FILE: "generated data: give its parent folder as --data_dir",
}


def _find_marker(folder: Path) -> str:
    """Returns the file that marks the kind of a folder, "" for an unknown kind."""
    for name in _KINDS:
        file = folder / name
        # Other programs write a manifest.json, too.
        if file.is_file() and (name != MANIFEST_FILE or b'"splits"' in file.read_bytes()):
            return name
    return ""


def not_a_run(path: str | Path) -> str:
    """Returns an error message for a path that is not a run: what it is, and what to give."""
    path = Path(path)
    expected = "Expected the folder that t2t-trainer, t2t-avg-all or t2t-import wrote."
    if not path.is_dir():
        if path.suffix == SAFETENSORS or path.with_name(f"{path.name}{SAFETENSORS}").exists():
            return (
                f"{path} is a checkpoint: give its folder, {path.parent}, as the run, and {path} "
                f"as --checkpoint_path."
            )
        if path.exists():
            return f"{path} is a file. {expected}"
        return f"{path} does not exist.{suggest(path.name, _runs_in(path.parent))} {expected}"
    # A SavedModel is in a subfolder named after its version.
    for folder in (path, *(child for child in path.iterdir() if child.name.isdecimal())):
        if advice := _ADVICE.get(_find_marker(folder)):
            return f"{path} is {advice}."
    if runs := _runs_in(path):
        run_paths = ", ".join(str(path / name) for name in runs[:5])
        return f"{path} is not a run, but contains runs: give one of them, such as {run_paths}."
    return f"{path} is not a run: it has no {RUN_FILE}. {expected}"


def _runs_in(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob(f"*/{RUN_FILE}"))


def check_folder(folder: str | Path, kind: str) -> None:
    """Raises `UserError` if a folder is of one of `_KINDS`, but not of `kind`."""
    if (present_kind := _KINDS.get(_find_marker(Path(folder)), kind)) != kind:
        raise UserError(
            f"{folder} contains {present_kind}: expected a folder of its own for {kind}.",
            code="output_belongs_to_other",
        )


STANDARD_STREAM = "-"
VOCABULARY_FILES = tuple(
    f"vocab{side}.{kind}"
    for kind in ("model", "pieces", "subwords", "words")
    for side in ("", ".source")
)
# Patterns for the names of files that belong to runs, data and exports, subfolders included.
_RESERVED = (
    *_KINDS,
    *VOCABULARY_FILES,
    "model.bin",
    "*.weights.h5",
    "config.json",
    "metadata.json",
    "preprocessor.json",
    "*tokenizer.json",
    "vocabulary.spm",
    "*_vocabulary.json",
    f"{CHECKPOINT_PREFIX}-*",
    EVALUATIONS_FILE,
    MICROBATCH_FILE,
    HAS_SAVED_FILE,
    "events.out.tfevents.*",
    CURVES_FILE,
    _LOCK_FILE,
    *(f"{split}-*.{kind}" for split in ("train", "dev", "test") for kind in ("np[yz]", "json")),
    *(f"{split}.{side}.txt" for split in ("dev", "test") for side in ("source", "target")),
)
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def is_stream(path: str | Path) -> bool:
    """Returns whether a path is "-" (standard input or output), a device, a pipe or a folder."""
    path = Path(path)
    return str(path) == STANDARD_STREAM or (path.exists() and not path.is_file())


def check_not_stream(path: str | Path, reason: str) -> None:
    """Raises `UserError` if `path` is a stream; "" = no file."""
    if str(path) and is_stream(path):
        raise UserError(
            f"{reason}: expected a regular file, got '{path}'. Write its text to a file first.",
            code="not_a_file",
        )


def check_outputs(
    inputs: Iterable[str | Path],
    outputs: Iterable[str | Path],
    result_files: Iterable[str | Path] = (),
) -> None:
    """Raises `UserError` if an output would replace an input, another output or a needed file.

    Runs, generated data and exports need their own files. Other files that an earlier command wrote
    into their folders, such as translations, may be replaced.

    Args:
      inputs: files, or folders (a run, generated data) for all files that belong to them.
      outputs: files to replace, or streams.
      result_files: files of results to append to.
    """
    conflicts: dict[object, tuple[str, str]] = {}
    for path in map(Path, inputs):
        for file in _own_files(path) if path.is_dir() else [path]:
            if str(file) != STANDARD_STREAM:
                conflicts[_identity(file)] = "output_is_input", f"it is also an input ({file})"
    for paths, more_reserved in ((outputs, (RESULTS_FILE,)), (result_files, ())):
        for path in map(Path, paths):
            if path.is_dir():
                raise UserError(
                    f"{path} is a folder: expected the name of a file, such as {path}/out.",
                    code="is_a_folder",
                )
            if is_stream(path):
                continue
            if path.suffix.lower() in _COMPRESSED:
                raise UserError(
                    f"{path} would not be compressed: expected a name for plain output. Give "
                    f"{path.with_suffix('')}, and compress the file afterwards.",
                    code="packed_output",
                )
            identity = _identity(path)
            if reason := _why_needed(path, more_reserved):
                conflicts[identity] = "output_belongs_to_other", reason
            if identity in conflicts:
                code, reason = conflicts[identity]
                raise UserError(f"Cannot write to {path}: {reason}. Give another name.", code=code)
            conflicts[identity] = "output_twice", "it is another output"


def _own_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _is_reserved(path.name)]


def _is_reserved(name: str, more_patterns: tuple[str, ...] = ()) -> bool:
    patterns = (*_RESERVED, *more_patterns)
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in patterns)


def _why_needed(path: Path, more_reserved: tuple[str, ...]) -> str:
    """Returns which run, data or export needs the file, "" if none does."""
    path = Path(os.path.realpath(path))
    for folder in path.parents:
        kind = _KINDS.get(_find_marker(folder), "")
        is_linked = kind and _identity(path) in map(_identity, _own_files(folder))
        if kind and (kind == "an export" or _is_reserved(path.name, more_reserved) or is_linked):
            return f"{path.name} belongs to {kind} in {folder}"
    return ""


def _identity(path: Path) -> object:
    """Returns a value that is the same for all names (links) of one file."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


_PATTERN_CHARACTERS = re.compile(r"[\[\]*?\\]")


@contextlib.contextmanager
def plain_path(path: str | Path) -> Iterator[str]:
    r"""Yields a path without pattern characters that leads to the same files.

    TensorFlow reads the path of a checkpoint or a SavedModel as a pattern: `exp[1]` names the
    folder `exp1`, and a backslash vanishes.

    `path` is a file, a folder, or a prefix of file names that ends before a dot. If it has pattern
    characters, the path yielded leads to symbolic links in a temporary folder.

    Raises:
      UserError: the path of the temporary folder has such characters too.
    """
    path = Path(path)
    if not _PATTERN_CHARACTERS.search(str(path)):
        yield str(path)
        return
    with tempfile.TemporaryDirectory(prefix="t2t_keras-") as folder:
        if _PATTERN_CHARACTERS.search(folder):
            raise UserError(
                f"TensorFlow would read both {path} and the temporary folder {folder} as "
                f"patterns: expected one of them without any of []*?\\. Rename the folder, or set "
                f"TMPDIR to another one.",
                code="path_is_a_pattern",
            )
        names = f"{glob.escape(path.name)}.*"
        for file in [path] if path.exists() else path.parent.glob(names):
            suffix = file.name.removeprefix(path.name)
            (Path(folder) / f"linked{suffix}").symlink_to(file.absolute())
        yield str(Path(folder) / "linked")
