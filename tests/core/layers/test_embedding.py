import keras
import numpy as np
import numpy_transformer
import pytest
import tensorflow as tf

from t2t_keras.layers import LearnedPositions, SharedEmbedding, SinusoidalPositions
from t2t_keras.layers.embedding import sinusoids

IDS = np.array([[3, 1, 0], [4, 4, 2]])


def test_embedding_and_logits_use_one_matrix(randomised, random):
    layer = SharedEmbedding(5, 9)
    layer.build()
    matrix = randomised(layer).table.embeddings.numpy()
    assert [v.shape for v in layer.variables] == [(5, 9)]
    np.testing.assert_allclose(layer(IDS).numpy(), 3 * matrix[IDS], rtol=1e-6)
    x = random.normal(size=(2, 3, 9)).astype(np.float32)
    for projection in (None, layer.projection()):
        actual = layer.logits(x, projection).numpy()
        np.testing.assert_allclose(actual, x @ matrix.T, atol=1e-5)


def test_half_precision_keeps_logits_and_ids_that_arrive_as_floats_exact():
    # A Sequential model passes floats on; bfloat16 holds no 257.
    layer = SharedEmbedding(300, 4, dtype="mixed_bfloat16")
    embedded = layer(np.array([[257, 299, 0]], np.float32))
    expected = 2 * layer.table.embeddings.numpy()[[257, 299, 0]]
    np.testing.assert_allclose(keras.ops.cast(embedded, "float32")[0], expected, rtol=2**-8)
    assert (embedded.dtype.name, layer.logits(embedded).dtype.name) == ("bfloat16", "float32")


@pytest.mark.parametrize("d_model", [2, 6, 32])
@pytest.mark.parametrize("tensor", [False, True])
def test_sines_and_cosines_interleaved(d_model, tensor):
    positions = np.arange(5001)
    result = sinusoids(tf.constant(positions, tf.int32) if tensor else positions, d_model)
    assert result.dtype == "float32"
    np.testing.assert_allclose(
        result, numpy_transformer.sinusoids(positions, d_model), rtol=0, atol=1e-6
    )


def test_one_pair_of_tensor2tensor_s_order_is_the_same():
    positions = np.arange(50)
    expected = numpy_transformer.sinusoids(positions, 2)
    np.testing.assert_allclose(sinusoids(positions, 2, "tensor2tensor"), expected, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "tensor2tensor"])
def test_tabulated_they_are_the_same(layout):
    positions, expected = tf.range(3, 9), sinusoids(np.arange(3, 9), 8, layout)
    np.testing.assert_array_equal(sinusoids(positions, 8, layout, table_length=9), expected)
    np.testing.assert_allclose(sinusoids(positions, 8, layout), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("start", [0, 2, 4997])
@pytest.mark.parametrize("how", ["static", "start as a tensor", "unknown length"])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_layers_add_them(random, kind, first, how, start):
    is_learned = kind == "learned"
    layer = LearnedPositions(4, first) if is_learned else SinusoidalPositions(first=first)
    layer.build((None, None, 6))
    x = random.normal(size=(2, 3, 6)).astype(np.float32)
    if how == "static":
        result = layer(x, start=start)
    elif how == "start as a tensor":
        result = layer(x, start=tf.constant(start))
    else:
        spec = [tf.TensorSpec([None, None, 6]), tf.TensorSpec([], tf.int32)]
        result = tf.function(layer, input_signature=spec)(x, start)
    positions = np.arange(start, start + 3) + first
    expected = numpy_transformer.sinusoids(positions, 6)
    if is_learned:
        # Positions after the table share its last row.
        expected = layer.table.numpy()[np.minimum(positions, 3)]
    np.testing.assert_allclose(result, x + expected, rtol=0, atol=1e-6)


def test_half_precision_rounds_once():
    # Positions themselves must not be bfloat16, which holds no 257.
    zeros = np.zeros((1, 600, 8), np.float32)
    result = SinusoidalPositions(dtype="mixed_bfloat16")(zeros)
    assert result.dtype.name == "bfloat16"
    expected = numpy_transformer.sinusoids(np.arange(600), 8)
    np.testing.assert_allclose(tf.cast(result[0], tf.float32), expected, rtol=2**-8, atol=1e-6)


def test_a_tied_softmax_in_a_functional_model_is_saved_and_cloned(tmp_path):
    shared, apart = SharedEmbedding(9, 8), SharedEmbedding(9, 8, tied=False, bias=True)
    ids = keras.Input((None,), dtype="int32")
    outputs = [shared(shared(ids), reverse=True), apart(apart(ids), reverse=True)]
    model = keras.Model(ids, outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for output, expected in zip(loaded(IDS), model(IDS), strict=True):
        np.testing.assert_array_equal(output, expected)
    copies = model, loaded, keras.models.clone_model(model)
    assert [len(copy.trainable_weights) for copy in copies] == [1 + 3] * 3
    assert all(output._keras_mask.shape == IDS.shape for output in model(IDS))


def test_another_padding_id():
    for padding_id, hidden in ((0, IDS == 0), (4, IDS == 4)):
        mask = SharedEmbedding(5, 8, padding_id=padding_id)(IDS)._keras_mask
        np.testing.assert_array_equal(mask, ~hidden)
    wide = np.zeros((2, 3, 8), np.int32)
    assert SharedEmbedding(5, 8)(wide)._keras_mask.shape == (2, 3, 8)
    logits = SharedEmbedding(5, 8)(np.ones((2, 8), np.float32), reverse=True)
    assert getattr(logits, "_keras_mask", None) is None


def test_logits_in_a_functional_model_are_saved_and_loaded(randomised, tmp_path):
    layer, ids = SharedEmbedding(9, 8), keras.Input((None,), dtype="int32")
    model = randomised(keras.Model(ids, layer.logits(layer(ids))))
    model.save(tmp_path / "model.keras")
    loaded, x = keras.models.load_model(tmp_path / "model.keras"), np.array([[3, 1, 0]])
    np.testing.assert_array_equal(loaded(x), model(x))
    expected = 8**0.5 * layer.table.embeddings.numpy()[x] @ layer.table.embeddings.numpy().T
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-4)
    embedded = SharedEmbedding(5, 8, padding_id=None)(IDS)
    assert getattr(embedded, "_keras_mask", None) is None
