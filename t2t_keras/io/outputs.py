"""Checks that what a command writes replaces nothing that must stay: inputs, runs, data, exports.

Files that an earlier command wrote into a run, as translations, may be replaced.
"""

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path

from t2t_keras.errors import UserError

STANDARD_STREAM = "-"

# Files by which a folder is recognised, the first that is there. Exports have a manifest as well.
_MARKERS = {
    "run.json": "a run",
    "t2t_keras.json": "a model for another program",
    "task.json": "a model for another program",
    "model.onnx": "a model for another program",
    "model.tflite": "a model for another program",
    "saved_model.pb": "an export",
    "manifest.json": "generated data",
    "unfinished.json": "generated data",
}
VOCABULARY_FILES = tuple(
    f"vocab{side}.{kind}"
    for kind in ("model", "pieces", "subwords", "words")
    for side in ("", ".source")
)
# Names of the files in such folders, and in those below.
_RESERVED = (
    *_MARKERS,
    *VOCABULARY_FILES,
    "model.bin",
    "*.weights.h5",
    "config.json",
    "metadata.json",
    "preprocessor.json",
    "*tokenizer.json",
    "vocabulary.spm",
    "*_vocabulary.json",
    "model.ckpt-*",
    "evaluations.json",
    "microbatch.json",
    "has_saved",
    "events.out.tfevents.*",
    "scalars.jsonl",
    ".lock",
    *(f"{split}-*.{kind}" for split in ("train", "dev", "test") for kind in ("np[yz]", "json")),
    *(f"{split}.{side}.txt" for split in ("dev", "test") for side in ("source", "target")),
)
_RESULTS = "results.jsonl"
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def is_stream(path: str | Path) -> bool:
    """Returns whether a path is "-" (standard input or output), a device or a pipe."""
    path = Path(path)
    return str(path) == STANDARD_STREAM or (path.exists() and not path.is_file())


def check_folder(folder: str | Path, kind: str) -> None:
    """Raises `UserError` if the folder for one of the `_MARKERS` holds another of them."""
    if (found := _kind(Path(folder))) not in ("", kind):
        raise UserError(
            f"{folder} contains {found}: expected a folder of its own for {kind}.",
            code="output_belongs_to_other",
        )


def check_outputs(
    reads: Iterable[str | Path],
    writes: Iterable[str | Path],
    appends: Iterable[str | Path] = (),
) -> None:
    """Raises `UserError` if an output would replace an input, another output, or what must stay.

    Of a folder that the command reads (a run, generated data), its own files count. It replaces
    what it writes, streams aside; `appends` are files of results that it adds lines to.
    """
    taken: dict[object, tuple[str, str]] = {}
    for path in map(Path, reads):
        for file in _own_files(path) if path.is_dir() else [path]:
            if str(file) != STANDARD_STREAM:
                taken[_identity(file)] = "output_is_input", f"it is also an input ({file})"
    for paths, results in ((writes, (_RESULTS,)), (appends, ())):
        for path in map(Path, paths):
            if path.is_dir():
                raise UserError(
                    f"{path} is a folder: expected the name of a file, as {path}/out.",
                    code="is_a_folder",
                )
            if is_stream(path):
                continue
            if path.suffix.lower() in _PACKED:
                raise UserError(
                    f"{path} would not be packed: expected a name for unpacked output. Give "
                    f"{path.with_suffix('')}, and pack the file afterwards.",
                    code="packed_output",
                )
            identity = _identity(path)
            if owner := _owner(path, results):
                taken[identity] = "output_belongs_to_other", owner
            if identity in taken:
                code, reason = taken[identity]
                raise UserError(f"Cannot write to {path}: {reason}. Give another name.", code=code)
            taken[identity] = "output_twice", "it is another output"


def _own_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _is_reserved(path.name)]


def _is_reserved(name: str, more: tuple[str, ...] = ()) -> bool:
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in (*_RESERVED, *more))


def _kind(folder: Path) -> str:
    """Returns what a folder holds, "" if it is nothing of ours; others have manifests too."""
    for name, kind in _MARKERS.items():
        file = folder / name
        if file.is_file() and (name != "manifest.json" or b'"splits"' in file.read_bytes()):
            return kind
    return ""


def _owner(path: Path, more: tuple[str, ...]) -> str:
    """Returns why a run, data or an export needs the file, "" if none does."""
    path = Path(os.path.realpath(path))
    for folder in path.parents:
        kind = _kind(folder)
        hard_linked = kind and _identity(path) in map(_identity, _own_files(folder))
        if kind and (kind == "an export" or _is_reserved(path.name, more) or hard_linked):
            return f"{path.name} belongs to {kind} in {folder}"
    return ""


def _identity(path: Path) -> object:
    """Returns what all names of one file have in common."""
    try:
        stat = path.stat()
    except OSError:
        return os.path.realpath(path)
    return stat.st_dev, stat.st_ino
