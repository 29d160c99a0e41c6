import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import MultiHeadAttention
from t2t_keras.layers.restricted_attention import restricted_self_attention
from t2t_keras.layers.scaled_dot_product import scaled_dot_product_attention

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
            given = query, key, value, radius, mask if masked else None, causal
            actual = restricted_self_attention(*given).numpy()
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


def test_gradients_equal_those_of_full_attention(random):
    sides = [tf.constant(side) for side in projected(random, 20)]
    gradients = []
    for way in (
        lambda q, k, v: restricted_self_attention(q, k, v, 3, causal=True),
        lambda q, k, v: scaled_dot_product_attention(q, k, v, band(20, 3, True))[0],
    ):
        with tf.GradientTape() as tape:
            tape.watch(sides)
            total = tf.reduce_sum(way(*sides) ** 3)
        gradients.append(tape.gradient(total, sides))
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture
def layers(randomised):
    """The same weights with a radius of 2 and with none."""
    restricted, full = MultiHeadAttention(3, 5, 4, radius=2), MultiHeadAttention(3, 5, 4)
    for layer in (restricted, full):
        layer.build((None, None, 8))
    randomised(restricted)
    full.set_weights(restricted.get_weights())
    return restricted, full


@pytest.mark.parametrize("causal", [False, True])
def test_the_layer_s_radius(layers, random, causal):
    restricted, full = layers
    x = random.normal(size=(2, 21, 8)).astype(np.float32)
    mask = np.arange(21) < [[21], [9]]
    expected = full(x, mask=band(21, 2, causal) & mask[:, None, :]).numpy()
    np.testing.assert_allclose(restricted(x, mask=mask, causal=causal).numpy(), expected, atol=1e-5)


def test_a_radius_is_for_self_attention_only(layers, random):
    restricted, full = layers
    x, memory = random.normal(size=(2, 2, 9, 8)).astype(np.float32)
    np.testing.assert_allclose(restricted(x, memory).numpy(), full(x, memory).numpy(), atol=1e-6)
