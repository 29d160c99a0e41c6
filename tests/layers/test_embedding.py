import keras
import numpy as np
import pytest

from t2t_keras.layers import SharedEmbedding

IDS = np.array([[3, 1, 0], [4, 4, 2]])


def test_embeddings_are_rows_times_sqrt_d_model(randomised):
    layer = SharedEmbedding(5, 9)
    layer.build()
    matrix = randomised(layer).matrix.numpy()
    np.testing.assert_allclose(layer(IDS).numpy(), 3 * matrix[IDS], rtol=1e-6)


def test_logits_use_the_same_matrix_unscaled(randomised, random):
    layer = SharedEmbedding(5, 9)
    layer.build()
    matrix = randomised(layer).matrix.numpy()
    x = random.normal(size=(2, 3, 9)).astype(np.float32)
    np.testing.assert_allclose(layer.logits(x).numpy(), x @ matrix.T, atol=1e-5)
    assert [v.shape for v in layer.variables] == [(5, 9)]


def test_initial_embeddings_and_logits_have_unit_variance(random):
    layer = SharedEmbedding(1000, 32)
    embedded = layer(np.arange(1000)[None]).numpy()
    assert embedded.std() == pytest.approx(1, rel=0.03)
    assert abs(embedded.mean()) < 0.03
    assert layer.matrix.numpy().std() == pytest.approx(32**-0.5, rel=0.03)
    logits = layer.logits(random.normal(size=(50, 32)).astype(np.float32)).numpy()
    assert logits.std() == pytest.approx(1, rel=0.05)


def test_padding_is_masked():
    np.testing.assert_array_equal(SharedEmbedding(5, 2)(IDS)._keras_mask, IDS != 0)


def test_half_precision(randomised):
    layer = SharedEmbedding(5, 4, dtype="mixed_bfloat16")
    x = layer(IDS)
    assert (x.dtype.name, layer.matrix.dtype) == ("bfloat16", "float32")
    assert layer.logits(x).dtype.name == "float32"


def test_ids_that_arrive_as_floats_stay_exact():
    # A Sequential model passes floats on; bfloat16 holds no 257.
    layer = SharedEmbedding(300, 4, dtype="mixed_bfloat16")
    embedded = layer(np.array([[257, 299, 0]], np.float32))
    expected = 2 * layer.matrix.numpy()[[257, 299, 0]]
    np.testing.assert_allclose(keras.ops.cast(embedded, "float32")[0], expected, rtol=2**-8)
