"""Lines in, lines out: in order, none lost."""

import io
import threading
import time

import pytest

from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.serving.client.lines import translate_lines, translate_stream


def upper(texts):
    return [Translation(text.upper(), -1.0) for text in texts]


def run(translate, source, batch_size=1, concurrency=1, target=None):
    """Returns the counts, or the error, and the bytes written."""
    target = target or io.BytesIO()
    try:
        found = translate_stream(translate, io.BytesIO(source), target, batch_size, concurrency)
    except UserError as error:
        found = str(error)
    return found, target.getvalue()


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_order_and_blank_lines(batch_size, concurrency):
    sent = []

    def translate(texts):
        time.sleep(0.002 * max(0, 5 - len(sent)))  # the first requests take longest
        sent.extend(texts)
        return upper(texts)

    lines = [" " if i % 5 == 0 else f"line {i}" for i in range(23)]
    found = [each.text for each in translate_lines(translate, lines, batch_size, concurrency)]
    assert found == ["" if i % 5 == 0 else f"LINE {i}" for i in range(23)]
    assert sorted(sent) == sorted(line for line in lines if line.strip())


def test_requests_at_once():
    together = threading.Barrier(3, timeout=10)

    def translate(texts):
        together.wait()  # breaks unless three wait at once
        return upper(texts)

    assert len(list(translate_lines(translate, ["a"] * 6, 1, 3))) == 6


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_lines_before_an_error_are_written(concurrency):
    def translate(texts):
        if "line 5" in texts:
            raise UserError("The server is gone.")
        return upper(texts)

    error, written = run(translate, b"".join(b"line %d\n" % i for i in range(12)), 2, concurrency)
    assert "The server is gone." in error
    assert "before line 5" in error
    assert written == b"LINE 0\nLINE 1\nLINE 2\nLINE 3\n"


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_a_line_that_is_not_utf8(batch_size):
    error, written = run(upper, b"one\n\ntwo\n\xff!\nthree\n", batch_size, 2)
    assert "the input:4" in error
    assert written == b"ONE\n\nTWO\n"


def test_only_a_line_feed_ends_a_line():
    source = "\ufeffone\r\ntwo\u2028three\nlast".encode()
    broken = [Translation("a\nb\tc\rd", -1.0, cut=7)]
    counts, written = run(lambda texts: upper(texts) if texts != ["last"] else broken, source)
    assert counts == (3, 1, 1)
    assert written.decode() == "ONE\nTWO\u2028THREE\na b c d\n"


def test_control_characters_go_to_files_only():
    class Terminal(io.BytesIO):
        def isatty(self):
            return True

    hostile = lambda texts: [Translation("\x1b]0;x\x07", -1.0)]  # noqa: E731
    assert run(hostile, b"a\n")[1] == b"\x1b]0;x\x07\n"
    assert run(hostile, b"a\n", target=Terminal())[1] == b"\\x1b]0;x\\x07\n"


def test_each_batch_is_written_when_it_is_there():
    """A program that writes a line and waits for its translation gets it."""
    target = io.BytesIO()

    class Conversation(io.RawIOBase):
        sent = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            assert target.getvalue().count(b"\n") == min(self.sent, 3)
            self.sent += 1
            line = b"line\n" if self.sent <= 3 else b""
            buffer[: len(line)] = line
            return len(line)

    counts = translate_stream(upper, io.BufferedReader(Conversation()), target, 1, 1)
    assert counts == (3, 0, 0)
