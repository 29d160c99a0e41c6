import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_transformer import attention

from t2t_keras.errors import UserError
from t2t_keras.layers import MultiHeadAttention, RestrictedSelfAttention, SharedEmbedding
from t2t_keras.layers.attention import restricted_self_attention, scaled_dot_product_attention

BATCH, QUERIES, KEYS, D_MODEL, WIDTH, HEADS, D_K, D_V = 2, 3, 4, 6, 8, 3, 5, 7


def expected_attention(layer, query, value, visible):
    """The formula of section 3.2.2 with the layer's weights, in float64; visible [B, Q, K]."""
    w_q, w_k, w_v = (
        np.split(getattr(layer, f"{name}_projection").kernel.numpy().astype(float), HEADS, axis=1)
        for name in ("query", "key", "value")
    )
    heads = [
        [attention(q @ w_q[h], v @ w_k[h], v @ w_v[h], seen)[0] for h in range(HEADS)]
        for q, v, seen in zip(query, value, visible, strict=True)
    ]
    return np.array([np.hstack(head) for head in heads]) @ layer.output_projection.kernel.numpy()


@pytest.fixture
def layer(randomised):
    layer = MultiHeadAttention(HEADS, D_K, D_V)
    layer.build((None, None, D_MODEL), (None, None, WIDTH))
    return randomised(layer)


@pytest.fixture
def inputs(random):
    return random.normal(size=(BATCH, QUERIES, D_MODEL)), random.normal(size=(BATCH, KEYS, WIDTH))


@pytest.mark.parametrize("shape", [None, (BATCH, KEYS), (BATCH, QUERIES, KEYS)])
def test_mask(layer, inputs, random, shape):
    mask, visible = None, np.ones((BATCH, QUERIES, KEYS), bool)
    if shape:
        mask = random.random(shape) < 0.5
        mask[0] = False  # The queries of the first sentence have no visible key at all.
        visible &= mask.reshape(BATCH, -1, KEYS)
    name = "attention_mask" if mask is not None and mask.ndim == 3 else "value_mask"
    output = layer(*inputs, **{name: mask}).numpy()
    np.testing.assert_allclose(output, expected_attention(layer, *inputs, visible), atol=1e-5)
    assert (output[0] == 0).all() == bool(shape)


@pytest.mark.parametrize("radius", [0, 1])
def test_attention_mask_and_scores_are_as_in_keras(random, randomised, radius):
    """`attention_mask` hides beside `mask`, and the scores are those of Keras's own layer."""
    sizes = HEADS, D_K, D_V
    layer = RestrictedSelfAttention(radius, *sizes) if radius else MultiHeadAttention(*sizes)
    layer.build((None, None, D_MODEL))
    x = random.normal(size=(BATCH, KEYS, D_MODEL)).astype(np.float32)
    mask, attention_mask = (
        np.array([[1, 1, 1, 0]] * 2, bool),
        random.random((BATCH, KEYS, KEYS)) < 0.7,
    )
    attention_mask |= np.eye(KEYS, dtype=bool)
    near = np.abs(np.subtract.outer(np.arange(KEYS), np.arange(KEYS))) <= (radius or KEYS)
    output, scores = randomised(layer)(
        x, value_mask=mask, attention_mask=attention_mask, return_attention_scores=True
    )
    theirs = keras.layers.MultiHeadAttention(HEADS, D_K, D_V, use_bias=False)
    theirs.build(x.shape, x.shape)
    for name in ("query", "key", "value", "output"):
        kernel = getattr(layer, f"{name}_projection").kernel.numpy()
        own = getattr(theirs, f"_{name}_dense").kernel
        own.assign(kernel.reshape(own.shape))
    visible = attention_mask & mask[:, None] & near
    expected = theirs(x, x, attention_mask=visible, return_attention_scores=True)
    seen = visible.any(-1)  # A query that sees nothing gets zeros here, means there.
    for ours, other in zip((output, scores), expected, strict=True):
        rows = seen[:, None, :, None] if ours.ndim == 4 else seen[..., None]
        np.testing.assert_allclose(ours * rows, other * rows, atol=1e-5)


@pytest.mark.parametrize("shape", [(KEYS, KEYS), (BATCH, KEYS, KEYS), (BATCH, HEADS, KEYS, KEYS)])
def test_attention_mask_is_read_by_its_rank_as_in_keras_and_padding_stays_hidden(random, shape):
    layer = MultiHeadAttention(HEADS, D_K)
    ids = np.array([[3, 2, 1, 0], [4, 1, 0, 0]])
    x = SharedEmbedding(5, D_MODEL)(ids)
    attention_mask = random.random(shape) < 0.7
    _, scores = layer(x, attention_mask=attention_mask, return_attention_scores=True)
    whole = attention_mask[:, None] if len(shape) == 3 else attention_mask
    is_token = ids != 0
    visible = whole & is_token[:, None, None] & is_token[:, None, :, None]
    visible = np.broadcast_to(visible, scores.shape)
    np.testing.assert_array_equal(scores > 0, visible)


