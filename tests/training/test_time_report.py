"""Where the time of a run went."""

import contextlib
import re

import pytest

from t2t_keras.training import time_report
from t2t_keras.training.time_report import CHECKPOINT, EVALUATION, INPUT, STEP, TimeReport


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves: clock[0] is the second that it shows."""
    now = [50.0]
    monkeypatch.setattr(time_report.time, "monotonic", lambda: now[0])
    return now


def spend(report, clock, part, seconds):
    with report.spent_on(part):
        clock[0] += seconds


def test_all_before_the_first_step_is_the_start(clock, capsys):
    report = TimeReport()
    spend(report, clock, INPUT, 3)
    spend(report, clock, STEP, 5)
    assert report.seconds() == {"start": 8}
    report.show()
    assert capsys.readouterr().out == "Of 8.0 s: start 100.0%.\n"
    clock[0] += 2
    report.finished_a_step()
    assert report.seconds()["start"] == 10


def test_a_run_without_a_step_starts_until_it_evaluates(clock, capsys):
    report = TimeReport()
    clock[0] += 2
    spend(report, clock, EVALUATION, 6)
    report.show()
    assert capsys.readouterr().out == (
        "Of 8.0 s: start 25.0%, input 0.0%, step 0.0%, evaluation 75.0%, checkpoint 0.0%, "
        "other 0.0%.\n"
    )


def test_parts_are_together_the_time_of_the_loop(clock, capsys):
    report = TimeReport()
    clock[0] += 10
    report.finished_a_step()
    for part, seconds in ((INPUT, 4), (STEP, 16), (INPUT, 1), (CHECKPOINT, 2)):
        spend(report, clock, part, seconds)
        report.finished_a_step()
        clock[0] += 0.5
    with contextlib.suppress(ValueError), report.spent_on(STEP):
        clock[0] += 5
        raise ValueError("the step failed")
    assert report.seconds() == {
        "start": 10,
        "input": 5,
        "step": 21,
        "evaluation": 0,
        "checkpoint": 2,
        "other": 2,
    }
    report.show()
    out = capsys.readouterr().out
    assert out.startswith("Of 40.0 s: start 25.0%, input 12.5%, step 52.5%, evaluation 0.0%")
    assert sum(map(float, re.findall(r"([\d.]+)%", out))) == pytest.approx(100)


def test_a_block_in_which_the_first_step_is_finished_counts_from_there(clock):
    report = TimeReport()
    with report.spent_on(STEP):
        clock[0] += 7
        report.finished_a_step()
        clock[0] += 1
    assert report.seconds() == pytest.approx(
        {"start": 7, "input": 0, "step": 1, "evaluation": 0, "checkpoint": 0, "other": 0}
    )
