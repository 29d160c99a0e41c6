"""What is typed at a terminal, which is half of a pair of pseudo-terminals."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("readline", reason="needs Python with readline")
pty = pytest.importorskip("pty", reason="needs pseudo-terminals")

ECHOES = """
from t2t_keras.io.terminal import typed_lines
for line in typed_lines("> "):
    print(f"<{line}>".replace("\\t", "TAB"), flush=True)
"""
UP, LEFT = b"\x1b[A", b"\x1b[D"
CTRL_A, CTRL_D = b"\x01", b"\x04"


class Terminal:
    """The side of a terminal that a person has; `process` has the other."""

    def __init__(self, descriptor, process):
        self.process = process
        self._descriptor = descriptor
        self._shown = b""

    def wait_for(self, text):
        """Waits until the text is shown, and forgets what was shown until then."""
        while text not in self._shown:
            self._shown += os.read(self._descriptor, 1000)  # Fails when the process has ended.
        self._shown = self._shown.partition(text)[2]

    def type(self, keys):
        os.write(self._descriptor, keys)


@pytest.fixture
def terminal():
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ECHOES],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "INPUTRC": os.devnull},
    ) as process:
        os.close(theirs)
        yield Terminal(ours, process)
        process.kill()
        os.close(ours)


def test_editing_and_history(terminal):
    terminal.wait_for(b"Ctrl-D ends.")
    for keys, line in (
        (b"the dg sleeps" + LEFT * 8 + b"o\r", "<the dog sleeps>"),
        ("größer\tEin\r".encode(), "<größerTABEin>"),
        (UP * 2 + CTRL_A + b"now \r", "<now the dog sleeps>"),
    ):
        terminal.wait_for(b"> ")
        terminal.type(keys)
        terminal.wait_for(line.encode())
    terminal.wait_for(b"> ")
    terminal.type(CTRL_D)
    assert terminal.process.wait() == 0
