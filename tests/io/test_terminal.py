"""What is typed at a terminal, which is half of a pair of pseudo-terminals."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("readline", reason="needs Python with readline")
pty = pytest.importorskip("pty", reason="needs pseudo-terminals")

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


def test_editing_and_history():
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
