"""Reads files of other toolkits without running code: settings, vocabularies and tensors."""

import glob
import io
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import yaml

from t2t_keras.errors import UserError, report_missing_package, shorten, translated_errors
from t2t_keras.interop.importers.pickles import TensorPickle, TreeBound
from t2t_keras.io.files import (
    MAX_BYTES,
    check_regular,
    open_regular,
    path_inside,
    plain_path,
    read_bounded,
)

# PyYAML parses longer numbers and dates slowly; no setting has them.
_MAX_CHARACTERS = 1000
# Longer numbers as keys can share one hash, so that filling a dictionary takes quadratic time.
_MAX_KEY_CHARACTERS = 18
_TEXT_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary")


def read_text(path: Path, advice: str = "") -> str:
    """Returns the text of a file; raises `UserError` like `read_bounded`, or if not UTF-8."""
    with translated_errors(UnicodeDecodeError, f"{path} is not UTF-8", advice, code="not_utf8"):
        return read_bounded(path, advice).decode("utf-8")


def find_recorded_file(name: object, *folders: Path) -> Path:
    """Returns the path of a file that a record names, in the first of the folders that has it.

    The record may come from another machine, so the last part of the recorded path also counts.

    Raises:
      UserError: no folder has the file.
    """
    errors = []
    for folder in folders:
        for candidate in (name, Path(name).name) if isinstance(name, str) else (name,):
            try:
                path = path_inside(folder, candidate)
            except UserError as error:
                errors.append(error)
                continue
            if path.exists():
                return path
            errors.append(
                UserError(f"{path} cannot be read: there is no such file.", code="not_read")
            )
    raise UserError(f"{errors[0]} Or name the file with --vocabulary.", code=errors[0].code)


def read_yaml(content: str | bytes, origin: str, texts_only: bool = False) -> dict[str, Any]:
    """Parses a YAML mapping. `texts_only` is for vocabularies: 1 and yes stay strings.

    Raises:
      UserError: the content is not YAML, not a mapping, or too large with all aliases expanded.
    """
    # The loaders in C are ten times as fast, but not always installed.
    fast, slow = ("CBaseLoader", "BaseLoader") if texts_only else ("CSafeLoader", "SafeLoader")
    limit = TreeBound(origin)

    def check(node: Any, depth: int = 0, max_length: int = _MAX_CHARACTERS) -> None:
        limit.check(depth)
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _TEXT_TAGS and len(node.value) > max_length:
                raise ValueError(f"a number or date of {len(node.value):,} characters")
        elif isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                check(name, depth + 1, _MAX_KEY_CHARACTERS)
                check(value, depth + 1)
        else:
            for value in node.value:
                check(value, depth + 1)

    # Errors of many kinds, for example for the date 2020-99-99.
    with translated_errors(Exception, f"{origin} is not YAML", code="not_yaml"):
        parser = getattr(yaml, fast, getattr(yaml, slow))(content)
        # Check before constructing, which copies a merged mapping at each use.
        node = parser.get_single_node()
        if node is not None:
            check(node)
        mapping = node and parser.construct_document(node)
    if not isinstance(mapping, dict):
        raise UserError(
            f"{origin}: expected a mapping, got {type(mapping).__name__}.",
            code="bad_configuration",
        )
    return mapping


Content = TypeVar("Content")


def read_weights(folder: Path, *files: str) -> dict[str, np.ndarray]:
    """Reads the weights in the first file that exists, `.safetensors` or PyTorch's, as float32.

    Raises:
      UserError: no file exists, or the file is damaged or might run code.
    """
    path = next((folder / file for file in files if (folder / file).exists()), None)
    if path is None:
        raise UserError(f"{folder}: expected {' or '.join(files)}.", code="no_model")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else read_pytorch(path)
    return named_tensors(content, path)


