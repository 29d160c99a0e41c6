"""ONNX's file decodes greedily, with each setting that shapes a model."""

import dataclasses
import logging
import sys

import greedy_exports
import numpy as np
import pytest
from refusals import refused

from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.serving.formats import write_format

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")

_KNOWN = [name for name in greedy_exports.VARIANTS if name != "parameters"]


def decoded(folder, ids):
    [outputs] = onnxruntime.InferenceSession(folder / "model.onnx").run(None, {"ids": ids})
    return outputs


@pytest.mark.parametrize("variant", _KNOWN)
def test_ids_are_those_of_greedy_decoding(variant, tmp_path):
    translator = greedy_exports.translator(variant)
    source = greedy_exports.inputs(translator)
    folder = write_format("onnx", translator, tmp_path / "onnx", "float32")
    actual = decoded(folder, source)
    np.testing.assert_array_equal(actual, greedy_exports.greedy_ids(translator, source, actual))
    assert actual[:, -1].any(), "no step more than the longest output needs"
    assert len({tuple(row) for row in actual}) > 3
    for blank in ([[0, 0, 0]], [[1]], [[1, 0]]):
        np.testing.assert_array_equal(decoded(folder, np.array(blank, np.int32)), [[1]])
    assert decoded(folder, np.zeros((0, 3), np.int32)).shape[0] == 0
    assert decoded(folder, np.zeros((0, 0), np.int32)).shape[0] == 0
    for unknown in (-1, -5, translator.tokenizer.source.vocab_size):
        with pytest.raises(Exception, match="out of data bounds"):
            decoded(folder, np.array([[5, unknown, 1]], np.int32))


def test_no_setting_is_forgotten():
    """One that is new needs its nodes, and a variant here."""
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    tested = {name for options, _ in greedy_exports.VARIANTS.values() for name in options}
    of_training = {"attention_dropout", "dropout", "recompute", "relu_dropout"}
    assert fields == tested | of_training | set(greedy_exports.SIZES)


def test_what_is_computed_in_bfloat16_is_exported_in_float32(tmp_path):
    translator = greedy_exports.translator("paper", "mixed_bfloat16")
    source = greedy_exports.inputs(translator)
    actual = decoded(write_format("onnx", translator, tmp_path / "onnx", "float32"), source)
    exact = greedy_exports.translator("paper")
    np.testing.assert_array_equal(actual, greedy_exports.greedy_ids(exact, source, actual))


def test_int8(tmp_path):
    translator = greedy_exports.translator("other toolkits")
    source = greedy_exports.inputs(translator)
    exact, rounded = (
        write_format("onnx", translator, tmp_path / dtype, dtype) for dtype in ("float32", "int8")
    )
    assert not logging.root.manager.disable, "others still log"
    actual = decoded(rounded, source)
    near = actual == greedy_exports.greedy_ids(translator, source, actual)
    assert near.mean() > 0.25, "the weights are random: symbols are nearly alike"
    sizes = [(folder / "model.onnx").stat().st_size for folder in (rounded, exact)]
    assert sizes[0] < sizes[1]


def test_an_unknown_layer_is_named(tmp_path):
    translator = greedy_exports.translator("parameters")
    with refused("not_supported", "feed_forward", "parameter_attention"):
        write_format("onnx", translator, tmp_path / "onnx", "float32")
    assert not [*tmp_path.iterdir()]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "t2t_keras.interop.exporters.onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with refused("missing_package", "'.[onnx]'"):
        write_format("onnx", None, tmp_path / "onnx", "float32")
