import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.serving.export import export
from t2t_keras.serving.loaded import load_export
from t2t_keras.serving.stored_weights import StoredWeight, rounded_weights

MATRIX = np.random.default_rng(0).normal(size=[40, 3, 5]) * [1, 2, 5, 10, 0]
MATRIX = MATRIX.astype(np.float32)


def test_int8_has_a_scale_for_each_column():
    stored = StoredWeight(MATRIX, "int8")
    assert stored.stored.dtype == tf.int8
    assert stored.scale.shape == [5]
    largest = np.abs(MATRIX).max(axis=(0, 1))
    error = np.abs(stored.value().numpy() - MATRIX).max(axis=(0, 1))
    # Half a step of 1/127, and no more.
    assert (error <= largest / 254 * 1.001).all()
    assert (error[:4] > largest[:4] / 300).all()
    assert np.abs(stored.stored.numpy()).max(axis=(0, 1)).tolist() == [127, 127, 127, 127, 0]


def test_vectors_stay_exact_under_int8():
    vector = MATRIX[:, 0, 0]
    assert StoredWeight(vector, "int8").value().numpy().tolist() == vector.tolist()


def test_bfloat16_is_rounded():
    stored = StoredWeight(MATRIX, "bfloat16")
    assert stored.stored.dtype == tf.bfloat16
    expected = MATRIX.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert stored.value().numpy().tolist() == expected.tolist()


def test_export_equals_a_model_with_rounded_weights(translator, lines, tmp_path):
    dtype = "int8"
    (model,) = translator.models
    weights = model.weights
    before = [weight.numpy() for weight in weights]
    loaded = load_export(export(translator, tmp_path, dtype=dtype))
    found = loaded.translate(lines)
    exact = translator.translate(lines)
    with rounded_weights(weights, dtype):
        expected = translator.translate(lines)
    assert [answer.text for answer in found] == [t.text for t in expected]
    scores = [answer.score for answer in found]
    np.testing.assert_allclose(scores, [t.score for t in expected], atol=1e-5)
    # It is not the exact model that was exported.
    assert np.abs(np.array(scores) - [t.score for t in exact]).max() > 1e-4
    assert all(
        (weight.numpy() == exact).all() for weight, exact in zip(weights, before, strict=True)
    )
    size = (loaded.directory / "variables" / "variables.data-00000-of-00001").stat().st_size
    exact_size = sum(weight.nbytes for weight in before)
    # Vectors and scales weigh something in a model this small.
    assert size < exact_size * 0.45
    assert loaded.manifest["dtype"] == dtype


def test_unknown_dtype(translator, tmp_path):
    with pytest.raises(UserError, match="'int4' came"):
        export(translator, tmp_path, dtype="int4")
