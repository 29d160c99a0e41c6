import itertools

import keras
import numpy as np
import pytest

from t2t_keras.layers import MultiHeadAttention, SharedEmbedding
from t2t_keras.layers.scaled_dot_product import attention_mask, scaled_dot_product_attention

BATCH, QUERIES, KEYS, D_MODEL, WIDTH, HEADS, D_K, D_V = 2, 3, 4, 6, 8, 3, 5, 7


def attention_of_one(query, keys, values, legal):
    """softmax(q K^T / sqrt(d_k)) V of one query of one head, over its legal keys alone."""
    if not any(legal):
        return np.zeros(values.shape[1])
    scores = [key @ query / len(query) ** 0.5 for key in keys[legal]]
    weights = np.exp(scores - np.max(scores))
    return weights / weights.sum() @ values[legal]


def expected_attention(layer, query, value, legal):
    """The formula of section 3.2.2 with the layer's weights, in float64; legal [B, Q, K]."""
    w_q, w_k, w_v, w_o = (
        getattr(layer, f"{name}_projection").numpy().astype(float)
        for name in ("query", "key", "value", "output")
    )
    heads = np.zeros((*query.shape[:2], HEADS * D_V))
    for b, q, h in itertools.product(range(BATCH), range(query.shape[1]), range(HEADS)):
        keys = value[b] @ w_k[:, h * D_K : (h + 1) * D_K]
        values = value[b] @ w_v[:, h * D_V : (h + 1) * D_V]
        one_query = query[b, q] @ w_q[:, h * D_K : (h + 1) * D_K]
        heads[b, q, h * D_V : (h + 1) * D_V] = attention_of_one(
            one_query, keys, values, legal[b, q]
        )
    return heads @ w_o


@pytest.fixture
def layer(randomised):
    layer = MultiHeadAttention(HEADS, D_K, D_V)
    layer.build((None, None, D_MODEL), (None, None, WIDTH))
    return randomised(layer)


@pytest.fixture
def inputs(random):
    return random.normal(size=(BATCH, QUERIES, D_MODEL)), random.normal(size=(BATCH, KEYS, WIDTH))


