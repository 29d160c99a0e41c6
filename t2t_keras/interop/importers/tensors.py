"""Files of tensors, read without running the code that they may name."""

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from t2t_keras.errors import UserError, brief
from t2t_keras.interop.importers.files import checkpoint_prefix
from t2t_keras.interop.importers.pickles import TensorPickle
from t2t_keras.io.files import MOST_BYTES, open_regular, plain_path

Content = TypeVar("Content")


def read_weights(folder: Path, *files: str) -> dict[str, np.ndarray]:
    """Reads the first of some files that is there, as float32: `.safetensors` or PyTorch's.

    Raises:
      UserError: none is there, it is damaged, or it would run code.
    """
    path = next((folder / file for file in files if (folder / file).exists()), None)
    if path is None:
        raise UserError(f"{folder}: expected {' or '.join(files)}.", code="no_model")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else read_pytorch(path)
    return named_tensors(content, path)


def named_tensors(content: Any, origin: str | Path) -> dict[str, np.ndarray]:
    """Returns tensors with their names as float32; raises `UserError` for anything else."""
    if not isinstance(content, Mapping):
        raise UserError(
            f"{origin}: expected tensors with their names, got {type(content).__name__}.",
            code="not_a_checkpoint",
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            raise UserError(
                f"{origin}: expected only tensors, got {type(value).__name__} as {brief(name)}. "
                f"Save the weights alone, as of `model.state_dict()`.",
                code="not_a_checkpoint",
            )
    return {name: np.asarray(value, np.float32) for name, value in content.items()}


def _read_safetensors(path: Path) -> Mapping[str, np.ndarray]:
    try:
        from safetensors.numpy import load_file  # With ml_dtypes, also of bfloat16.
    except ModuleNotFoundError as error:
        raise UserError(
            f"{path} needs safetensors, which is not installed: pip install 't2t-keras[import]'",
            code="missing_package",
        ) from error
    try:
        open_regular(path).close()
        return load_file(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path} cannot be read: {brief(error)}", code="not_read") from error


def read_tensorflow(
    path: Path, toolkit: str, read: Callable[[Any], Content]
) -> tuple[Path, Content]:
    """Reads a TensorFlow checkpoint: `path`, or the newest in that folder.

    Args:
      path: without an ending.
      toolkit: that wrote it, for errors.
      read: takes what is needed from TensorFlow's `CheckpointReader`.

    Returns:
      The path without its ending, and what `read` returned.

    Raises:
      UserError: it cannot be read.
    """
    import tensorflow as tf

    prefix = checkpoint_prefix(path)
    try:
        with plain_path(prefix) as plain:
            return Path(prefix), read(tf.train.load_checkpoint(plain))
    except Exception as error:  # An OpError, ValueError ... as the damage may be.
        raise UserError(
            f"{path}: expected a checkpoint of {toolkit} ({brief(error)}).",
            code="not_a_checkpoint",
        ) from error


# The first pickle of a file of PyTorch before 1.6.
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
# Weights never compress as far.
_MOST_COMPRESSION = 20


def read_pytorch(path: str | Path) -> Any:
    """Reads what `torch.save` wrote: containers, numbers, texts and tensors, which become arrays.

    Other objects, such as settings of argparse and omegaconf, become `Attributes`.

    Raises:
      UserError: the file is damaged, or names a class or function that tensors and settings do not
        need, and that might run code.
    """
    try:
        with open_regular(path) as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return _read_old(file)
            with zipfile.ZipFile(file) as archive:
                check_compression(archive, file)
                return _read_archive(archive)
    except UserError as error:
        raise UserError(f"{path}: {error}", code=error.code) from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({brief(error)}): expected a file of torch.save.",
            code="not_a_checkpoint",
        ) from error


def check_compression(archive: zipfile.ZipFile, file: BinaryIO) -> None:
    """Raises `UserError` for an archive that expands to many times its size."""
    size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES + _MOST_COMPRESSION * os.fstat(file.fileno()).st_size:
        raise UserError(
            f"it expands to {size:,} bytes: expected weights that are not compressed",
            code="file_too_large",
        )


def _read_archive(archive: zipfile.ZipFile) -> Any:
    [member] = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
    if member.file_size > MOST_BYTES:
        raise UserError(f"{member.filename} is too large", code="file_too_large")
    prefix = member.filename.removesuffix("data.pkl")

    def storage(key: str, dtype: np.dtype, size: int) -> np.ndarray:
        return np.frombuffer(archive.read(f"{prefix}data/{key}"), dtype)[:size]

    return TensorPickle(storage).load(io.BytesIO(archive.read(member)))


def _read_old(file: BinaryIO) -> Any:
    """Reads the format before PyTorch 1.6: pickles, then the contents of the storages."""
    room = os.fstat(file.fileno()).st_size

    def storage(_: str, dtype: np.dtype, size: int) -> np.ndarray:
        nonlocal room
        room -= size * dtype.itemsize
        if room < 0:
            raise UserError("the file is not complete", code="damaged_file")
        return np.zeros(size, dtype)  # Filled in below.

    pickled = TensorPickle(storage)
    if pickled.load(file) != _OLD_MAGIC:
        raise UserError("expected a file of torch.save", code="not_a_checkpoint")
    pickled.load(file)  # The version of the format.
    pickled.load(file)  # The sizes of C's types.
    content = pickled.load(file)
    for key in pickled.load(file):
        values = pickled.storages[key]
        if int.from_bytes(file.read(8), "little") != len(values):
            raise UserError(
                f"the storage {key} has another size than its tensors say", code="damaged_file"
            )
        numbers = file.read(values.nbytes)
        if len(numbers) != values.nbytes:
            raise UserError("the file is not complete", code="damaged_file")
        values.view(np.uint8)[:] = np.frombuffer(numbers, np.uint8)
    return content
