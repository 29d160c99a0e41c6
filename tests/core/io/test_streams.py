"""A closed or full standard stream may cost the report of a command, but not its product."""

import errno
import io
import os
import subprocess
import sys

import pytest

from t2t_keras.bin.flags import run_command
from t2t_keras.errors import UserError
from t2t_keras.io.terminal import printable, product


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
    said = capsys.readouterr().err
    # A reader that has closed the pipe gets no message.
    assert said.count("\n") == (code == errno.ENOSPC)
    assert ("no room" in said) == (code == errno.ENOSPC)

    def failing(flags):
        main(flags)
        raise UserError("wrong", 75)

    assert exit_status(failing) == 75, "the status of the work goes first"
    assert "t2t-x: wrong" in capsys.readouterr().err


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
    assert capsys.readouterr().out == "t2t-x: wrong\n"

    def translating(flags):
        product()
        main(flags)

    # Not among translations.
    assert exit_status(translating) == 2
    assert capsys.readouterr().out == ""


def test_what_controls_a_terminal_is_escaped_and_the_rest_stays():
    shown = "\t\n \u00a0\u200b\u200d\U0001f600"
    controls = "\x00\r\x1b\x7f\x80\x9f\u202a\u202e\u2066\u2069"
    assert printable(shown) == shown
    assert list(map(printable, controls)) == [ascii(each)[1:-1] for each in controls]
    assert printable("\ud800\udfff") == r"\ud800\udfff"


def test_a_long_text_is_shown_in_part():
    assert [printable("abc", most) for most in (2, 3, 4)] == ["ab ... (3 characters)", "abc", "abc"]


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
    ("closed", "read", "status", "said"),
    [
        (">&-", "", 2, ["said", "t2t-x: standard output: "]),
        ("2>&-", "", 0, []),
        (">&- 2>&- <&-", "", 2, []),
        ("<&-", "read", 2, ["said", "t2t-x: standard input: "]),
    ],
)
def test_closed_streams(tmp_path, closed, read, status, said):
    call = ["/bin/sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, PROGRAM]
    settings = {**os.environ, "FILE": str(tmp_path / "file"), "READ": read}
    done = subprocess.run(call, capture_output=True, text=True, env=settings)
    assert done.returncode == status, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))
    # The file has not got the number of the closed stream.
    assert (tmp_path / "file").read_text() == "made"
