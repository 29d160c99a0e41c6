"""Lines in, lines out: in order, none lost."""

import io
import socket
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


def test_requests_at_once():
    together = threading.Barrier(3, timeout=10)

    def translate(texts):
        together.wait()  # breaks unless three wait at once
        return upper(texts)

    assert len([*translate_lines(translate, ["a"] * 6, 1, 3)]) == 6


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


@pytest.mark.parametrize(
    ("is_terminal", "written"), [(False, b"\x1b]0;x\x07\n"), (True, b"\\x1b]0;x\\x07\n")]
)
def test_control_characters_go_to_files_only(is_terminal, written, monkeypatch):
    target = type("Target", (io.BytesIO,), {"isatty": lambda self: is_terminal})()
    assert (
        run(lambda texts: [Translation("\x1b]0;x\x07", -1.0)], b"a\n", target=target)[1] == written
    )


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
