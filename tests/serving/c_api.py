"""Runs an export through TensorFlow's C API, as a program without Python would.

A process of its own that imports no TensorFlow: it loads the shared libraries of the installed
wheel, TensorFlow Text's operators, then the SavedModel. On standard input it reads JSON,

    {"framework": path, "tensorflow": path, "operators": [path, ...], "model_dir": path,
     "inputs": {tensor name: [dtype, shape, values]}, "outputs": [tensor name, ...]}

where dtype is "string", "int32" or "float32", and writes [values, ...] of the outputs, flat.
"""

import ctypes
import json
import sys

DTYPES = {"float32": (1, ctypes.c_float), "int32": (3, ctypes.c_int32), "string": (7, None)}
KINDS = dict(DTYPES.values())
STRING_BYTES = 24  # sizeof(TF_TString), tensorflow/c/tf_tstring.h

Pointer = ctypes.c_void_p


class Output(ctypes.Structure):
    """TF_Output."""

    _fields_ = (("operation", Pointer), ("index", ctypes.c_int))


class TensorFlow:
    """The functions of the C API that running a SavedModel takes."""

    def __init__(self, framework: str, tensorflow: str):
        # Global, so that the operators' libraries find what they need.
        libraries = [ctypes.CDLL(path, ctypes.RTLD_GLOBAL) for path in (framework, tensorflow)]
        self._libraries = libraries[::-1]
        self.status = self.call("TF_NewStatus", Pointer)

    def call(self, name: str, result, *arguments):
        """Calls a function with arguments that are ctypes' own."""
        for library in self._libraries:
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = result
                return function(*arguments)
        raise AttributeError(f"the wheel's libraries have no {name}")

    def checked(self, name: str, result, *arguments):
        """Calls a function whose last argument is the status, and ends with its message."""
        found = self.call(name, result, *arguments, Pointer(self.status))
        code = self.call("TF_GetCode", ctypes.c_int, Pointer(self.status))
        if code:
            message = self.call("TF_Message", ctypes.c_char_p, Pointer(self.status))
            sys.exit(f"{name}: code {code}: {message.decode()}")
        return found

    def tensor(self, dtype: str, shape: list[int], values: list):
        """Returns a TF_Tensor."""
        number, ctype = DTYPES[dtype]
        bytes_each = STRING_BYTES if ctype is None else ctypes.sizeof(ctype)
        dims = (ctypes.c_int64 * len(shape))(*shape)
        size = ctypes.c_size_t(bytes_each * len(values))
        tensor = self.call("TF_AllocateTensor", Pointer, number, dims, len(shape), size)
        data = self.call("TF_TensorData", Pointer, Pointer(tensor))
        for i, value in enumerate(values):
            place = Pointer((data or 0) + i * bytes_each)
            if ctype is None:
                content = value.encode("utf-8")
                self.call("TF_StringInit", None, place)
                length = ctypes.c_size_t(len(content))
                self.call("TF_StringCopy", None, place, ctypes.c_char_p(content), length)
            else:
                ctypes.cast(place, ctypes.POINTER(ctype))[0] = value
        return tensor

    def values(self, tensor) -> list:
        """Returns what is in a TF_Tensor, flat."""
        ctype = KINDS[self.call("TF_TensorType", ctypes.c_int, Pointer(tensor))]
        count = self.call("TF_TensorElementCount", ctypes.c_int64, Pointer(tensor))
        data = self.call("TF_TensorData", Pointer, Pointer(tensor))
        if ctype is not None:
            return list(ctypes.cast(data, ctypes.POINTER(ctype))[:count])
        texts = []
        for i in range(count):
            place = Pointer(data + i * STRING_BYTES)
            length = self.call("TF_StringGetSize", ctypes.c_size_t, place)
            start = self.call("TF_StringGetDataPointer", Pointer, place)
            texts.append(ctypes.string_at(start, length).decode("utf-8"))
        return texts


def run(asked: dict) -> list[list]:
    """Returns the values of the outputs."""
    tensorflow = TensorFlow(asked["framework"], asked["tensorflow"])
    for path in asked["operators"]:
        tensorflow.checked("TF_LoadLibrary", Pointer, ctypes.c_char_p(path.encode()))
    graph = Pointer(tensorflow.call("TF_NewGraph", Pointer))
    session = Pointer(
        tensorflow.checked(
            "TF_LoadSessionFromSavedModel",
            Pointer,
            Pointer(tensorflow.call("TF_NewSessionOptions", Pointer)),
            None,
            ctypes.c_char_p(asked["model_dir"].encode()),
            (ctypes.c_char_p * 1)(b"serve"),
            1,
            graph,
            None,
        )
    )

    def outputs(names):
        found = []
        for name in names:
            operation, _, index = name.partition(":")
            pointer = tensorflow.call(
                "TF_GraphOperationByName", Pointer, graph, ctypes.c_char_p(operation.encode())
            )
            assert pointer, f"the graph has no {operation}"
            found.append(Output(pointer, int(index)))
        return (Output * len(found))(*found)

    inputs = asked["inputs"]
    tensors = (Pointer * len(inputs))(*(tensorflow.tensor(*value) for value in inputs.values()))
    results = (Pointer * len(asked["outputs"]))()
    tensorflow.checked(
        "TF_SessionRun",
        None,
        session,
        None,
        outputs(inputs),
        tensors,
        len(inputs),
        outputs(asked["outputs"]),
        results,
        len(asked["outputs"]),
        None,
        0,
        None,
    )
    return [tensorflow.values(tensor) for tensor in results]


if __name__ == "__main__":
    found = run(json.load(sys.stdin))
    assert not any(name.startswith(("tensorflow", "keras", "t2t_keras")) for name in sys.modules)
    json.dump(found, sys.stdout)
