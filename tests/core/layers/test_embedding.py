import keras
import numpy as np
import pytest

from t2t_keras.layers import SharedEmbedding, SymbolDropout

IDS = np.array([[3, 1, 0], [4, 4, 2]])


def test_embedding_and_logits_use_one_matrix(randomised, random):
    layer = SharedEmbedding(5, 9)
    layer.build()
    matrix = randomised(layer).table.embeddings.numpy()
    assert [v.shape for v in layer.variables] == [(5, 9)]
    np.testing.assert_allclose(layer(IDS).numpy(), 3 * matrix[IDS], rtol=1e-6)
    x = random.normal(size=(2, 3, 9)).astype(np.float32)
    for projection in (None, layer.projection()):
        found = layer.logits(x, projection).numpy()
        np.testing.assert_allclose(found, x @ matrix.T, atol=1e-5)


def test_half_precision_keeps_logits_and_ids_that_arrive_as_floats_exact():
    # A Sequential model passes floats on; bfloat16 holds no 257.
    layer = SharedEmbedding(300, 4, dtype="mixed_bfloat16")
    embedded = layer(np.array([[257, 299, 0]], np.float32))
    expected = 2 * layer.table.embeddings.numpy()[[257, 299, 0]]
    np.testing.assert_allclose(keras.ops.cast(embedded, "float32")[0], expected, rtol=2**-8)
    assert (embedded.dtype.name, layer.logits(embedded).dtype.name) == ("bfloat16", "float32")


def test_symbol_dropout_replaces_a_share_of_the_ids_and_no_padding():
    ids = np.where(np.arange(10_000) % 4, 7, 0).reshape(100, 100).astype(np.int32)
    layer = SymbolDropout(0.1, sentinel=2)
    result = layer(ids, training=True).numpy()
    assert result.dtype == np.int32
    assert set(np.unique(result)) == {0, 2, 7}
    np.testing.assert_array_equal(result == 0, ids == 0)
    assert (result[ids != 0] == 2).mean() == pytest.approx(0.1, abs=0.015)
    assert (layer(ids, training=True).numpy() != result).any()


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.5, None), (0.0, True)])
def test_symbol_dropout_acts_in_training_only(rate, training):
    np.testing.assert_array_equal(SymbolDropout(rate, sentinel=2)(IDS, training=training), IDS)
