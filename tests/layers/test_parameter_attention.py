import numpy as np
import pytest

from t2t_keras.layers import ParameterAttention


@pytest.mark.parametrize("d_v", [None, 7])
def test_equals_the_formula(randomised, random, d_v):
    layer = ParameterAttention(num_heads=3, num_pairs=10, d_k=4, d_v=d_v)
    layer.build((None, None, 6))
    randomised(layer)
    d_v = d_v or 4
    query, keys, values, output = (weight.numpy().astype(float) for weight in layer.weights)
    x = random.normal(size=(2, 5, 6))
    heads = []
    for head in range(3):
        q = x @ query[:, head * 4 : head * 4 + 4]
        # Keys and values are scaled by sqrt(d_model), scores divided by sqrt(d_pk).
        scores = q @ (keys[:, head] * 6**0.5).T / 2
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        heads.append(weights @ (values[:, head] * 6**0.5))
    assert heads[0].shape == (2, 5, d_v)
    expected = np.concatenate(heads, axis=-1) @ output
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("num_heads", "num_pairs"), [(8, 1536), (16, 512)])
def test_as_many_weights_as_the_feed_forward_network_without_its_biases(num_heads, num_pairs):
    # AOP1 and AOP2 of the paper's source.
    layer = ParameterAttention(num_heads, num_pairs, d_k=64)
    layer.build((None, None, 512))
    assert layer.count_params() == 2_097_152 == 2 * 512 * 2048


def test_keys_and_values_start_as_embeddings_do():
    layer = ParameterAttention(num_heads=4, num_pairs=200, d_k=32)
    layer.build((None, None, 64))
    for weights in (layer.keys, layer.values):
        assert weights.numpy().std() == pytest.approx(64**-0.5, rel=0.05)


def test_dropout_acts_on_the_weights_in_training_only(random):
    x = random.normal(size=(1, 3, 6)).astype(np.float32)
    layer = ParameterAttention(num_heads=2, num_pairs=50, d_k=4, dropout=0.5)
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())
    assert np.abs(layer(x, training=True).numpy() - layer(x).numpy()).max() > 1e-3