def named_tensors(content: Any, origin: str | Path) -> dict[str, np.ndarray]:
    """Returns named tensors as float32; raises `UserError` for anything else."""
    if not isinstance(content, Mapping):
        raise UserError(
            f"{origin}: expected a mapping of names to tensors, got {type(content).__name__}.",
            code="not_a_checkpoint",
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            raise UserError(
                f"{origin}: expected only tensors, got {type(value).__name__} as {shorten(name)}. "
                f"Save only the weights, `model.state_dict()`.",
                code="not_a_checkpoint",
            )
    return {name: np.asarray(value, np.float32) for name, value in content.items()}


def _read_safetensors(path: Path) -> Mapping[str, np.ndarray]:
    with report_missing_package(str(path), "import"):
        from safetensors.numpy import load_file  # ml_dtypes adds bfloat16.
    with translated_errors(Exception, f"{path} cannot be read", code="not_read"):
        open_regular(path).close()
        return load_file(path)


# TensorFlow escapes quotes in paths; the names of its checkpoints have none.
_NEWEST_PATH = re.compile(r'^model_checkpoint_path: "([^"\\]+)"', re.MULTILINE)


def checkpoint_prefix(path: Path) -> str:
    """Returns the prefix of a TensorFlow checkpoint: `path`, or the newest in the folder `path`.

    The folder's record may name a path on another machine, so only the path's last part counts.

    Raises:
      UserError: the folder has no record, or the checkpoint is not of regular files.
    """
    prefix = path
    if path.is_dir():
        record = path / "checkpoint"
        text = read_text(record, "TensorFlow writes it. Name a checkpoint in the folder instead.")
        if not (match := _NEWEST_PATH.search(text)):
            raise UserError(
                f"{record}: expected the entry model_checkpoint_path.", code="not_a_checkpoint"
            )
        prefix = path / Path(match[1]).name
    check_regular(prefix.parent.glob(f"{glob.escape(prefix.name)}.*"))
    return str(prefix)


def read_tensorflow(
    path: Path, toolkit: str, read: Callable[[Any], Content]
) -> tuple[Path, Content]:
    """Reads a TensorFlow checkpoint: `path`, or the newest in the folder `path`.

    Args:
      path: the checkpoint's path without its ending, or its folder.
      toolkit: name of the toolkit that wrote the checkpoint, for errors.
      read: gets the content from TensorFlow's `CheckpointReader`.

    Returns:
      The path of the checkpoint without its ending, and the result of `read`.

    Raises:
      UserError: the checkpoint cannot be read.
    """
    import tensorflow as tf

    prefix = checkpoint_prefix(path)
    # Damage raises OpError, ValueError and others.
    text = f"{path} is not a checkpoint of {toolkit}"
    with (
        translated_errors(Exception, text, code="not_a_checkpoint"),
        plain_path(prefix) as plain,
    ):
        return Path(prefix), read(tf.train.load_checkpoint(plain))


# The first pickle in files of PyTorch before 1.6.
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
# Weights never compress this far.
_MAX_COMPRESSION = 20


def read_pytorch(path: str | Path) -> Any:
    """Reads a file of `torch.save`: containers, numbers, strings, and tensors as arrays.

    Other objects, such as settings of argparse and omegaconf, become `Attributes`.

    Raises:
      UserError: the file is damaged, or names a class or function that does not belong to tensors
        or settings, and might run code.
    """
    try:
        with open_regular(path) as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return _read_old_format(file)
            with zipfile.ZipFile(file) as archive:
                check_compression(archive, file)
                return _read_archive(archive)
    except UserError as error:
        raise UserError(f"{path}: {error}", code=error.code) from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({shorten(error)}): expected a file of torch.save.",
            code="not_a_checkpoint",
        ) from error


def check_compression(archive: zipfile.ZipFile, file: BinaryIO) -> None:
    """Raises `UserError` for an archive that expands to many times its size."""
    size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES + _MAX_COMPRESSION * os.fstat(file.fileno()).st_size:
        raise UserError(
            f"it expands to {size:,} bytes: expected weights that are not compressed",
            code="file_too_large",
        )


def _read_archive(archive: zipfile.ZipFile) -> Any:
    [member] = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
    if member.file_size > MAX_BYTES:
        raise UserError(f"{member.filename} is too large", code="file_too_large")
    prefix = member.filename.removesuffix("data.pkl")

    def read_storage(key: str, dtype: np.dtype, size: int) -> np.ndarray:
        return np.frombuffer(archive.read(f"{prefix}data/{key}"), dtype)[:size]

    return TensorPickle(read_storage).load(io.BytesIO(archive.read(member)))


def _read_old_format(file: BinaryIO) -> Any:
    """Reads the format of PyTorch before 1.6: pickles, then the contents of the storages."""
    bytes_left = os.fstat(file.fileno()).st_size

    def make_storage(_: str, dtype: np.dtype, size: int) -> np.ndarray:
        nonlocal bytes_left
        bytes_left -= size * dtype.itemsize
        if bytes_left < 0:
            raise UserError("the file is not complete", code="damaged_file")
        return np.zeros(size, dtype)  # Filled in below.

    reader = TensorPickle(make_storage)
    if reader.load(file) != _OLD_MAGIC:
        raise UserError("expected a file of torch.save", code="not_a_checkpoint")
    reader.load(file)  # The version of the format.
    reader.load(file)  # The sizes of C's types.
    content = reader.load(file)
    for key in reader.load(file):
        values = reader.storages[key]
        if int.from_bytes(file.read(8), "little") != len(values):
            raise UserError(
                f"the size of the storage {key} does not match its tensors", code="damaged_file"
            )
        data = file.read(values.nbytes)
        if len(data) != values.nbytes:
            raise UserError("the file is not complete", code="damaged_file")
        values.view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return content
