from collections import Counter

import pytest

from t2t_keras.decoding.line_job import Finished
from t2t_keras.decoding.line_progress import LineProgress


def test_a_resumed_job_s_speed_is_that_of_its_own_lines():
    assert Finished(Counter(), lines=1000, lines_before=900, seconds=10.0).lines_a_second == 10.0


@pytest.mark.parametrize(("total", "of_total"), [(1000, " of 1,000"), (None, "")])
def test_progress_in_a_log_is_a_line_a_minute(capsys, total, of_total):
    times = iter([0.0, 30.0, 59.0, 61.0, 100.0, 122.0, 123.0])
    with LineProgress(total, 100, clock=times.__next__) as progress:
        for _ in range(5):
            progress.add(10)
        progress.set(200)
    assert capsys.readouterr().err.splitlines() == [
        f"130{of_total} lines are done, 0.5 a second.",
        f"150{of_total} lines are done, 0.4 a second.",
    ]
