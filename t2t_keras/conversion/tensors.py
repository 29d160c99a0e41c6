"""Files of tensors, read without running the code that they may name."""

import collections
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError

# PyTorch's kinds of storage.
_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
    "BFloat16Storage": "bfloat16",
}


def read_weights(folder: Path, *files: str) -> dict[str, np.ndarray]:
    """Reads the first of some files that is there, as float32: `.safetensors` or PyTorch's.

    Raises:
      UserError: none is there, it is damaged, or it would run code.
    """
    path = next((folder / file for file in files if (folder / file).exists()), None)
    if path is None:
        raise UserError(f"{folder}: expected {' or '.join(files)}.")
    if path.suffix == ".safetensors":
        found = _read_safetensors(path)
    else:
        found = read_pytorch(path)
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


def _read_safetensors(path: Path) -> Mapping[str, np.ndarray]:
    try:
        from safetensors.numpy import load_file
    except ModuleNotFoundError as error:
        raise UserError(
            f"{path} needs safetensors, which is not installed: pip install 't2t-keras[import]'"
        ) from error
    try:
        return load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def read_pytorch(path: str | Path) -> Any:
    """Reads what `torch.save` wrote: containers, numbers, texts and tensors, which become arrays.

    Raises:
      UserError: the file is damaged, of PyTorch before 1.6, or would run code: it names a class or
        function that is none of those which tensors are made of.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            [name] = [each for each in archive.namelist() if each.endswith("/data.pkl")]
            with archive.open(name) as file:
                return _Unpickler(file, archive, name.removesuffix("data.pkl")).load()
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({error}): expected a file of torch.save, PyTorch 1.6 or later."
        ) from error


class _Unpickler(pickle.Unpickler):
    """Makes arrays of tensors, and nothing that it does not know."""

    def __init__(self, file, archive: zipfile.ZipFile, prefix: str):
        super().__init__(file)
        self._archive, self._prefix = archive, prefix

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a name stands for."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("argparse", "Namespace"):
            return _Namespace
        raise UserError(
            f"it would run code: {module}.{name}. Load it where you trust it, and save only its "
            f"weights."
        )

    def persistent_load(self, saved: tuple) -> np.ndarray:
        """Returns the numbers of a storage."""
        kind, storage, key, _, size = saved
        if kind != "storage":
            raise UserError(f"expected storages of tensors, got {kind!r}")
        content = self._archive.read(f"{self._prefix}data/{key}")
        if storage == "BFloat16Storage":
            high = np.frombuffer(content, np.uint16)[:size].astype(np.uint32) << 16
            return high.view(np.float32)
        return np.frombuffer(content, _STORAGES[storage])[:size]


class _Namespace:
    """The settings of a command, as attributes."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)


def _tensor(storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_) -> np.ndarray:
    needed = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    if min((*shape, *strides, 0)) < 0 or offset < 0 or (0 not in shape and needed > len(storage)):
        raise UserError(f"a tensor of shape {list(shape)} is outside of its storage")
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps).copy()
