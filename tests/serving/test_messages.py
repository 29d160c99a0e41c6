"""The messages are TensorFlow Serving's own, by its official classes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving import messages

TEXTS = ["a dog", "ü 🐈", ""]


def test_requests_are_read_by_the_official_class():
    made = messages.predict_request(
        "translate", "nbest", 7, text=messages.string_tensor(TEXTS), alpha=tf.make_tensor_proto(0.5)
    )
    read = predict_pb2.PredictRequest.FromString(made.SerializeToString())
    assert (read.model_spec.name, read.model_spec.signature_name) == ("translate", "nbest")
    assert read.model_spec.version.value == 7
    assert not read.model_spec.HasField("version_label")
    texts = tf.make_ndarray(read.inputs["text"])
    assert [text.decode() for text in texts.tolist()] == TEXTS
    assert tf.make_ndarray(read.inputs["alpha"]) == np.float32(0.5)
    newest = messages.predict_request("translate", "serving_default")
    read = predict_pb2.PredictRequest.FromString(newest.SerializeToString())
    assert not read.model_spec.HasField("version")


@pytest.mark.parametrize("as_content", [True, False])
def test_replies_of_the_official_class_are_read(as_content):
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
    values = {each.key: messages.tensor_values(each.value, 3) for each in read.outputs}
    assert values == {"translation": TEXTS, "score": scores.tolist(), "cut": [0, 7, 7]}
