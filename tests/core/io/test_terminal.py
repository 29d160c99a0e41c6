"""What is shown on a terminal, and what is typed at one: half of a pair of pseudo-terminals."""

import os
import subprocess
import sys

import pytest

from t2t_keras.io.terminal import printable

ECHOES = """
from t2t_keras.io.terminal import interactive_lines
for line in interactive_lines("> "):
    print(f"<{line}>".replace("\\t", "TAB"), flush=True)
"""
UP, LEFT = b"\x1b[A", b"\x1b[D"
CTRL_A, CTRL_D = b"\x01", b"\x04"


def wait_for(terminal, text):
    """Reads what is shown until the text is there and a prompt follows it."""
    shown = b""
    while not (text in shown and shown.endswith(b"> ")):
        shown += terminal.read(1000)  # Fails when the process has ended.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc größer ⛵", "a\tb\nc größer ⛵"),
        ("\x00\x08\x0b\r\x1b[2J\x1f\x7f", r"\x00\x08\x0b\r\x1b[2J\x1f\x7f"),
        (" ~\x80\x9b\x9f\xa0", " ~\\x80\\x9b\\x9f\xa0"),
        ("\u2029\u202a\u202e\u202f", "\u2029\\u202a\\u202e\u202f"),
        ("\u2065\u2066\u2069\u206a", "\u2065\\u2066\\u2069\u206a"),
        ("\ud800\udfff\ue000", "\\ud800\\udfff\ue000"),
    ],
)
def test_nothing_that_is_shown_controls_the_terminal(text, shown):
    assert printable(text) == shown


def test_of_a_long_text_the_beginning_is_shown():
    assert printable("a" * 9, most=9) == "a" * 9
    assert printable("\x1b" * 10, most=9) == r"\x1b" * 9 + " ... (10 characters)"
    assert printable("a" * 1000, most=2) == "aa ... (1,000 characters)"


def test_editing_and_history():
    pytest.importorskip("readline", reason="needs Python with readline")
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, theirs = pty.openpty()
    with (
        subprocess.Popen(
            [sys.executable, "-c", ECHOES],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "INPUTRC": os.devnull},
        ) as process,
        os.fdopen(ours, "r+b", buffering=0) as terminal,
    ):
        os.close(theirs)
        wait_for(terminal, b"Ctrl-D ends.")
        for keys, line in (
            (b"the dg sleeps" + LEFT * 8 + b"o\r", "<the dog sleeps>"),
            ("größer\tEin\r".encode(), "<größerTABEin>"),
            (UP * 2 + CTRL_A + b"now \r", "<now the dog sleeps>"),
        ):
            terminal.write(keys)
            wait_for(terminal, line.encode())
        terminal.write(CTRL_D)
        assert process.wait() == 0
