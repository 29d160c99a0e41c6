"""What leaves padding out gives the same as what does not."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.layers import DecoderLayer, EncoderLayer, Packing

MASK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
MEMORY_MASK = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], bool)


def states(mask, width, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=(*mask.shape, width)), tf.float32)


def test_packed_are_the_tokens_in_order():
    x = states(MASK, 5)
    packed = Packing(ops.convert_to_tensor(MASK)).pack(x)
    np.testing.assert_array_equal(packed, x.numpy()[MASK])


def test_unpacked_stand_where_they_stood():
    x = states(MASK, 5)
    packing = Packing(ops.convert_to_tensor(MASK))
    unpacked = packing.unpack(packing.pack(x)).numpy()
    assert unpacked.shape == x.shape
    np.testing.assert_array_equal(unpacked[MASK], x.numpy()[MASK])


def test_integers_are_packed_too():
    ids = ops.convert_to_tensor([[4, 3, 0], [7, 0, 0]])
    np.testing.assert_array_equal(Packing(ids != 0).pack(ids), [4, 3, 7])


def test_a_batch_without_tokens_keeps_one_position():
    packing = Packing(ops.zeros((1, 2), "bool"))
    assert packing.pack(ops.ones((1, 2, 5))).shape == (1, 5)
    assert packing.unpack(ops.ones((1, 5))).shape == (1, 2, 5)


def test_gradients_are_those_of_the_tokens():
    x = tf.Variable(states(MASK, 5))
    factors = states(MASK, 5, seed=1).numpy()
    packing = Packing(ops.convert_to_tensor(MASK))
    with tf.GradientTape() as tape:
        # What stands at padding is not used.
        spread = packing.unpack(packing.pack(x)) * np.where(MASK[..., None], factors, 0.0)
        loss = tf.reduce_sum(spread**2)
    expected = np.where(MASK[..., None], 2 * x.numpy() * factors**2, 0.0)
    np.testing.assert_allclose(tape.gradient(loss, x), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"self_attention_radius": 1}, {"parameter_attention_heads": 2}, {"pre_norm": 1}]
)
def test_packed_layers_equal_padded_ones(options):
    keras.utils.set_random_seed(1)
    encoder, decoder = (
        kind(num_heads=2, d_k=4, d_ff=16, **options) for kind in (EncoderLayer, DecoderLayer)
    )
    x, memory = (
        tf.Variable(states(MASK, 8)),
        tf.Variable(states(MEMORY_MASK, 8, seed=1)),
    )
    mask, memory_mask = map(ops.convert_to_tensor, (MASK, MEMORY_MASK))

    def padded():
        encoded = encoder(memory, mask=memory_mask)
        return decoder(x, encoded, memory_mask=memory_mask)

    def packed():
        packing, memory_packing = Packing(mask), Packing(memory_mask)
        encoded = encoder(memory_packing.pack(memory), mask=memory_mask, packing=memory_packing)
        return packing.unpack(
            decoder(
                packing.pack(x),
                encoded,
                memory_mask=memory_mask,
                packing=packing,
                memory_packing=memory_packing,
            )
        )

    found = []
    for run in (padded, packed):
        with tf.GradientTape() as tape:
            output = run()
            loss = tf.reduce_sum(tf.where(MASK[..., None], output, 0.0) ** 2 * states(MASK, 8, 2))
        weights = encoder.trainable_variables + decoder.trainable_variables
        variables = [x, memory, *(weight.value for weight in weights)]
        gradients = [np.asarray(tf.convert_to_tensor(g)) for g in tape.gradient(loss, variables)]
        found.append([output.numpy()[MASK], *gradients])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)
    assert np.abs(found[0][-1]).max() > 0
