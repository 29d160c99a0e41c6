import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers.attention import restricted_self_attention, scaled_dot_product_attention

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
