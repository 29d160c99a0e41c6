"""Which parts are searched, with what prefix and what number, and where what is found goes."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.line_search import LineSearch
from t2t_keras.decoding.source_text import Source
from t2t_keras.errors import UserError


class Echo:
    """A search that finds the source itself, and keeps with what it was asked for it."""

    def __init__(self, score=-0.5):
        self.asked, self.score = {}, score

    def __call__(self, source, prefixes, numbers):
        for row, prefix, number in zip(source, prefixes, numbers, strict=True):
            if row.any():
                self.asked[tuple(row[row > 0])] = tuple(prefix[prefix > 0]), int(number)
        scores = tf.fill([len(source), 1], self.score)
        return tf.constant(source)[:, None], scores


class Numerals:
    """A vocabulary whose pieces are the ids themselves."""

    def decode(self, rows):
        return [" ".join(str(each) for each in row if each) for row in rows]


def ids(*values):
    return np.array(values, np.int32)


SOURCES = [
    Source([ids(5, 1)], [0], 0),
    Source([], [], 0),
    Source([ids(6, 7, 4, 1), ids(8, 1)], [0, 2], 0),
]
PREFIXES = [ids(), ids(), ids(9)]


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("batch_tokens", [1, 64])
def test_each_part_has_its_own(at_once, xla, batch_tokens):
    config = DecodeConfig(batches_at_once=at_once, xla=xla, batch_tokens=batch_tokens)
    search, done = Echo(), []
    found = LineSearch(search, Numerals(), config)(SOURCES, PREFIXES, 10, done.append)
    texts = [[[each.text for each in part] for part in line] for line in found]
    assert texts == [[["5 1"]], [], [["6 7 4 1"], ["8 1"]]]
    assert sum(done) == 3
    numbers = {source: number for source, (_, number) in search.asked.items()}
    assert (numbers[5, 1], numbers[6, 7, 4, 1]) == (10, 12)
    assert numbers[8, 1] not in range(10, 10 + (1 << 20)), "no line has a part's number"
    begins = {source: prefix for source, (prefix, _) in search.asked.items()}
    assert begins == {(5, 1): (), (6, 7, 4, 1): (9,), (8, 1): ()}


@pytest.mark.parametrize("score", [-np.inf, np.nan])
def test_a_part_without_a_translation(score):
    search = LineSearch(Echo(score), Numerals(), DecodeConfig())
    with pytest.raises(UserError, match="No translation is possible"):
        search(SOURCES, PREFIXES, 0, lambda count: None)
