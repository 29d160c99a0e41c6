"""Batches that are translated at the same time."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding import side_by_side as module
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.given_pairs import GivenPairs
from t2t_keras.decoding.side_by_side import batches_at_once, shared_batches, side_by_side
from t2t_keras.decoding.translator import Translator


def at_once(number, **config):
    return DecodeConfig(batches_at_once=number, **config)


def test_they_overlap_and_keep_their_order():
    together = threading.Barrier(3, timeout=60)

    def wait_for_the_others(item):
        together.wait()
        return -item

    found = side_by_side(wait_for_the_others, range(6), at_once(3))
    assert list(found) == [(item, -item) for item in range(6)]


@pytest.mark.parametrize("number", [1, 2])
def test_what_one_raises_is_raised(number):
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda item: 1 // item, [2, 1, 0, 1], at_once(number)))


def test_few_run_ahead_of_what_is_taken():
    begun = []
    found = side_by_side(begun.append, range(100), at_once(2))
    next(found)
    assert len(begun) <= 5
    found.close()
    assert len(begun) <= 5


def test_what_has_not_begun_is_left_when_one_fails():
    begun, failed = [], threading.Event()

    def fail(item):
        begun.append(item)
        if item == 0:
            failed.set()
            raise ZeroDivisionError
        failed.wait()

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(fail, range(1000), at_once(2)))
    assert len(begun) < 10


def test_each_share_gets_a_batch():
    lengths = {number: 20 + number % 3 for number in range(40)}
    assert [len(batch) for batch in shared_batches(lengths, at_once(1))] == [40]
    shares = shared_batches(lengths, at_once(2))
    assert [len(batch) for batch in shares] == [20, 20]
    assert sorted(key for batch in shares for key in batch) == list(lengths)
    small = shared_batches(lengths, at_once(2, batch_tokens=50))
    assert [len(batch) for batch in small] == [2] * 20
    assert shared_batches({}, at_once(2)) == []


def test_few_tokens_are_not_divided():
    assert len(shared_batches(dict.fromkeys(range(8), 10), at_once(4))) == 1


def test_one_for_each_core_of_a_cpu(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 6)
    assert batches_at_once(at_once(0)) == 6
    assert batches_at_once(at_once(4)) == 4
    assert batches_at_once(at_once(0, xla=True)) == 1
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [kind])
    assert batches_at_once(at_once(0)) == 1


def test_translations_are_the_same(model, tokenizer):
    lines = [f"{line} {line}" for line in ("the small dog", "", "a man sees", "house")] * 6
    alone, together = (
        Translator(
            model, tokenizer, at_once(number, batch_tokens=24, beam_size=2, extra_length=4)
        ).translate(lines)
        for number in (1, 3)
    )
    assert [each.text for each in together] == [each.text for each in alone]
    assert [each.score for each in together] == pytest.approx([each.score for each in alone])
    assert len({each.text for each in alone}) > 3


@pytest.mark.parametrize("method", ["log_probs", "attention", "cross_attention"])
def test_given_pairs_overlap(method):
    together = threading.Barrier(2, timeout=60)

    class Waits:
        """A model, and the ensemble of it, each of whose two batches waits for the other."""

        models = property(lambda self: [self])

        def check_ids(self, ids):
            together.wait()

        def log_probs(self, source, target):
            return tf.zeros(tf.shape(target))

        def attention_weights(self, pair):
            weights = tf.zeros([tf.shape(pair["source"])[0], 1, 1, 3, 3])
            return {"encoder": weights, "decoder": weights, "cross": weights}

    pairs = GivenPairs(Waits(), at_once(2, batch_tokens=3))
    ids = [np.array([5, 6, 1], np.int32)] * 2
    assert [number for number, _ in getattr(pairs, method)(ids, ids)] == [0, 1]


def test_scores_are_those_of_each_pair_alone(model, tokenizer):
    sources = ["the small dog", "", "a man sees", "house red house tree"]
    targets = ["dog small the", "house", "", "tree house red house"]
    translator = Translator(model, tokenizer, at_once(2, batch_tokens=12))
    alone = [
        translator.score([each], [other])[0] for each, other in zip(sources, targets, strict=True)
    ]
    together = translator.score(sources, targets)
    assert [each.log_prob for each in together] == pytest.approx([each.log_prob for each in alone])
    assert len({round(each.log_prob, 3) for each in alone}) == 4
