"""Packing and unpacking by themselves; packed models are compared in tests/models."""

import numpy as np
from keras import ops

from t2t_keras.layers import Packing

MASK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)


def states(seed=0):
    return np.random.default_rng(seed).normal(size=(*MASK.shape, 5)).astype(np.float32)


def test_tokens_are_packed_in_order_and_put_back():
    x, packing = states(), Packing(ops.convert_to_tensor(MASK))
    packed = packing.pack(ops.convert_to_tensor(x))
    np.testing.assert_array_equal(packed, x[MASK])
    unpacked = packing.unpack(packed).numpy()
    assert unpacked.shape == x.shape
    np.testing.assert_array_equal(unpacked[MASK], x[MASK])


def test_a_batch_without_tokens_keeps_one_position():
    packing = Packing(ops.zeros((1, 2), "bool"))
    assert packing.pack(ops.ones((1, 2, 5))).shape == (1, 5)
    assert packing.unpack(ops.ones((1, 5))).shape == (1, 2, 5)
