"""TensorFlow Serving's messages, as far as a translation needs them.

The official classes, of the package tensorflow-serving-api, import TensorFlow, which takes seconds
and which a machine that only asks for translations need not have. Here stand the same messages
with the same names and numbers of fields, so the bytes are the same. Fields that are not declared
here are skipped when they are read, as protobuf does with all fields it does not know.
"""

import struct
from collections.abc import Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# tensorflow/core/framework/types.proto
DT_FLOAT, DT_INT32, DT_STRING = 1, 3, 7

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"

_PACKAGE = "t2t_keras.serving"
_KINDS = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}
# Message -> (field, number, kind); "*" before a kind: any number of them; "map" to a message: keys
# are strings. From tensorflow_serving/apis/{model,predict,prediction_log,logging}.proto and
# tensorflow/core/framework/{tensor,tensor_shape}.proto.
_MESSAGES = {
    "Dim": [("size", 1, "int64")],
    "TensorShapeProto": [("dim", 2, "*Dim")],
    "TensorProto": [
        ("dtype", 1, "int32"),
        ("tensor_shape", 2, "TensorShapeProto"),
        ("tensor_content", 4, "bytes"),
        ("float_val", 5, "*float"),
        ("int_val", 7, "*int32"),
        ("string_val", 8, "*bytes"),
    ],
    "Int64Value": [("value", 1, "int64")],
    "ModelSpec": [
        ("name", 1, "string"),
        ("version", 2, "Int64Value"),
        ("signature_name", 3, "string"),
    ],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "map TensorProto")],
    "PredictResponse": [("outputs", 1, "map TensorProto"), ("model_spec", 2, "ModelSpec")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictionLog": [("predict_log", 6, "PredictLog")],
}


def _field(message, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    repeated = kind.startswith(("*", "map "))
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind.startswith("map "):
        entry_name = f"{name.title()}Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _field(entry, "key", 1, "string")
        _field(entry, "value", 2, kind.removeprefix("map "))
        kind = f"{message.name}.{entry_name}"
    kind = kind.removeprefix("*")
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _classes() -> dict[str, type]:
    file = descriptor_pb2.FileDescriptorProto(
        name="t2t_keras/serving/messages.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _field(message, *field)
    # A pool of its own: the official messages may be in the same process.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _classes()
TensorProto = _CLASSES["TensorProto"]
PredictRequest = _CLASSES["PredictRequest"]
PredictResponse = _CLASSES["PredictResponse"]
PredictionLog = _CLASSES["PredictionLog"]


def predict_request(servable_name: str, signature_name: str, version: int | None = None, **inputs):
    """Returns a `PredictRequest`.

    Args:
      servable_name: the model's name in the server.
      signature_name: which of its signatures.
      version: of the model; None = the newest.
      **inputs: a `TensorProto` for each input of the signature.
    """
    request = PredictRequest()
    request.model_spec.name = servable_name
    request.model_spec.signature_name = signature_name
    if version is not None:
        request.model_spec.version.value = version
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tensor)
    return request


def string_tensor(strings: Sequence[str]):
    """Returns strings [B] as a `TensorProto`."""
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode("utf-8") for text in strings])
    tensor.tensor_shape.dim.add(size=len(strings))
    return tensor


def int_tensor(rows: Sequence[Sequence[int]]):
    """Returns rows of equal length, int32 [B, L], as a `TensorProto`."""
    tensor = TensorProto(dtype=DT_INT32, int_val=[i for row in rows for i in row])
    tensor.tensor_shape.dim.add(size=len(rows))
    tensor.tensor_shape.dim.add(size=len(rows[0]))
    return tensor


def float_tensor(number: float):
    """Returns a number, float32 [], as a `TensorProto`."""
    tensor = TensorProto(dtype=DT_FLOAT, float_val=[number])
    # Without dimensions, but said to be so.
    tensor.tensor_shape.SetInParent()
    return tensor


def read_strings(tensor) -> list[str]:
    """Returns the strings of a `TensorProto` [B].

    Raises:
      ValueError: it holds something else.
    """
    if tensor.dtype != DT_STRING or len(tensor.tensor_shape.dim) != 1:
        raise ValueError(f"dtype {tensor.dtype} with {len(tensor.tensor_shape.dim)} dimensions")
    return [text.decode("utf-8") for text in tensor.string_val]


def read_floats(tensor) -> list[float]:
    """Returns the numbers of a `TensorProto`, float32 [B].

    Raises:
      ValueError: it holds something else.
    """
    return _read_numbers(tensor, DT_FLOAT, tensor.float_val, "f")


def read_ints(tensor) -> list[int]:
    """Returns the numbers of a `TensorProto`, int32 [B].

    Raises:
      ValueError: it holds something else.
    """
    return _read_numbers(tensor, DT_INT32, tensor.int_val, "i")


def _read_numbers(tensor, dtype: int, field: Sequence, letter: str) -> list:
    """Returns numbers of 4 bytes, `letter` to the module struct, from where they stand."""
    if tensor.dtype != dtype or len(tensor.tensor_shape.dim) != 1:
        raise ValueError(f"dtype {tensor.dtype} with {len(tensor.tensor_shape.dim)} dimensions")
    size = tensor.tensor_shape.dim[0].size
    if tensor.tensor_content:
        if len(tensor.tensor_content) != 4 * size:
            raise ValueError(f"{len(tensor.tensor_content)} bytes for {size} numbers")
        return list(struct.unpack(f"<{size}{letter}", tensor.tensor_content))
    values = list(field)
    # The last one stands for all that follow it.
    return values + values[-1:] * (size - len(values))
