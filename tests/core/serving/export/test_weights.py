import numpy as np
import pytest

from t2t_keras.serving.signatures import StoredWeight

MATRIX = np.random.default_rng(0).normal(size=[40, 3, 5]) * [1, 2, 5, 10, 0]
MATRIX = MATRIX.astype(np.float32)
VECTOR = MATRIX[0, 0]


def to_bfloat16(values):
    """The nearest numbers with 8 bits of precision, by NumPy alone."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.round(mantissas * 256), exponents - 8)


def to_int8(values):
    """127 steps to the largest entry of each column."""
    steps = np.abs(values).max(axis=(0, 1)) / 127
    return np.round(values / np.maximum(steps, 1e-9)) * steps


@pytest.mark.parametrize(
    ("dtype", "weight", "bytes_each", "expected"),
    [
        ("float32", MATRIX, 4, MATRIX),
        ("bfloat16", MATRIX, 2, to_bfloat16(MATRIX)),
        ("bfloat16", VECTOR, 2, to_bfloat16(VECTOR)),
        ("int8", MATRIX, 1, to_int8(MATRIX)),
        ("int8", VECTOR, 4, VECTOR),
    ],
)
def test_what_is_stored(dtype, weight, bytes_each, expected):
    stored = StoredWeight(weight, dtype)
    assert stored.stored.numpy().nbytes == bytes_each * weight.size
    np.testing.assert_allclose(stored.value(), expected, rtol=1e-6)
