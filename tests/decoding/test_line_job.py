from collections import Counter

import pytest

from t2t_keras.decoding.line_job import Finished
from t2t_keras.decoding.line_progress import LineProgress


def test_a_resumed_job_s_speed_is_that_of_its_own_lines():
    assert Finished(Counter(), lines=1000, lines_before=900, seconds=10.0).lines_a_second == 10.0


@pytest.mark.parametrize(
    ("total", "of_total", "left"),
    [
        # 870 lines at 30 in 61 s, 850 at 50 in 122 s.
        (1000, " of 1,000", (", 29:29 left", ", 34:34 left")),
        (100_130, " of 100,130", (", 56:28:53 left", ", 67:45:51 left")),
        (None, "", ("", "")),
    ],
)
def test_progress_in_a_log_is_a_line_a_minute(capsys, total, of_total, left):
    times = iter([0.0, 30.0, 59.0, 61.0, 100.0, 122.0, 123.0])
    with LineProgress(total, 100, clock=times.__next__) as progress:
        for _ in range(5):
            progress.add(10)
        progress.set(200)
    assert capsys.readouterr().err.splitlines() == [
        f"130{of_total} lines are done, 0.5 a second{left[0]}.",
        f"150{of_total} lines are done, 0.4 a second{left[1]}.",
    ]


def test_progress_of_nothing_and_of_more_parts_than_lines(capsys):
    times = iter([0.0, 60.0, 120.0])
    with LineProgress(20, 10, clock=times.__next__) as progress:
        progress.add(0)
        progress.add(30)
    assert capsys.readouterr().err.splitlines() == [
        "10 of 20 lines are done, 0.0 a second.",
        "40 of 20 lines are done, 0.2 a second, 00:00 left.",
    ]
