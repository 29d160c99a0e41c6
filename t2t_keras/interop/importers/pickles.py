"""Reads pickles of tensors and settings without importing or calling what they name."""

import dataclasses
import math
import pickletools
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.io.terminal import printable

# Real settings stay far below both limits.
_MAX_DEPTH = 64
_MAX_NODES = 1_000_000

# NumPy's type for each class of PyTorch storage.
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
# Objects from these packages are settings or training state; they become `Attributes`.
_HARMLESS_PACKAGES = ("_codecs", "argparse", "fairseq", "numpy", "omegaconf", "typing")
_BUILT_IN_NAMES = {"bool", "bytes", "dict", "float", "int", "list", "long", "set", "str", "tuple"}
# The file of a large model with its optimizer has 50,000 operations.
_MAX_OPERATIONS = 2_000_000
# Maximum ratio of numbers in tensors to stored numbers, which tied embeddings share.
_MAX_SHARING = 16
_MARK = object()


class Attributes:
    """The state of an object whose class is not loaded."""


def to_containers(settings: Any, origin: str) -> Any:
    """Converts settings, objects of any kind, to dictionaries and lists.

    Raises:
      UserError: there are too many settings, or they contain themselves.
    """
    return _to_containers(settings, TreeBound(origin), 0)


class TreeBound:
    """Counts the values of nested settings as a tree: a shared value counts each time.

    Forty lists that each hold the next list twice take little memory, but a walk through them
    never ends.
    """

    def __init__(self, origin: str):
        self._origin, self._nodes = origin, 0

    def check(self, depth: int) -> None:
        """Counts one more value; raises `UserError` for too many values, or one nested too deep."""
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise UserError(
                f"{self._origin}: expected at most {_MAX_NODES:,} values, nested at most "
                f"{_MAX_DEPTH} deep, got more. Save the settings without the nested ones.",
                code="too_many_values",
            )


