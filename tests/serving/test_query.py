"""Lines in, lines out: in order, none lost."""

import io
import threading
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.clients import Answer
from t2t_keras.serving.query import translate_lines, translate_stream


def upper(texts):
    return [Answer(text.upper(), -1.0) for text in texts]


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_order_and_blank_lines(batch_size, concurrency):
    sent = []

    def translate(texts):
        # The first requests take longest.
        time.sleep(0.002 * max(0, 5 - len(sent)))
        sent.extend(texts)
        return upper(texts)

    lines = [" " if i % 5 == 0 else f"line {i}" for i in range(23)]
    found = [answer.text for answer in translate_lines(translate, lines, batch_size, concurrency)]
    assert found == ["" if i % 5 == 0 else f"LINE {i}" for i in range(23)]
    assert sorted(sent) == sorted(line for line in lines if line.strip())


def test_so_many_requests_at_once():
    together = threading.Barrier(3, timeout=10)

    def translate(texts):
        together.wait()  # breaks unless three wait at once
        return upper(texts)

    assert len(list(translate_lines(translate, ["a"] * 6, 1, 3))) == 6


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_was_translated_before_an_error_is_written(concurrency):
    def translate(texts):
        if "line 5" in texts:
            raise UserError("The server is gone.")
        return upper(texts)

    source = io.BytesIO(b"".join(b"line %d\n" % i for i in range(12)))
    target = io.BytesIO()
    with pytest.raises(UserError, match=r"The server is gone. .* end before line 5;"):
        translate_stream(translate, source, target, 2, concurrency)
    assert target.getvalue() == b"LINE 0\nLINE 1\nLINE 2\nLINE 3\n"


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_a_line_that_is_not_utf8_is_named_after_those_before_it(batch_size):
    source, target = io.BytesIO(b"one\n\ntwo\n\xff!\nthree\n"), io.BytesIO()
    with pytest.raises(UserError, match=r"the input:4 is not UTF-8 .byte 1 of the line is 0xff"):
        translate_stream(upper, source, target, batch_size, 2)
    assert target.getvalue() == b"ONE\n\nTWO\n"


def test_line_ends():
    """Only a line feed ends a line, as everywhere in the package."""
    source = io.BytesIO("\ufeffone\r\ntwo\u2028three\nlast".encode())
    target = io.BytesIO()
    broken = [Answer("a\nb\tc\rd", -1.0, cut=7)]

    def translate(texts):
        return upper(texts) if texts != ["last"] else broken

    assert translate_stream(translate, source, target, 1, 1) == (3, 1, 1)
    assert target.getvalue().decode() == "ONE\nTWO\u2028THREE\na b c d\n"


def test_each_batch_is_written_when_it_is_there():
    """A program that writes a line and waits for its translation gets it."""
    target = io.BytesIO()

    def conversation():
        for i in range(3):
            yield b"line %d\n" % i
            assert target.getvalue().count(b"\n") == i + 1

    assert translate_stream(upper, conversation(), target, 1, 1) == (3, 0, 0)


def test_sizes_must_be_positive():
    with pytest.raises(UserError, match="--batch_size=0"):
        list(translate_lines(upper, ["a"], 0, 1))
