"""Progress where standard error is no terminal, and output that is no UTF-8."""

import io
import os
import re
import termios

import pytest

from t2t_keras.io.terminal import LineProgress, print_beside_bar


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
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(found := io.BytesIO(), encoding="latin-1"))
    print_beside_bar("ä漢")
    assert found.getvalue() == b"\xe4\\u6f22\n"
