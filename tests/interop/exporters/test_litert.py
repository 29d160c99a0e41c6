"""LiteRT's file decodes greedily, without TensorFlow's operators."""

import greedy_exports
import numpy as np
import pytest

from t2t_keras.serving.formats import write_format

_REASON = "the extra litert is not installed"
litert = pytest.importorskip("ai_edge_litert.interpreter", reason=_REASON)


@pytest.mark.parametrize(
    ("variant", "dtype"), [("rotary", "float32"), ("paper", "float16"), ("parameters", "int8")]
)
def test_ids_are_those_of_greedy_decoding(variant, dtype, tmp_path):
    translator = greedy_exports.translator(variant)
    folder = write_format("litert", translator, tmp_path / "litert", dtype)
    layers = translator.models[0]._flatten_layers()
    assert {getattr(layer, "table_length", 0) for layer in layers} == {0}, "as before"
    interpreter = litert.Interpreter(str(folder / "model.tflite"))
    stored = {np.dtype(tensor["dtype"]).name for tensor in interpreter.get_tensor_details()}
    assert {"float16", "int8"} & stored == {dtype} - {"float32"}
    decode = interpreter.get_signature_runner()
    near = []
    for row in greedy_exports.inputs(translator):
        source = row[None, row > 0]
        translation = decode(ids=source)["translation"]
        near += [*(translation == greedy_exports.greedy_ids(translator, source, translation))[0]]
    # The weights are random, and symbols nearly alike.
    assert np.mean(near) > {"float32": 0.9999, "float16": 0.9, "int8": 0.25}[dtype]
    for blank in ([[0, 0, 0]], [[1]]):
        np.testing.assert_array_equal(decode(ids=np.array(blank, np.int32))["translation"], [[1]])
    for unknown in (-5, translator.tokenizer.source.vocab_size):
        with pytest.raises((RuntimeError, ValueError)):
            decode(ids=np.array([[5, unknown, 1]], np.int32))