def test_scores_in_a_functional_model(inputs):
    symbols = keras.Input((None, D_MODEL)), keras.Input((KEYS, WIDTH))
    layer = MultiHeadAttention(HEADS, D_K)
    model = keras.Model(symbols, layer(*symbols, return_attention_scores=True))
    assert [x.shape for x in model.outputs] == [(None, None, D_MODEL), (None, HEADS, None, KEYS)]
    expected = layer(*inputs, return_attention_scores=True)
    for actual, output in zip(model(list(inputs)), expected, strict=True):
        np.testing.assert_allclose(actual, output, atol=1e-6)
    own_input = keras.Input((KEYS, D_MODEL))
    _, own = MultiHeadAttention(HEADS, D_K)(own_input, return_attention_scores=True)
    assert own.shape == (None, HEADS, KEYS, KEYS)


def test_a_query_without_a_visible_key_has_no_gradient_that_is_nan(random):
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


def test_a_large_score_of_a_hidden_key_has_no_weight():
    query, key = np.full((1, 1, 1, 1), 1e4, np.float32), np.zeros((1, 1, 2, 1), np.float32)
    key[0, 0, 1] = 1e4
    _, weights = scaled_dot_product_attention(query, key, key, np.array([True, False]))
    np.testing.assert_array_equal(weights, [[[[1, 0]]]])


def test_keras_mask_of_the_value_is_the_mask(layer, inputs):
    ids = np.array([[3, 2, 1, 0], [4, 0, 0, 0]])
    value = SharedEmbedding(5, WIDTH)(ids)
    expected = layer(inputs[0], value.numpy(), value_mask=ids != 0)
    np.testing.assert_allclose(layer(inputs[0], value), expected, atol=1e-6)
    own = np.array([[1, 0, 1, 1], [0, 1, 1, 0]], bool)
    expected = layer(inputs[0], value.numpy(), value_mask=own)
    np.testing.assert_allclose(layer(inputs[0], value, value_mask=own), expected, atol=1e-6)


def test_dropout_acts_on_the_weights_in_training_only():
    layer = MultiHeadAttention(1, 2, dropout=0.5)
    x = np.ones((1, 64, 2), np.float32)
    layer(x)
    for name in ("value", "output"):
        getattr(layer, f"{name}_projection").kernel.assign(np.eye(2))
    np.testing.assert_allclose(layer(x).numpy(), x, atol=1e-6)
    # Each output is the sum of about half of 64 weights of 1/64, doubled.
    dropped = layer(x, training=True).numpy()[0, :, 0] * 32
    np.testing.assert_allclose(dropped, dropped.round(), atol=1e-4)
    assert 20 < dropped.mean() < 44
    assert dropped.std() > 1


def test_softmax_is_in_float32(monkeypatch):
    softmax, types = keras.ops.softmax, []
    monkeypatch.setattr(
        keras.ops, "softmax", lambda x, **rest: types.append(x.dtype.name) or softmax(x, **rest)
    )
    layer = MultiHeadAttention(2, 4, dtype="mixed_bfloat16")
    assert layer(np.ones((1, 3, 8), np.float32), use_causal_mask=True).dtype.name == "bfloat16"
    assert types == ["float32"]


RADII = [1, 2, 15, 16, 17, 50]
LENGTHS = [0, 1, 2, 16, 17, 33, 49]


def band(length, radius, causal):
    """Returns which of [query, key] are near enough, counted one by one."""
    visible = np.zeros((length, length), bool)
    for i in range(length):
        for j in range(max(0, i - radius), (i if causal else min(length - 1, i + radius)) + 1):
            visible[i, j] = True
    return visible


