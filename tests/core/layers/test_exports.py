"""Layers in the formats that Keras exports to: the same numbers, for lengths that are not known."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import (
    MultiHeadAttention,
    ParameterAttention,
    RestrictedSelfAttention,
    SharedEmbedding,
    SinusoidalPositions,
    TransformerEncoder,
)

IDS = np.array([[3, 2, 1, 4, 0, 0]], np.int32)


def make_model(length=None):
    ids = keras.Input((length,), dtype="int32")
    embedding = SharedEmbedding(9, 8)
    x = SinusoidalPositions()(embedding(ids))
    x = TransformerEncoder(16, 2)(x)
    x = RestrictedSelfAttention(1, 2, 4)(x)
    x = MultiHeadAttention(2, 4, rotary=True)(x)
    x = ParameterAttention(2, 6, 3)(x)
    return keras.Model(ids, embedding(x, reverse=True))


@pytest.mark.slow
def test_litert_with_built_in_operators(tmp_path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    model, path = make_model(IDS.shape[1]), str(tmp_path / "model.tflite")
    model.export(path, format="litert", verbose=False)
    converted = interpreter.Interpreter(model_path=path)
    converted.allocate_tensors()
    converted.set_tensor(converted.get_input_details()[0]["index"], IDS)
    converted.invoke()
    actual = converted.get_tensor(converted.get_output_details()[0]["index"])
    np.testing.assert_allclose(actual, model(IDS), atol=1e-5)
    names = {operator["op_name"] for operator in converted._get_ops_details()}
    assert not [name for name in names if name.startswith("Flex")]


def test_an_archive(tmp_path):
    model, archive = make_model(), keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec([None, None], tf.int32)]
    archive.add_endpoint("serve", model.call, input_signature=signature)
    archive.write_out(str(tmp_path / "model"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    for ids in (IDS, IDS[:, :3]):
        np.testing.assert_allclose(loaded.serve(ids), model(ids), atol=1e-5)
