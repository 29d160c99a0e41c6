"""The attention over parameters; the feed-forward network is tested in tests/models."""

import numpy as np
import pytest

from t2t_keras.layers import ParameterAttention


@pytest.mark.parametrize("d_v", [None, 7])
def test_parameter_attention(randomised, random, d_v):
    layer = ParameterAttention(num_heads=3, num_pairs=10, d_k=4, d_v=d_v)
    layer.build((None, None, 6))
    randomised(layer)
    query, keys, values, output = (weight.numpy().astype(float) for weight in layer.weights)
    x = random.normal(size=(2, 5, 6))
    heads = []
    for head in range(3):
        q = x @ query[:, head * 4 : head * 4 + 4]
        # Keys and values are scaled by sqrt(d_model), scores divided by sqrt(d_pk).
        scores = q @ (keys[:, head] * 6**0.5).T / 2
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        heads.append(weights @ (values[:, head] * 6**0.5))
    assert heads[0].shape == (2, 5, d_v or 4)
    expected = np.concatenate(heads, axis=-1) @ output
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("num_heads", "num_pairs"), [(8, 1536), (16, 512)])
def test_parameter_attention_has_the_weights_that_the_paper_s_source_counts(num_heads, num_pairs):
    # AOP1 and AOP2: as many as a feed-forward network without its biases.
    layer = ParameterAttention(num_heads, num_pairs, d_k=64)
    layer.build((None, None, 512))
    assert layer.count_params() == 2_097_152 == 2 * 512 * 2048
    for weights in (layer.keys, layer.values):
        assert weights.numpy().std() == pytest.approx(512**-0.5, rel=0.02)
