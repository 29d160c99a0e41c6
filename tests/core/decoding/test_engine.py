"""Batches of similar length, several of them in parallel."""

import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import (
    batches_at_once,
    batches_by_length,
    pad_rows,
    parallel_batches,
    xla_padding,
)
from t2t_keras.decoding.keras_engine import KerasEngine


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


def test_the_longest_come_first_and_padding_is_counted():
    lengths = {"a": 3, "b": 9, "c": 4, "d": 10, "e": 1, "f": 30}
    plain, compiled = DecodeConfig(batch_tokens=20), DecodeConfig(batch_tokens=32, xla=True)
    assert batches_by_length(lengths, plain, 1) == [["f"], ["d", "b"], ["c", "a", "e"]]
    assert batches_by_length(lengths, compiled, 1) == [["f"], ["d", "b"], ["c", "a"], ["e"]]


def test_xla_padding_makes_few_shapes():
    shapes = set()
    for count, longest in itertools.product(range(1, 13), range(1, 33)):
        # As many rows as a batch of that length may have.
        some = rows(*[longest] * min(count, 12 if longest <= 16 else 6))
        actual = pad_rows(some, *xla_padding(some, 200))
        np.testing.assert_array_equal(actual[: len(some), :longest], pad_rows(some))
        assert actual.sum() == sum(row.sum() for row in some)
        shapes.add(actual.shape)
    assert shapes == {*((n, 16) for n in (1, 2, 4, 8, 12)), *((n, 32) for n in (1, 2, 4, 6))}


def test_parallel_batches_overlap_and_keep_their_order():
    together = threading.Barrier(3, timeout=60)

    def wait_for_the_others(item):
        together.wait()
        return -item

    actual = parallel_batches(wait_for_the_others, range(6), 3)
    assert list(actual) == [(item, -item) for item in range(6)]


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_is_raised(number):
    with pytest.raises(ZeroDivisionError):
        list(parallel_batches(lambda item: 1 // item, [2, 1, 0, 1], number))


def test_few_run_ahead_of_the_consumer():
    begun = []
    actual = parallel_batches(begun.append, range(100), 2)
    next(actual)
    actual.close()
    assert len(begun) <= 5


def test_each_share_gets_a_batch():
    lengths = {number: 20 + number % 3 for number in range(40)}
    config = DecodeConfig()
    assert [len(batch) for batch in batches_by_length(lengths, config, 1)] == [40]
    shares = batches_by_length(lengths, config, 2)
    assert [len(batch) for batch in shares] == [20, 20]
    assert sorted(key for batch in shares for key in batch) == list(lengths)
    small = batches_by_length(lengths, DecodeConfig(batch_tokens=50), 2)
    assert [len(batch) for batch in small] == [2] * 20
    assert batches_by_length({}, config, 2) == []
    assert len(batches_by_length(dict.fromkeys(range(8), 10), config, 4)) == 1, "too few tokens"


def test_one_for_each_core_of_a_cpu(monkeypatch, model, tokenizer):
    monkeypatch.setattr("t2t_keras.decoding.engine.usable_cores", lambda: 6)
    assert batches_at_once(DecodeConfig()) == 6
    assert batches_at_once(DecodeConfig(batches_at_once=4)) == 4
    assert batches_at_once(DecodeConfig(xla=True)) == 1
    monkeypatch.setattr("t2t_keras.decoding.engine.usable_cores", lambda: 9)
    assert batches_at_once(DecodeConfig()) == 8
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [kind])
    for threads, at_once in ((0, 1), (3, 3)):
        config = DecodeConfig(batches_at_once=threads)
        assert KerasEngine(model, tokenizer, config).batches_at_once == at_once
