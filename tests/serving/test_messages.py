"""The messages are TensorFlow Serving's own, by its official classes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from t2t_keras.serving import messages
from t2t_keras.serving.warmup import WARMUP_FILE

TEXTS = ["a dog", "ü 🐈", ""]


def test_requests_are_read_by_the_official_class():
    inputs = {
        "text": messages.string_tensor(TEXTS),
        "ids": messages.int_tensor([[3, 1], [4, -1]]),
        "alpha": messages.float_tensor(0.5),
    }
    made = messages.predict_request("translate", "nbest", 7, **inputs)
    read = predict_pb2.PredictRequest.FromString(made.SerializeToString())
    assert (read.model_spec.name, read.model_spec.signature_name) == ("translate", "nbest")
    assert read.model_spec.version.value == 7
    assert not read.model_spec.HasField("version_label")
    texts = tf.make_ndarray(read.inputs["text"])
    assert [text.decode() for text in texts.tolist()] == TEXTS
    assert tf.make_ndarray(read.inputs["ids"]).tolist() == [[3, 1], [4, -1]]
    assert tf.make_ndarray(read.inputs["alpha"]) == np.float32(0.5)
    newest = messages.predict_request("translate", "serving_default")
    read = predict_pb2.PredictRequest.FromString(newest.SerializeToString())
    assert not read.model_spec.HasField("version")


@pytest.mark.parametrize("as_content", [True, False])
def test_answers_of_the_official_class_are_read(as_content):
    scores = np.array([-0.5, -1.25, -1.25], np.float32)
    made = predict_pb2.PredictResponse()
    made.outputs["translation"].CopyFrom(tf.make_tensor_proto(TEXTS))
    made.outputs["score"].CopyFrom(tf.make_tensor_proto(scores))
    if not as_content:
        made.outputs["score"].tensor_content = b""
        # The last value stands for the rest.
        made.outputs["score"].float_val.extend([-0.5, -1.25])
    made.outputs["cut"].CopyFrom(tf.make_tensor_proto([0, 7, 7], tf.int32))
    made.model_spec.version.value = 3
    read = messages.PredictResponse.FromString(made.SerializeToString())
    assert messages.read_strings(read.outputs["translation"]) == TEXTS
    assert messages.read_floats(read.outputs["score"]) == scores.tolist()
    assert messages.read_ints(read.outputs["cut"]) == [0, 7, 7]
    for wrong in (messages.read_strings, messages.read_floats):
        with pytest.raises(ValueError, match="dtype 3 with 2 dimensions"):
            wrong(messages.int_tensor([[1]]))


def test_the_export_holds_warmup_requests_that_the_official_class_reads(exported, loaded):
    records = list(tf.data.TFRecordDataset(str(exported / WARMUP_FILE)).as_numpy_iterator())
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    assert {log.WhichOneof("log_type") for log in logs} == {"predict_log"}
    requests = [log.predict_log.request for log in logs]
    assert 4 <= len(requests) <= 1000  # TensorFlow Serving takes no more
    assert {request.model_spec.signature_name for request in requests} == set(loaded.signatures)
    shapes = set()
    for request in requests:
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        outputs = loaded.signatures[request.model_spec.signature_name](
            **{name: tf.constant(array) for name, array in inputs.items()}
        )
        (texts,) = (inputs[name] for name in ("text", "ids") if name in inputs)
        assert all(len(output) == len(texts) for output in outputs.values())
        if request.model_spec.signature_name == "serving_default":
            shapes.add((len(texts), max(len(text.split()) for text in texts) > 1))
    # One and several sentences, and nothing but a blank one.
    assert {(1, True), (8, True), (1, False)} <= shapes
