"""The messages of TensorFlow Serving that a translation needs.

The official classes, in the package tensorflow-serving-api, import TensorFlow. That takes seconds,
and a client does not need it otherwise. The messages here have the same names and field numbers, so
their bytes are the same. As usual in protobuf, unknown fields are skipped.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"

# tensorflow/core/framework/types.proto
_DT_FLOAT, _DT_INT32, _DT_STRING = 1, 3, 7

_PACKAGE = "t2t_keras.serving"
# Message -> (field, number, type); "*" before a type means repeated, and a map is sent as repeated
# entries. From tensorflow_serving/apis/{model,predict,prediction_log,logging}.proto and
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
    "Entry": [("key", 1, "string"), ("value", 2, "TensorProto")],
    "Int64Value": [("value", 1, "int64")],
    "ModelSpec": [
        ("name", 1, "string"),
        ("version", 2, "Int64Value"),
        ("signature_name", 3, "string"),
    ],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "*Entry")],
    "PredictResponse": [("outputs", 1, "*Entry")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictionLog": [("predict_log", 6, "PredictLog")],
}


def _message_classes() -> dict[str, type[Any]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="t2t_keras/serving/messages.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, number, field_type in fields:
            field = message.field.add(name=name, number=number)
            field.label = field.LABEL_REPEATED if field_type[0] == "*" else field.LABEL_OPTIONAL
            field_type = field_type.removeprefix("*")
            if field_type.islower():
                field.type = getattr(field, f"TYPE_{field_type.upper()}")
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{field_type}"
    # A separate pool, as the official messages may be loaded in the same process.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name], pool)


_MESSAGE_CLASSES = _message_classes()
TensorProto = _MESSAGE_CLASSES[f"{_PACKAGE}.TensorProto"]
PredictRequest = _MESSAGE_CLASSES[f"{_PACKAGE}.PredictRequest"]
PredictResponse = _MESSAGE_CLASSES[f"{_PACKAGE}.PredictResponse"]
PredictionLog = _MESSAGE_CLASSES[f"{_PACKAGE}.PredictionLog"]


def predict_request(
    servable_name: str, signature_name: str, version: int | None = None, **inputs: Any
) -> Any:
    """Returns a `PredictRequest` for a version; None = the newest.

    `inputs` are the inputs of the signature by name, as `TensorProto` of this module or of
    TensorFlow.
    """
    request = PredictRequest()
    request.model_spec.name = servable_name
    request.model_spec.signature_name = signature_name
    if version is not None:
        request.model_spec.version.value = version
    for name, tensor in inputs.items():
        request.inputs.add(key=name).value.ParseFromString(tensor.SerializeToString())
    return request


def string_tensor(strings: Sequence[str]) -> Any:
    """Returns strings [B] as a `TensorProto`."""
    tensor = TensorProto(dtype=_DT_STRING, string_val=[text.encode("utf-8") for text in strings])
    tensor.tensor_shape.dim.add(size=len(strings))
    return tensor


def tensor_values(tensor: Any, count: int) -> list[str] | list[float] | list[int]:
    """Returns a `TensorProto`'s `count` strings, float32 or int32; raises ValueError for others.

    Compares the shape with `count` first, as a tensor of a few bytes may claim any size.
    """
    sizes = [dim.size for dim in tensor.tensor_shape.dim[:4]]
    if sizes != [count]:
        raise ValueError(f"expected shape [{count}], got {sizes}")
    if tensor.dtype == _DT_STRING:
        return [text.decode("utf-8") for text in tensor.string_val]
    if tensor.dtype not in (_DT_FLOAT, _DT_INT32):
        raise ValueError(f"expected strings, float32 or int32, got dtype {tensor.dtype}")
    if tensor.tensor_content:
        dtype = "<f4" if tensor.dtype == _DT_FLOAT else "<i4"
        return np.frombuffer(tensor.tensor_content, dtype).tolist()
    values = list(tensor.float_val or tensor.int_val)
    # A `TensorProto` may leave out repetitions of its last value.
    return values + values[-1:] * (count - len(values))
