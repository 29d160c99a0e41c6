"""Standard streams, typed lines, progress bars and signals."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import termios

import pytest

from t2t_keras.bin.flags import run_command
from t2t_keras.errors import UserError
from t2t_keras.io.terminal import LineProgress, caught_signals, print_beside_bar, printable, product


class Failing(io.StringIO):
    """A stream that fails at its second write, as of a full disk or a reader that has gone."""

    def __init__(self, code):
        super().__init__()
        self.code, self.writes = code, 0

    def write(self, text):
        self.writes += 1
        if self.writes > 1:
            raise OSError(self.code, "no room")
        return super().write(text)


def exit_status(main):
    """The exit status of a command."""
    before = sys.stdin, sys.stdout, sys.stderr
    try:
        run_command(lambda flags: None, main, ["t2t-x"])
    except SystemExit as stop:
        return stop.code
    finally:
        assert (sys.stdin, sys.stdout, sys.stderr) == before
    return 0


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 2), (errno.EPIPE, 141)])
def test_a_report_that_cannot_be_written_costs_no_work(monkeypatch, capsys, code, status):
    monkeypatch.setattr(sys, "stdout", Failing(code))
    done = []

    def main(flags):
        for step in range(5):
            print(end=f"{step}", flush=True)
            done.append(step)

    assert exit_status(main) == status
    assert done == [0, 1, 2, 3, 4]
    errors = capsys.readouterr().err
    # A reader that has closed the pipe gets no message.
    assert errors.count("\n") == (code == errno.ENOSPC)
    assert ("no room" in errors) == (code == errno.ENOSPC)

    def failing(flags):
        main(flags)
        raise UserError("wrong", 75)

    assert exit_status(failing) == 75, "the status of the work goes first"
    assert "t2t-x: error [bad_input]: wrong" in capsys.readouterr().err


def test_what_is_made_on_standard_output_ends_with_its_reader(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Failing(errno.EPIPE))

    def main(flags):
        for line in ("one", "two", "three"):
            print(end=line, file=product())
        raise AssertionError("It goes on.")

    assert exit_status(main) == 141
    assert capsys.readouterr().err == ""


def test_an_error_is_said_where_it_can_be_read(monkeypatch, capsys):
    broken = Failing(errno.ENOSPC)
    broken.writes = 1
    monkeypatch.setattr(sys, "stderr", broken)

    def main(flags):
        print("progress", file=sys.stderr)
        raise UserError("wrong")

    assert exit_status(main) == 2
    assert capsys.readouterr().out == "t2t-x: error [bad_input]: wrong\n"

    def translating(flags):
        product()
        main(flags)

    # Not among translations.
    assert exit_status(translating) == 2
    assert capsys.readouterr().out == ""


def test_names_of_files_control_no_terminal(capsys):
    assert exit_status(lambda flags: print("\x1b[2J.txt: done\t1\u202e")) == 0
    assert capsys.readouterr().out == "\\x1b[2J.txt: done\t1\\u202e\n"
    assert exit_status(lambda flags: print("\x1b[2J", file=product())) == 0
    assert capsys.readouterr().out == "\x1b[2J\n"


PROGRAM = """
import os, subprocess, sys
from t2t_keras.bin.flags import run_command

def main(flags):
    with open(os.environ["FILE"], "w") as file:
        print("said"), print("said", file=sys.stderr)
        file.write("made")
    subprocess.run(["/bin/sh", "-c", "echo said && : >&2"], check=True)
    if os.environ["READ"]:
        sys.stdin.buffer.read()

sys.argv[0] = "t2t-x"
run_command(lambda flags: None, main)
"""


@pytest.mark.parametrize(
    ("closed", "read", "status", "expected"),
    [
        (">&-", "", 2, ["said", "t2t-x: standard output: "]),
        ("2>&-", "", 0, []),
        (">&- 2>&- <&-", "", 2, []),
        ("<&-", "read", 2, ["said", "t2t-x: standard input: "]),
    ],
)
def test_closed_streams(tmp_path, closed, read, status, expected):
    call = ["/bin/sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, PROGRAM]
    settings = {**os.environ, "FILE": str(tmp_path / "file"), "READ": read}
    done = subprocess.run(call, capture_output=True, text=True, env=settings)
    assert done.returncode == status, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))
    # The file has not got the number of the closed stream.
    assert (tmp_path / "file").read_text() == "made"


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
        ("a\tb\nc größer ⛵\u200b\u200d\U0001f600", "a\tb\nc größer ⛵\u200b\u200d\U0001f600"),
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
    assert printable("a" * 9, max_length=9) == "a" * 9
    assert printable("\x1b" * 10, max_length=9) == r"\x1b" * 9 + " ... (10 characters)"
    assert printable("a" * 1000, max_length=2) == "aa ... (1,000 characters)"


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


def numbers(text):
    """The numbers and times in each line."""
    return [re.findall(r"\d[\d,.:]*\b", line) for line in text.splitlines()]


def test_a_line_a_minute_with_the_time_left(capsys):
    times = iter([0.0, 59.0, 60.0, 61.0, 130.0])
    with LineProgress(1_130, done=10, clock=lambda: next(times)) as progress:
        for _ in range(4):
            progress.update(10)
    assert numbers(capsys.readouterr().err) == [
        ["30", "1,130", "0.3", "55:00"],
        ["50", "1,130", "0.3", "58:30"],
    ]


@pytest.mark.parametrize(
    ("total", "count", "shown"),
    [
        (None, 12_000, ["12,000", "200.0"]),
        (20, 0, ["0", "20", "0.0"]),
        # The file has grown.
        (5, 6, ["6", "5", "0.1", "00:00"]),
    ],
)
def test_what_is_left_where_it_is_not_known(total, count, shown, capsys):
    times = iter([0.0, 60.0])
    with LineProgress(total, done=0, clock=lambda: next(times)) as progress:
        progress.update(count)
    assert numbers(capsys.readouterr().err) == [shown]


@pytest.mark.parametrize(
    ("columns", "expected"), [(0, ["10", "20", "0.2", "01:00"]), (80, ["50", "10", "20"])]
)
def test_a_terminal_gets_a_bar_and_one_without_columns_lines(monkeypatch, columns, expected):
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as screen:
        monkeypatch.setattr("sys.stderr", terminal)
        times = iter([0.0, 60.0])
        with LineProgress(20, done=0, clock=lambda: next(times)) as progress:
            progress.update(10)
            progress.refresh()
            shown = ""
            while expected[0] not in shown:
                shown += screen.read(1000).decode()
        assert ("\n" in shown) == (columns == 0)
        last = shown.strip().split("\r")[-1]
        assert numbers(last)[0][: len(expected)] == expected


def test_what_cannot_be_encoded_is_escaped(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(actual := io.BytesIO(), encoding="latin-1"))
    print_beside_bar("ä漢")
    assert actual.getvalue() == b"\xe4\\u6f22\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_waits_and_the_second_acts(number):
    def act(*_):
        raise InterruptedError

    def main():
        with caught_signals() as caught:
            for _ in range(3):
                seen.append(caught[-1])
                os.kill(os.getpid(), number)

    seen, before = [], signal.signal(number, act)
    try:
        with pytest.raises(InterruptedError):
            main()
        assert (seen, signal.getsignal(number)) == ([0, number], act)
    finally:
        signal.signal(number, before)
