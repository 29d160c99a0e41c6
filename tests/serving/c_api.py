"""Runs an export through TensorFlow's C API, as a program without Python would.

A process of its own that imports no TensorFlow: it loads the shared libraries of the installed
wheel, TensorFlow Text's operators, then the SavedModel. On standard input it reads JSON,

    {"framework": path, "tensorflow": path, "operators": [path, ...], "model_dir": path,
     "requests": [{"inputs": {tensor name: [dtype, shape, values]},
                   "outputs": [tensor name, ...]}, ...]}

where dtype is "string", "int32" or "float32". It writes for each request the values of each output,
flat, or in their place {"code": number, "message": text} of the error.
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


class FailedError(Exception):
    """A call that did not succeed: its status."""


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
        """Calls a function whose last argument is the status; raises what that says."""
        found = self.call(name, result, *arguments, Pointer(self.status))
        code = self.call("TF_GetCode", ctypes.c_int, Pointer(self.status))
        if code:
            message = self.call("TF_Message", ctypes.c_char_p, Pointer(self.status))
            raise FailedError(code, message.decode())
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


def run(asked: dict) -> list:
    """Returns what each request gives."""
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

    def answer(request):
        inputs, names = request["inputs"], request["outputs"]
        tensors = (Pointer * len(inputs))(*(tensorflow.tensor(*value) for value in inputs.values()))
        results = (Pointer * len(names))()
        try:
            tensorflow.checked(
                "TF_SessionRun",
                None,
                session,
                None,
                outputs(inputs),
                tensors,
                len(inputs),
                outputs(names),
                results,
                len(names),
                None,
                0,
                None,
            )
        except FailedError as failed:
            return dict(zip(("code", "message"), failed.args, strict=True))
        return [tensorflow.values(tensor) for tensor in results]

    return [answer(request) for request in asked["requests"]]


if __name__ == "__main__":
    found = run(json.load(sys.stdin))
    assert not any(name.startswith(("tensorflow", "keras", "t2t_keras")) for name in sys.modules)
    json.dump(found, sys.stdout)
