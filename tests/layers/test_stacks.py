"""Masks in and around whole layers; their numbers are compared in tests/models."""

import keras
import numpy as np
import pytest

from t2t_keras.layers import DecoderLayer, EncoderLayer, SharedEmbedding, SinusoidalPositions

SIZES = dict(num_heads=2, d_k=3, d_ff=10, d_v=5)
SOURCE = np.array([[3, 2, 4, 1], [4, 1, 0, 0]], np.int32)
TARGET = np.array([[2, 1, 0], [3, 3, 1]], np.int32)


@pytest.fixture
def parts(randomised):
    """Layers that have random weights, by name."""
    made = dict(
        embedding=SharedEmbedding(6, 8),
        positions=SinusoidalPositions(),
        encoder=EncoderLayer(**SIZES),
        decoder=DecoderLayer(**SIZES),
    )
    states = (None, None, 8)
    made["embedding"].build()
    made["encoder"].build(states)
    made["decoder"].build(states, states)
    return {name: randomised(layer) for name, layer in made.items()}


@pytest.fixture
def functional(parts):
    """An encoder and a decoder layer in a Keras model that nobody tells about masks."""
    source, target = (keras.Input((None,), dtype="int32", name=n) for n in ("source", "target"))
    memory = parts["encoder"](parts["positions"](parts["embedding"](source)))
    states = parts["decoder"](parts["positions"](parts["embedding"](target)), memory)
    return keras.Model([source, target], [memory, states])


def test_padding_masks_propagate_by_themselves(parts, functional):
    memory, states = functional([SOURCE, TARGET])
    # Without Keras masks: plain arrays and explicit masks.
    x, y = (parts["positions"](parts["embedding"](ids)).numpy() for ids in (SOURCE, TARGET))
    expected_memory = parts["encoder"](x, mask=SOURCE != 0).numpy()
    expected = parts["decoder"](y, expected_memory, memory_mask=SOURCE != 0).numpy()
    np.testing.assert_allclose(memory.numpy(), expected_memory, atol=1e-6)
    np.testing.assert_allclose(states.numpy()[TARGET != 0], expected[TARGET != 0], atol=1e-6)
    unmasked = parts["decoder"](y, parts["encoder"](x).numpy()).numpy()
    assert np.abs(unmasked - expected)[1].max() > 1e-2
    np.testing.assert_array_equal(memory._keras_mask, SOURCE != 0)
    np.testing.assert_array_equal(states._keras_mask, TARGET != 0)


def test_each_sentence_is_as_if_alone_and_unpadded(functional):
    together = [output.numpy() for output in functional([SOURCE, TARGET])]
    for row, (m, n) in enumerate([(4, 2), (2, 3)]):
        alone = functional([SOURCE[row : row + 1, :m], TARGET[row : row + 1, :n]])
        for output, single, length in zip(together, alone, (m, n), strict=True):
            np.testing.assert_allclose(output[row, :length], single[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("position", range(4))
def test_encoder_sees_every_token_and_no_padding(parts, random, position):
    x = random.normal(size=(1, 4, 8)).astype(np.float32)
    mask = np.array([[True, True, True, False]])
    before = parts["encoder"](x, mask=mask).numpy()[:, :3]
    # Not a shift of all features by the same amount, which the normalisation takes away.
    x[0, position] += random.normal(size=8)
    change = np.abs(parts["encoder"](x, mask=mask).numpy()[:, :3] - before).max(axis=2)[0]
    assert (change > 1e-3).all() if position < 3 else (change == 0).all()


@pytest.mark.parametrize("position", range(3))
def test_decoder_is_causal(parts, random, position):
    x, memory = random.normal(size=(2, 1, 3, 8)).astype(np.float32)
    before = parts["decoder"](x, memory).numpy()
    x[0, position] += random.normal(size=8)
    change = np.abs(parts["decoder"](x, memory).numpy() - before).max(axis=2)[0]
    assert (change[:position] < 1e-6).all()
    assert (change[position:] > 1e-3).all()


def test_decoder_sees_every_token_of_memory_and_no_padding(parts, random):
    x, memory = random.normal(size=(2, 1, 3, 8)).astype(np.float32)
    mask = np.array([[True, True, False]])
    before = parts["decoder"](x, memory, memory_mask=mask).numpy()
    for position in range(3):
        changed = memory.copy()
        changed[0, position] += random.normal(size=8)
        change = np.abs(parts["decoder"](x, changed, memory_mask=mask).numpy() - before)
        assert (change.max(axis=2) > 1e-3).all() if position < 2 else (change == 0).all()


def test_memory_without_a_token_gives_numbers(parts, random):
    x, memory = random.normal(size=(2, 1, 3, 8)).astype(np.float32)
    output = parts["decoder"](x, memory, memory_mask=np.zeros((1, 3), bool)).numpy()
    assert np.isfinite(output).all()
    other = parts["decoder"](x, memory + 1, memory_mask=np.zeros((1, 3), bool)).numpy()
    np.testing.assert_array_equal(output, other)


def test_one_more_position_from_kept_keys_and_values(parts, random):
    decoder = parts["decoder"]
    x, memory = (random.normal(size=(2, n, 8)).astype(np.float32) for n in (3, 4))
    expected = decoder(x, memory, memory_mask=SOURCE != 0).numpy()
    x, memory = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(memory)
    # Position 0 stands in the past, position 1 in the last of three slots since; the first of these
    # holds what does not belong to the hypothesis.
    whole = {name: kept.numpy() for name, kept in decoder.self_attention.keys_and_values(x).items()}
    past = {name: kept[:, :, :1] for name, kept in whole.items()}
    recent = {
        name: np.concatenate([kept[:, :, :1] * 99, kept[:, :, :1] * 0, kept[:, :, 1:2]], axis=2)
        for name, kept in whole.items()
    }
    of_memory = decoder.memory_attention.keys_and_values(memory)
    mask = keras.ops.convert_to_tensor(SOURCE != 0)[:, None, None]
    legal = np.array([[[True, False, True, True]]])
    here = np.array([False, True, False])
    output, recent = decoder.step(x[:, 2:], past, recent, here, legal, of_memory, mask)
    np.testing.assert_allclose(output.numpy(), expected[:, 2:], atol=1e-5)
    for name, kept in recent.items():
        np.testing.assert_allclose(kept[:, :, 1].numpy(), whole[name][:, :, 2], atol=1e-6)