def projected(random, length):
    return (
        random.normal(size=(2, 3, length, width)).astype(np.float32) * scale
        for width, scale in ((5, 2), (5, 2), (4, 1))
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_full_attention_under_a_band(random, causal, masked):
    for length in LENGTHS:
        query, key, value = projected(random, length)
        # The second sentence has no visible key at all.
        mask = random.random((2, length)) < [[0.6], [0.0]] if masked else np.ones((2, length), bool)
        for radius in RADII:
            visible = band(length, radius, causal) & mask[:, None, None, :]
            expected, _ = scaled_dot_product_attention(query, key, value, visible)
            expected = expected.numpy()
            arguments = query, key, value, radius, mask if masked else None, causal
            actual = restricted_self_attention(*arguments).numpy()
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
            assert (actual[1] == 0).all() == (masked or length == 0)


def test_one_graph_serves_all_lengths(random):
    side = tf.TensorSpec([None, 3, None, 5])
    graph = tf.function(
        lambda query, key, value, mask: restricted_self_attention(query, key, value, 2, mask),
        input_signature=[side, side, side, tf.TensorSpec([None, None], tf.bool)],
    )
    for length in LENGTHS:
        query, key, value = random.normal(size=(3, 2, 3, length, 5)).astype(np.float32)
        mask = np.ones((2, length), bool)
        expected, _ = scaled_dot_product_attention(query, key, value, band(length, 2, False))
        np.testing.assert_allclose(graph(query, key, value, mask), expected, atol=1e-5)
    assert graph.experimental_get_tracing_count() == 1


def keras_twin(layer, *shapes):
    """Returns Keras's layer with the weights of ours."""
    theirs = keras.layers.MultiHeadAttention(HEADS, D_K, D_V, use_bias=False)
    theirs.build(*shapes)
    for name in ("query", "key", "value", "output"):
        own = getattr(theirs, f"_{name}_dense").kernel
        own.assign(getattr(layer, f"{name}_projection").kernel.numpy().reshape(own.shape))
    return theirs


@pytest.mark.parametrize("queries", [1, 3, KEYS])
def test_causal_attention_to_a_value_of_another_length_is_as_in_keras(layer, inputs, queries):
    query, value = (x.astype(np.float32) for x in inputs)
    query = np.repeat(query[:, :1], queries, axis=1) * np.arange(1, queries + 1)[:, None]
    theirs = keras_twin(layer, query.shape, value.shape, value.shape)
    expected = theirs(query, value, use_causal_mask=True)
    np.testing.assert_allclose(layer(query, value, use_causal_mask=True), expected, atol=1e-5)
    symbols = [keras.Input((None, x.shape[-1])) for x in (query, value)]
    model = keras.Model(symbols, layer(*symbols, use_causal_mask=True))
    np.testing.assert_allclose(model([query, value]), expected, atol=1e-5)


@pytest.mark.parametrize("keys", [0, 3])
def test_no_positions_at_all(keys):
    layer, query = MultiHeadAttention(2, 4), np.zeros((2, 0, 8), np.float32)
    assert layer(query).shape == (2, 0, 8)
    assert layer(query, np.zeros((2, keys, 8), np.float32)).shape == (2, 0, 8)
    assert (layer(np.ones((2, 3, 8), np.float32), query).numpy() == 0).all()


def test_masks_may_be_lists(layer, inputs):
    mask = [[True, True, False] + [True] * (KEYS - 3)] * BATCH
    expected = layer(*inputs, value_mask=np.array(mask))
    np.testing.assert_array_equal(layer(*inputs, value_mask=mask), expected)
    by_query = [[row] * QUERIES for row in mask]
    np.testing.assert_allclose(layer(*inputs, attention_mask=by_query), expected, atol=1e-6)


def test_a_key_of_its_own(layer, inputs, random):
    query, value = (x.astype(np.float32) for x in inputs)
    key = random.normal(size=value.shape).astype(np.float32)
    theirs = keras_twin(layer, query.shape, value.shape, key.shape)
    mask = np.arange(KEYS) < [[3], [4]]
    expected = theirs(query, value, key, key_mask=mask)
    np.testing.assert_allclose(layer(query, value, key, key_mask=mask), expected, atol=1e-5)
    assert np.abs(layer(query, value).numpy() - expected).max() > 0.01


def test_hidden_queries_get_zeros(layer, inputs):
    mask = np.arange(QUERIES) < [[3], [1]]
    output = layer(*inputs, query_mask=mask).numpy()
    np.testing.assert_allclose(output[mask], layer(*inputs).numpy()[mask], atol=1e-6)
    assert (output[~mask] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_value_that_is_the_query_is_self_attention(random, dtype):
    x = random.normal(size=(2, 6, D_MODEL)).astype(np.float32)
    mask = np.arange(6) < [[6], [3]]
    layer = RestrictedSelfAttention(1, 2, 4, dtype=dtype)
    expected = layer(x, query_mask=mask, value_mask=mask)
    np.testing.assert_array_equal(layer(x, x, query_mask=mask, value_mask=mask), expected)
    zeros = keras.ops.convert_to_numpy(keras.ops.cast(expected, "float32"))[~mask]
    assert (zeros == 0).all()
    with pytest.raises(UserError):
        layer(x, x + 1)


def test_a_mask_of_queries_hides_no_key(random):
    layer, x = MultiHeadAttention(2, 4), random.normal(size=(2, 4, D_MODEL)).astype(np.float32)
    mask = np.arange(4) < [[2], [3]]
    output, expected = layer(x, x, query_mask=mask).numpy(), layer(x).numpy()
    np.testing.assert_allclose(output[mask], expected[mask], atol=1e-6)


def test_a_key_of_another_length_than_the_value_is_refused(layer, inputs):
    query, value = inputs
    with pytest.raises(UserError):
        layer(query, value, value[:, :2])
