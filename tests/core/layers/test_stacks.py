"""Keras masks around whole layers; numbers and leaks are tested in tests/core/models."""

import keras
import numpy as np
import pytest

from t2t_keras.layers import DecoderLayer, EncoderLayer, SharedEmbedding, SinusoidalPositions

SIZES = dict(num_heads=2, d_k=3, d_ff=10, d_v=5)
SOURCE = np.array([[3, 2, 4, 1], [4, 1, 0, 0]], np.int32)
TARGET = np.array([[2, 1, 0], [3, 3, 1]], np.int32)


def test_padding_masks_propagate_by_themselves(randomised):
    encoder, decoder = EncoderLayer(**SIZES), DecoderLayer(**SIZES)
    embed = keras.Sequential([SharedEmbedding(6, 8), SinusoidalPositions()])
    ids = [keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")]
    encoded = encoder(embed(ids[0]))
    model = randomised(keras.Model(ids, [encoded, decoder(embed(ids[1]), encoded)]))
    memory, states = model([SOURCE, TARGET])
    # Without Keras masks: plain arrays and explicit masks.
    x, y = (embed(ids).numpy() for ids in (SOURCE, TARGET))
    expected_memory = encoder(x, mask=SOURCE != 0).numpy()
    expected = decoder(y, expected_memory, memory_mask=SOURCE != 0).numpy()
    np.testing.assert_allclose(memory.numpy(), expected_memory, atol=1e-6)
    np.testing.assert_allclose(states.numpy()[TARGET != 0], expected[TARGET != 0], atol=1e-6)
    unmasked = decoder(y, encoder(x).numpy()).numpy()
    assert np.abs(unmasked - expected)[1].max() > 1e-2
    np.testing.assert_array_equal(memory._keras_mask, SOURCE != 0)
    np.testing.assert_array_equal(states._keras_mask, TARGET != 0)


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match="num_haeds"):
        EncoderLayer(num_haeds=2)