def _to_containers(settings: Any, limit: TreeBound, depth: int) -> Any:
    limit.check(depth)
    if isinstance(settings, Attributes):
        state = vars(settings)
        # omegaconf's nodes hold their content in an attribute; a Namespace, in all attributes.
        return _to_containers(state.get("_content", state.get("_val", state)), limit, depth + 1)
    if isinstance(settings, Mapping):
        return {name: _to_containers(value, limit, depth + 1) for name, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return type(settings)(_to_containers(value, limit, depth + 1) for value in settings)
    return settings


@dataclasses.dataclass(frozen=True)
class _Name:
    """The name of a class or function, which is never loaded."""

    module: str
    name: str


@dataclasses.dataclass(frozen=True)
class _Storage:
    """The numbers of one or several tensors. Only a persistent id creates a storage."""

    values: np.ndarray


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _is_shape(value: Any) -> bool:
    return type(value) is tuple and len(value) <= 8 and all(map(_is_size, value))


def _is_key(value: Any) -> bool:
    # Hashing recurses into nested tuples without a bound, and tuples do not cache their hash.
    if type(value) is tuple and len(value) <= 8:
        return all(type(part) is not tuple and _is_key(part) for part in value)
    if type(value) is int:
        return value.bit_length() <= 64
    return type(value) in (str, bytes, float, bool, type(None))


class TensorPickle:
    """Unpickles containers, numbers, strings, and tensors, which become arrays.

    `_CALLS` has substitutes for known classes and functions, and checks of their operands. An
    object of any other class becomes `Attributes` with its state.

    Args:
      read_storage: takes a storage's key, type and size; returns its numbers.

    Attributes:
      storages: the array of each storage, by the storage's key.
    """

    def __init__(self, read_storage: Callable[[str, Any, int], np.ndarray]):
        self._read_storage = read_storage
        self.storages: dict[str, np.ndarray] = {}
        self._operations_left = _MAX_OPERATIONS
        self._num_stored = self._num_in_tensors = 0

    def load(self, file: BinaryIO) -> Any:
        """Returns the next object of a file.

        Raises:
          UserError: the object names something that might run code, or has too many parts.
          Exception: the file is damaged. The exception may be of any class.
        """
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        for operation, argument, _ in pickletools.genops(file):
            self._spend(1)
            if operation.name in _LITERALS:
                self._stack.append(argument)
            elif action := _ACTIONS.get(operation.name):
                action(self, argument)
            else:
                raise UserError(
                    f"torch.save does not write the operation {operation.name}", code="bad_operands"
                )
        return self._pop()

    def _spend(self, operations: int) -> None:
        self._operations_left -= operations
        if self._operations_left < 0:
            raise UserError(
                f"expected at most {_MAX_OPERATIONS:,} parts, got more", code="too_many_values"
            )

    def _pop(self, *kinds: type) -> Any:
        """Pops a value and checks that it has one of the kinds."""
        value = self._stack.pop()
        if value is _MARK or (kinds and type(value) not in kinds):
            raise UserError(
                f"expected {kinds[0].__name__ if kinds else 'a value'}, got something else",
                code="bad_operands",
            )
        return value

    def _pop_to_mark(self) -> list[Any]:
        # Search from the end: searching from the start would take quadratic time.
        values = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _push_tuple(self, count: int) -> None:
        self._stack.append(tuple(reversed([self._pop() for _ in range(count)])))

    def _extend_list(self, values: list[Any]) -> None:
        container = self._pop(list)
        container.extend(values)
        self._stack.append(container)

    def _set_items(self, values: list[Any]) -> None:
        container = self._pop(dict)
        for name, value in zip(values[::2], values[1::2], strict=True):
            if not _is_key(name):
                raise UserError(
                    f"expected strings or numbers as dictionary keys, got {type(name).__name__}",
                    code="bad_operands",
                )
            if type(name) is tuple:  # Any number of tuples can share one hash.
                self._spend(len(container))
            container[name] = value
        self._stack.append(container)

    def _memoize(self, number: int | None) -> None:
        self._memo[len(self._memo) if number is None else number] = self._stack[-1]

    def _push_name(self, module: str, name: str) -> None:
        is_known = (module, name) in _CALLS or (module == "torch" and name in _STORAGES)
        is_built_in = module in ("__builtin__", "builtins") and name in _BUILT_IN_NAMES
        if not is_known and not is_built_in and module.partition(".")[0] not in _HARMLESS_PACKAGES:
            raise UserError(
                f"it contains {printable(f'{module}.{name}', 100)}, which is not a tensor and "
                f"might run code. If you trust the file, load it in its toolkit, and save only the "
                f"weights, and the settings as a dictionary.",
                code="might_run_code",
            )
        self._stack.append(_Name(module, name))

    def _call(self) -> None:
        operands, name = self._pop(tuple), self._pop(_Name)
        if (entry := _CALLS.get((name.module, name.name))) is None:
            self._stack.append(Attributes())
            return
        checks, build = entry
        if len(operands) < len(checks) or not all(
            check(operand) for check, operand in zip(checks, operands, strict=False)
        ):
            raise UserError(
                f"{name.module}.{name.name} has operands that torch.save does not write",
                code="bad_operands",
            )
        self._stack.append(build(self, *operands))

    def _build(self) -> None:
        state, container = self._pop(), self._pop(Attributes, dict)
        # An OrderedDict's state only holds version numbers of modules.
        if type(container) is Attributes and type(state) is dict:
            self._spend(len(state))
            vars(container).update(state)
        self._stack.append(container)

    def _push_storage(self) -> None:
        persistent_id = self._pop(tuple)
        kind, storage, key, _, size, *view = persistent_id
        if (
            kind != "storage"
            or any(part is not None for part in view)
            or not (type(storage) is _Name and storage.module == "torch")
            or storage.name not in _STORAGES
            or not (type(key) is str and _is_size(size))
        ):
            raise UserError("expected a tensor's storage, got something else", code="bad_operands")
        if key not in self.storages:
            self.storages[key] = self._read_storage(key, np.dtype(_STORAGES[storage.name]), size)
            self._num_stored += len(self.storages[key])
        self._stack.append(_Storage(self.storages[key]))

    def _make_dict(self, *pairs: Any) -> dict:
        # Python 2 passes pairs as lists or tuples; Python 3 sets the items later.
        self._stack.append({})
        for items in pairs:
            self._spend(len(items))
            self._set_items([part for name, value in items for part in (name, value)])
        return self._stack.pop()

    def _view(self, storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: Any) -> Any:
        """Returns an array on a storage, even if the storage's numbers are not read yet."""
        values, size = storage.values, math.prod(shape)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if size and last >= len(values):
            raise UserError(
                f"a tensor of shape {list(shape)} is outside of its storage", code="damaged_file"
            )
        self._num_in_tensors += size
        if size > len(values) or self._num_in_tensors > _MAX_SHARING * self._num_stored:
            raise UserError(
                f"a tensor of shape {list(shape)} has more numbers than the file",
                code="too_many_values",
            )
        if not size:
            return np.zeros(shape, values.dtype)
        steps = [step * values.itemsize for step in strides]
        return np.lib.stride_tricks.as_strided(values[offset:], shape, steps)


def _is_a(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


# By module and name: checks of the first operands, and the function that builds the value.
_CALLS: dict[tuple[str, str], tuple[tuple, Callable[..., Any]]] = {
    ("collections", "OrderedDict"): ((), TensorPickle._make_dict),
    ("collections", "defaultdict"): ((), lambda machine, *_: {}),
    ("torch._utils", "_rebuild_tensor_v2"): (
        (_is_a(_Storage), _is_size, _is_shape, _is_shape),
        TensorPickle._view,
    ),
    ("torch._utils", "_rebuild_parameter"): ((_is_a(np.ndarray),), lambda machine, data, *_: data),
}
# Operations that put their argument on the stack.
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}


def _push(make: Callable[[TensorPickle], Any]) -> Callable[[TensorPickle, Any], None]:
    return lambda machine, argument: machine._stack.append(make(machine))


# Actions of all other operations; each takes the unpickler and the operation's argument.
_ACTIONS: dict[str, Callable[[TensorPickle, Any], Any]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, argument: None),
    "NONE": _push(lambda machine: None),
    "NEWTRUE": _push(lambda machine: True),
    "NEWFALSE": _push(lambda machine: False),
    "MARK": _push(lambda machine: _MARK),
    "EMPTY_TUPLE": _push(lambda machine: ()),
    "EMPTY_DICT": _push(lambda machine: {}),
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_SET"), _push(lambda machine: [])),
    **dict.fromkeys(("TUPLE", "FROZENSET"), _push(lambda machine: tuple(machine._pop_to_mark()))),
    "TUPLE1": lambda machine, _: machine._push_tuple(1),
    "TUPLE2": lambda machine, _: machine._push_tuple(2),
    "TUPLE3": lambda machine, _: machine._push_tuple(3),
    "APPEND": lambda machine, _: machine._extend_list([machine._pop()]),
    **dict.fromkeys(
        ("APPENDS", "ADDITEMS"), lambda machine, _: machine._extend_list(machine._pop_to_mark())
    ),
    "SETITEM": lambda machine, _: machine._set_items([machine._pop(), machine._pop()][::-1]),
    "SETITEMS": lambda machine, _: machine._set_items(machine._pop_to_mark()),
    "POP": lambda machine, _: machine._stack.pop(),
    "POP_MARK": lambda machine, _: machine._pop_to_mark(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, i: machine._memoize(i)),
    "MEMOIZE": lambda machine, _: machine._memoize(None),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda machine, i: machine._stack.append(machine._memo[i])
    ),
    "GLOBAL": lambda machine, name: machine._push_name(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine._push_name(
        *[machine._pop(str) for _ in range(2)][::-1]
    ),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda machine, _: machine._call()),
    "BUILD": lambda machine, _: machine._build(),
    "BINPERSID": lambda machine, _: machine._push_storage(),
}
