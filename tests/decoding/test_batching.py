import numpy as np

from t2t_keras.decoding.batching import batches, padded, padded_to_few_shapes


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


def test_the_longest_come_first_and_padding_is_counted():
    lengths = {"a": 3, "b": 9, "c": 4, "d": 10, "e": 1, "f": 30}
    assert list(batches(lengths, 20)) == [["f"], ["d", "b"], ["c", "a", "e"]]
    assert list(batches(lengths, 32, few_shapes=True)) == [["f"], ["d", "b"], ["c", "a"], ["e"]]
    assert list(batches({}, 20)) == []


def test_padding():
    np.testing.assert_array_equal(padded(rows(2, 0, 3)), [[1, 2, 0], [0, 0, 0], [1, 2, 3]])
    assert padded(rows(0, 0)).shape == (2, 0)


def test_few_shapes():
    shapes = set()
    for count in range(1, 13):
        for longest in range(1, 33):
            # As many rows as a batch of that length may have.
            some = rows(*[longest] * min(count, 200 // (16 * -(-longest // 16))))
            found = padded_to_few_shapes(some, 200)
            np.testing.assert_array_equal(found[: len(some), :longest], padded(some))
            assert found.sum() == sum(row.sum() for row in some)
            shapes.add(found.shape)
    assert shapes == {(count, length) for count, length in shapes if count * length <= 200}
    assert shapes == {
        *((count, 16) for count in (1, 2, 4, 8, 12)),
        *((count, 32) for count in (1, 2, 4, 6)),
    }
