"""Progress where standard error is no terminal, and output that is no UTF-8."""

import io
import os

import pytest

from t2t_keras.io.progress import LineProgress, print_beside_bar


def test_a_line_a_minute_with_the_time_left(capsys):
    times = iter([0.0, 59.0, 60.0, 61.0, 130.0])
    with LineProgress(1_130, done=10, clock=lambda: next(times)) as progress:
        for _ in range(4):
            progress.update(10)
    assert capsys.readouterr().err.splitlines() == [
        "30 of 1,130 lines are done, 0.3 a second, 55:00 left.",
        "50 of 1,130 lines are done, 0.3 a second, 58:30 left.",
    ]


@pytest.mark.parametrize(
    ("total", "count", "said"),
    [
        (None, 12_000, "12,000 lines are done, 200.0 a second."),
        (20, 0, "0 of 20 lines are done, 0.0 a second."),
        # The file has grown.
        (5, 6, "6 of 5 lines are done, 0.1 a second, 00:00 left."),
    ],
)
def test_what_is_left_where_it_is_not_known(total, count, said, capsys):
    times = iter([0.0, 60.0])
    with LineProgress(total, done=0, clock=lambda: next(times)) as progress:
        progress.update(count)
    assert capsys.readouterr().err.splitlines() == [said]


def test_a_terminal_without_columns_gets_lines(monkeypatch):
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as screen:
        monkeypatch.setattr("sys.stderr", terminal)
        times = iter([0.0, 60.0])
        with LineProgress(20, done=0, clock=lambda: next(times)) as progress:
            progress.update(10)
        assert screen.read(1000) == b"10 of 20 lines are done, 0.2 a second, 01:00 left.\r\n"


def test_what_cannot_be_encoded_is_escaped(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(found := io.BytesIO(), encoding="latin-1"))
    print_beside_bar("ä漢")
    assert found.getvalue() == b"\xe4\\u6f22\n"
