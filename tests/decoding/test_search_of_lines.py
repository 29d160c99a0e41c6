"""Which parts of lines are searched, with which prefix and number, and what becomes of them."""

import types

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search.loop import Hypotheses
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError


class Numerals:
    """A vocabulary whose pieces are numbers."""

    def encode(self, lines):
        return [np.array([*map(int, line.replace("!", "").split()), 1], np.int32) for line in lines]

    def decode(self, rows):
        return [" ".join(str(each) for each in row if each > 1) for row in rows]


def translator(search, **config):
    shape = types.SimpleNamespace(self_attention_radius=0)
    model = types.SimpleNamespace(vocab_size=100, config=shape)
    made = Translator(model, Numerals(), DecodeConfig(**config))
    made.search = search
    return made


@pytest.mark.parametrize("xla", [False, True])
def test_each_part_has_its_own_prefix_and_number(xla):
    requested, done = {}, []

    def echo(source, prefixes, numbers):
        for row, prefix, number in zip(source, prefixes, numbers, strict=True):
            requested[tuple(row[row > 0])] = tuple(prefix[prefix > 0]), int(number)
        return Hypotheses(tf.constant(source)[:, None], tf.fill([len(source), 1], -0.5))

    echo.prefix_cut = lambda *lengths: 0
    split = translator(echo, xla=xla, batch_tokens=64, max_input_length=4, split_long=True)
    lines, prefixes = ["5", "", "6 7 4! 8"], ["", "", "9"]
    found = list(split.translate_stream(lines, prefixes, 10, done.append))
    assert [each.text for each in found] == ["5", "", "6 7 4 8"]
    assert [each.parts for each in found] == [("5",), (), ("6 7 4", "8")]
    assert [each.score for each in found] == [-0.5, 0.0, -1.0]
    assert sum(done) == 3
    assert requested[5, 1] == ((), 10)
    assert requested[6, 7, 4, 1] == ((9,), 12)
    prefix, number = requested[8, 1]
    assert prefix == ()
    assert number not in range(10, 10 + (1 << 20)), "no line has a part's number"


@pytest.mark.parametrize("score", [-np.inf, np.nan])
def test_a_line_without_a_translation(score):
    def search(source, prefixes, numbers):
        return Hypotheses(tf.constant(source)[:, None], tf.fill([len(source), 1], score))

    with pytest.raises(UserError, match="NaN"):
        translator(search).translate(["5"])
