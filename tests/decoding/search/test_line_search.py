"""Which parts are searched, with which prefix and number, and where the results go."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search.loop import Hypotheses
from t2t_keras.decoding.search.search import search_lines
from t2t_keras.decoding.source_text import Source
from t2t_keras.errors import UserError


class Numerals:
    """A vocabulary whose pieces are the ids themselves."""

    def decode(self, rows):
        return [" ".join(str(each) for each in row if each) for row in rows]


def ids(*values):
    return np.array(values, np.int32)


@pytest.mark.parametrize("xla", [False, True])
def test_each_part_has_its_own_prefix_and_number(xla):
    sources = [Source([ids(5, 1)], [0], 0), Source([], [], 0)]
    sources.append(Source([ids(6, 7, 4, 1), ids(8, 1)], [0, 2], 0))
    requested, done = {}, []

    def echo(source, prefixes, numbers):
        for row, prefix, number in zip(source, prefixes, numbers, strict=True):
            requested[tuple(row[row > 0])] = tuple(prefix[prefix > 0]), int(number)
        return Hypotheses(tf.constant(source)[:, None], tf.fill([len(source), 1], -0.5))

    config, prefixes = DecodeConfig(xla=xla, batch_tokens=64), [ids(), ids(), ids(9)]
    found = search_lines(echo, Numerals(), config, sources, prefixes, 10, done.append)
    texts = [[[each.text for each in part] for part in line] for line in found]
    assert texts == [[["5 1"]], [], [["6 7 4 1"], ["8 1"]]]
    assert sum(done) == 3
    assert requested[5, 1] == ((), 10)
    assert requested[6, 7, 4, 1] == ((9,), 12)
    prefix, number = requested[8, 1]
    assert prefix == ()
    assert number not in range(10, 10 + (1 << 20)), "no line has a part's number"


@pytest.mark.parametrize("score", [-np.inf, np.nan])
def test_a_part_without_a_translation(score):
    def search(source, prefixes, numbers):
        return Hypotheses(tf.constant(source)[:, None], tf.fill([len(source), 1], score))

    line = Source([ids(5, 1)], [0], 0)
    with pytest.raises(UserError, match="NaN"):
        search_lines(search, Numerals(), DecodeConfig(), [line], [ids()], 0, print)
