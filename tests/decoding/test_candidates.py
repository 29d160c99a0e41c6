import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.candidates import top_symbols


@pytest.mark.parametrize("vocab_size", [10, 1000, 4096, 4999, 5000])
@pytest.mark.parametrize("values", [3, 10**6])
def test_top_symbols_are_the_best(vocab_size, values):
    # Of three values most are equal, and the smaller id must go first.
    logits = np.random.default_rng(vocab_size).integers(0, values, [2, 3, vocab_size])
    logits = logits.astype(np.float32)
    best, ids = top_symbols(tf.constant(logits), 9)
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., :9]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(logits, expected, axis=-1))


def test_top_symbols_of_impossible_ones():
    logits = np.full([1, 4096], -np.inf, np.float32)
    logits[0, 7] = 0.0
    best, ids = top_symbols(tf.constant(logits), 3)
    np.testing.assert_array_equal(best, [[0.0, -np.inf, -np.inf]])
    assert ids[0, 0] == 7
