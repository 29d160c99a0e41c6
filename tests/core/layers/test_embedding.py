import keras
import numpy as np

from t2t_keras.layers import SharedEmbedding

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
