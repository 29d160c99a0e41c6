"""Files of tensors, read without running the code that they may name."""

import collections
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from t2t_keras.errors import UserError

# PyTorch's kinds of storage.
_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


def read_weights(folder: Path, *files: str) -> dict[str, np.ndarray]:
    """Reads the first of some files that is there, as float32: `.safetensors` or PyTorch's.

    Raises:
      UserError: none is there, it is damaged, or it would run code.
    """
    path = next((folder / file for file in files if (folder / file).exists()), None)
    if path is None:
        raise UserError(f"{folder}: expected {' or '.join(files)}.")
    found = _read_safetensors(path) if path.suffix == ".safetensors" else read_pytorch(path)
    if not isinstance(found, Mapping):
        raise UserError(f"{path}: expected tensors with their names, got {type(found).__name__}.")
    for name, value in found.items():
        if not isinstance(value, np.ndarray):
            raise UserError(
                f"{path}: expected only tensors, got {type(value).__name__} as {name}. Save the "
                f"weights alone, as of `model.state_dict()`."
            )
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


def _read_safetensors(path: Path) -> Mapping[str, np.ndarray]:
    try:
        from safetensors.numpy import load_file  # With ml_dtypes, also of bfloat16.
    except ModuleNotFoundError as error:
        raise UserError(
            f"{path} needs safetensors, which is not installed: pip install 't2t-keras[import]'"
        ) from error
    try:
        return load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read: {error}") from error


# The first pickle of a file of PyTorch before 1.6.
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
# Packages of settings and of a training's state: what they name is read as `Attributes`.
_HARMLESS = ("_codecs", "argparse", "fairseq", "numpy", "omegaconf", "typing")
_BUILT_IN = {"bool", "bytes", "dict", "float", "int", "list", "long", "set", "str", "tuple"}


def read_pytorch(path: str | Path) -> Any:
    """Reads what `torch.save` wrote: containers, numbers, texts and tensors, which become arrays.

    Other objects, as those of argparse and omegaconf that hold settings, become `Attributes`.

    Raises:
      UserError: the file is damaged, or would run code: it names a class or function that is none
        of those which tensors and settings are made of.
    """
    try:
        with Path(path).open("rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return _read_old(file)
            with zipfile.ZipFile(file) as archive:
                [name] = [each for each in archive.namelist() if each.endswith("/data.pkl")]
                with archive.open(name) as pickled:
                    return _Unpickler(pickled, archive, name.removesuffix("data.pkl")).load()
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({error}): expected a file of torch.save."
        ) from error


def _read_old(file: BinaryIO) -> Any:
    """Reads the format before PyTorch 1.6: pickles, and behind them what is in the storages."""
    if _Unpickler(file).load() != _OLD_MAGIC:
        raise UserError("expected a file of torch.save")
    _Unpickler(file).load()  # The version of the format.
    _Unpickler(file).load()  # The sizes of C's types.
    unpickler = _Unpickler(file)
    found = unpickler.load()
    for key in _Unpickler(file).load():
        storage = unpickler.storages[key]
        if int.from_bytes(file.read(8), "little") != len(storage):
            raise UserError(f"the storage {key} has another size than its tensors say")
        if file.readinto(storage.view(np.uint8)) != storage.nbytes:
            raise UserError("the file is not complete")
    return found


class Attributes:
    """The state of an object whose class is not loaded."""

    def __new__(cls, *_args, **_options):
        """Ignores what the class itself would be given."""
        return super().__new__(cls)

    def __init__(self, *_args, **_options):
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, Mapping):
            vars(self).update(state)


def plain(settings: Any) -> Any:
    """Returns settings as dictionaries and lists, whatever kinds of objects hold them."""
    if isinstance(settings, Attributes):
        state = vars(settings)
        # omegaconf's nodes have one of these; a Namespace has the settings themselves.
        return plain(state.get("_content", state.get("_val", state)))
    if isinstance(settings, Mapping):
        return {name: plain(value) for name, value in settings.items()}
    return [plain(each) for each in settings] if isinstance(settings, list) else settings


class _Unpickler(pickle.Unpickler):
    """Makes arrays of tensors, and nothing that it does not know.

    Args:
      file: the pickle.
      archive: where the storages are; None = they are not there yet, and filled in later.
      prefix: of the names in the archive.

    Attributes:
      storages: arrays by their keys.
    """

    def __init__(self, file, archive: zipfile.ZipFile | None = None, prefix: str = ""):
        super().__init__(file)
        self._archive, self._prefix = archive, prefix
        self.storages: dict[str, np.ndarray] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a name stands for."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("collections", "defaultdict"):
            return lambda *_: {}
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in _STORAGES:
            return name
        built_in = module in ("__builtin__", "builtins") and name in _BUILT_IN
        if built_in or module.partition(".")[0] in _HARMLESS:
            return Attributes
        raise UserError(
            f"it has {module}.{name}, which is no tensor and might run code. Load it where you "
            f"trust it, and save again only its weights, and its settings as a dictionary."
        )

    def persistent_load(self, saved: tuple) -> np.ndarray:
        """Returns the numbers of a storage."""
        kind, storage, key, _, size, *view = saved
        if kind != "storage" or any(view):
            raise UserError(f"expected storages of tensors, got {kind!r}")
        if key not in self.storages:
            self.storages[key] = self._storage(storage, key, size)
        return self.storages[key]

    def _storage(self, kind: str, key: str, size: int) -> np.ndarray:
        if not self._archive:
            return np.zeros(size, _STORAGES[kind])
        content = self._archive.read(f"{self._prefix}data/{key}")
        return np.frombuffer(content, _STORAGES[kind])[:size]


def _tensor(storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_) -> np.ndarray:
    needed = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    if min((*shape, *strides, 0)) < 0 or offset < 0 or (0 not in shape and needed > len(storage)):
        raise UserError(f"a tensor of shape {list(shape)} is outside of its storage")
    steps = [step * storage.itemsize for step in strides]
    # A view: numbers may still be to come.
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