def test_without_a_mask(layer, inputs):
    legal = np.ones((BATCH, QUERIES, KEYS), bool)
    expected = expected_attention(layer, *inputs, legal)
    np.testing.assert_allclose(layer(*inputs).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("axes", [2, 3])
def test_mask(layer, inputs, random, axes):
    # Some queries of the second mask have no legal key at all.
    mask = random.random((BATCH, QUERIES, KEYS) if axes == 3 else (BATCH, KEYS)) < 0.5
    mask[0] = False
    legal = np.broadcast_to(mask if axes == 3 else mask[:, None], (BATCH, QUERIES, KEYS))
    output = layer(*inputs, mask=mask).numpy()
    np.testing.assert_allclose(output, expected_attention(layer, *inputs, legal), atol=1e-5)
    assert (output[0] == 0).all()


def test_causal_self_attention_with_padding(randomised, random):
    layer = MultiHeadAttention(HEADS, D_K, D_V)
    layer.build((None, None, D_MODEL))
    randomised(layer)
    x = random.normal(size=(BATCH, KEYS, D_MODEL))
    padding = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    legal = np.tril(np.ones((KEYS, KEYS), bool)) & padding[:, None]
    expected = expected_attention(layer, x, x, legal)
    np.testing.assert_allclose(layer(x, mask=padding, causal=True).numpy(), expected, atol=1e-5)


def test_a_query_without_a_legal_key_has_no_gradient_that_is_nan(random):
    import tensorflow as tf

    query, key = (tf.constant(random.normal(size=(1, 1, 2, 3)), tf.float32) for _ in range(2))
    with tf.GradientTape() as tape:
        tape.watch([query, key])
        output, weights = scaled_dot_product_attention(
            query, key, key, mask=np.array([[[[False, False], [True, False]]]])
        )
    np.testing.assert_array_equal(weights, [[[[0, 0], [1, 0]]]])
    np.testing.assert_array_equal(output[0, 0, 0], np.zeros(3))
    for gradient in tape.gradient(output, [query, key]):
        assert np.isfinite(gradient).all()


def test_a_large_score_of_an_illegal_key_has_no_weight():
    query, key = np.full((1, 1, 1, 1), 1e4, np.float32), np.zeros((1, 1, 2, 1), np.float32)
    key[0, 0, 1] = 1e4
    _, weights = scaled_dot_product_attention(query, key, key, np.array([True, False]))
    np.testing.assert_array_equal(weights, [[[[1, 0]]]])


@pytest.mark.parametrize(
    ("mask", "positions", "expected"),
    [
        (None, {}, None),
        ([[1, 0]], {}, [[[[1, 0]]]]),
        ([[[1, 0], [0, 1]]], {}, [[[[1, 0], [0, 1]]]]),
        (None, dict(length=3, causal=True), [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]),
        ([[0, 1, 1]], dict(length=3, causal=True), [[[[0, 0, 0], [0, 1, 0], [0, 1, 1]]]]),
        ([[[1, 1], [1, 0]]], dict(length=2, causal=True), [[[[1, 0], [1, 0]]]]),
        (None, dict(length=3, radius=1), [[[[1, 1, 0], [1, 1, 1], [0, 1, 1]]]]),
        (None, dict(length=3, radius=1, causal=True), [[[[1, 0, 0], [1, 1, 0], [0, 1, 1]]]]),
    ],
)
def test_attention_mask(mask, positions, expected):
    result = attention_mask(None if mask is None else np.array(mask), **positions)
    if expected is None:
        assert result is None
    else:
        assert result.dtype == "bool"
        np.testing.assert_array_equal(result, np.array(expected, bool))


def test_keras_mask_of_the_value_is_the_mask(layer, inputs, random):
    ids = np.array([[3, 2, 1, 0], [4, 0, 0, 0]])
    value = SharedEmbedding(5, WIDTH)(ids)
    np.testing.assert_allclose(
        layer(inputs[0], value).numpy(),
        layer(inputs[0], value.numpy(), mask=ids != 0).numpy(),
        atol=1e-6,
    )


def test_keras_mask_of_the_output_is_the_query_s(layer, inputs):
    ids = np.array([[3, 2, 1], [4, 0, 0]])
    query = SharedEmbedding(5, D_MODEL)(ids)
    of_keys = np.ones((BATCH, KEYS), bool)
    for output in (layer(query, inputs[1]), layer(query, inputs[1], mask=of_keys)):
        np.testing.assert_array_equal(output._keras_mask, ids != 0)
    assert not hasattr(layer(*inputs, mask=of_keys), "_keras_mask")


def test_dropout_acts_on_the_weights_in_training_only():
    layer = MultiHeadAttention(1, 2, dropout=0.5)
    x = np.ones((1, 64, 2), np.float32)
    layer(x)
    for name in ("value", "output"):
        getattr(layer, f"{name}_projection").assign(np.eye(2))
    np.testing.assert_allclose(layer(x).numpy(), x, atol=1e-6)
    # Each output is the sum of about half of 64 weights of 1/64, doubled.
    dropped = layer(x, training=True).numpy()[0, :, 0] * 32
    np.testing.assert_allclose(dropped, dropped.round(), atol=1e-4)
    assert 20 < dropped.mean() < 44
    assert dropped.std() > 1


@pytest.mark.parametrize(("heads", "d_k", "d_v", "weights"), [(8, 64, 64, 4), (8, 16, 64, 2.5)])
def test_projections_have_no_biases(heads, d_k, d_v, weights):
    # Table 3 row B: a smaller d_k makes W^Q and W^K smaller.
    layer = MultiHeadAttention(heads, d_k, d_v)
    layer.build((None, None, 512))
    assert layer.count_params() == weights * 512 * 512


def test_softmax_is_in_float32(monkeypatch):
    softmax, types = keras.ops.softmax, []
    monkeypatch.setattr(
        keras.ops, "softmax", lambda x, **rest: types.append(x.dtype.name) or softmax(x, **rest)
    )
    layer = MultiHeadAttention(2, 4, dtype="mixed_bfloat16")
    assert layer(np.ones((1, 3, 8), np.float32), causal=True).dtype.name == "bfloat16"
    assert types == ["float32"]


def test_parts_for_decoding_are_the_whole(layer, inputs):
    query, value = (keras.ops.convert_to_tensor(x, "float32") for x in inputs)
    kept = layer.keys_and_values(value)
    assert kept["key"].shape == (BATCH, HEADS, KEYS, D_K)
    assert kept["value"].shape == (BATCH, HEADS, KEYS, D_V)
    expected = layer(query, value)
    np.testing.assert_allclose(layer.attend(query, [kept]), expected, atol=1e-6)
    # Keys and values may stand in several tensors.
    parts = [{name: x[:, :, part] for name, x in kept.items()} for part in (slice(1), slice(1, 4))]
    np.testing.assert_allclose(layer.attend(query, parts), expected, atol=1e-6)
    mask = np.array([True, False, True, False])
    np.testing.assert_allclose(
        layer.attend(query, parts, mask), layer(query, value, mask=mask[None]), atol=1e-6
    )
