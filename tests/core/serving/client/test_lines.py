import io
import socket
import threading
import time
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.serving.client import translate_lines, translate_stream


def upper(texts):
    return [Translation(text.upper(), -1.0) for text in texts]


@pytest.mark.parametrize("batch_size", [1, 7, 100])
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


def test_a_reader_that_has_gone_ends_it():
    class Gone(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        translate_stream(upper, io.BytesIO(b"a\nb\n"), Gone(), 1, 1)


def test_what_cannot_be_written_is_not_written_again_at_exit():
    with Path("/dev/full").open("wb") as target, refused("not_written", "line 1:"):
        translate_stream(upper, io.BytesIO(b"a\n"), target, 1, 1)


def test_requests_at_once():
    together = threading.Barrier(3, timeout=10)

    def translate(texts):
        together.wait()  # breaks unless three wait at once
        return upper(texts)

    assert len([*translate_lines(translate, ["a"] * 6, 1, 3)]) == 6


@pytest.mark.parametrize(
    ("source", "batch_size", "code", "named", "written"),
    [
        (b"0\n1\n2\n3\n4\nbad\n6\n7\n", 2, "no_answer", ["gone", "5"], b"0\n1\n2\n3\n"),
        (b"one\n\ntwo\n\xff!\nthree\n", 2, "not_utf8", ["the input:4 "], b"ONE\n\nTWO\n"),
        (b"one\n\ntwo\n\xff!\nthree\n", 10, "not_utf8", ["the input:4 "], b"ONE\n\nTWO\n"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_lines_before_an_error_are_written(
    source, batch_size, code, named, written, concurrency
):
    def translate(texts):
        if "bad" in texts:
            raise UserError("gone", code="no_answer")
        return upper(texts)

    target = io.BytesIO()
    with refused(code, *named):
        translate_stream(translate, io.BytesIO(source), target, batch_size, concurrency)
    assert target.getvalue() == written


@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_a_line_feed_ends_a_line_and_terminals_get_no_control_characters(is_terminal):
    source = io.BytesIO("\ufeffone\r\ntwo\u2028three\nlast".encode())
    target = type("Target", (io.BytesIO,), {"isatty": lambda self: is_terminal})()
    broken = [Translation("a\nb\tc\x07\rd", -1.0, cut=7)]
    translate = lambda texts: upper(texts) if texts != ["last"] else broken  # noqa: E731
    assert translate_stream(translate, source, target, 1, 1) == (3, 1, 1)
    bell = r"\x07" if is_terminal else "\x07"
    lines = target.getvalue().decode().split("\n")
    assert (lines[0], lines[2:]) == ("ONE", [f"a b c{bell} d", ""])
    assert is_terminal or lines[1] == "TWO\u2028THREE"


def test_a_program_that_writes_a_line_and_waits_for_its_translation_gets_it():
    near, far = socket.socketpair()
    streams = far.makefile("rb"), far.makefile("wb")
    thread = threading.Thread(target=translate_stream, args=(upper, *streams, 1, 1))
    thread.start()
    near.settimeout(10)
    with near, far:
        for line in (b"one\n", b"two\n"):
            near.sendall(line)
            assert near.recv(100) == line.upper()
        near.shutdown(socket.SHUT_WR)
        thread.join()
