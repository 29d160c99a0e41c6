"""What a run shows: averages, the progress line or plain lines, and where the time went."""

import contextlib
import io
import re
import time
from unittest import mock

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.backends.curves import JsonCurves, TensorBoardCurves
from t2t_keras.training.progress import (
    CHECKPOINT,
    EVALUATION,
    INPUT,
    STEP,
    Progress,
    RunClock,
    averages,
)

SUMS = {"tokens": 4.0, "loss": 8.0, "negative_log_likelihood": 0.0, "correct": 3.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves: clock[0] is the second that it shows."""
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_averages_are_per_token_and_finite():
    assert averages(SUMS) == {"loss": 2.0, "perplexity": 1.0, "accuracy": 0.75}
    assert averages({**SUMS, "negative_log_likelihood": 1e9})["perplexity"] > 1e300


@pytest.mark.parametrize("terminal", [True, False])
def test_a_plain_line_every_100_steps_where_no_progress_line_is_shown(
    monkeypatch, capsys, clock, terminal
):
    monkeypatch.setattr("sys.stderr", stderr := Terminal() if terminal else io.StringIO())
    progress = Progress(curves := mock.Mock(), 150, 1250)
    for number in range(150, 310):
        if number == 220:
            clock[0] += 1000
            progress.evaluated({"loss": 7.0}, "the report")
        clock[0] += 0.5
        progress.step(SUMS, 0.0005, 1.5)
    progress.close()
    shown = r"Step 200 of 1,250: loss 2.000, .* 5.00e-04, .*\nthe report\nStep 300 of .*\n"
    assert re.fullmatch("the report\n" if terminal else shown, capsys.readouterr().out)
    assert bool(stderr.getvalue()) == terminal
    (kind, step, train), evaluation, (_, later, after) = (
        call.args for call in curves.write.call_args_list
    )
    assert (kind, step, later) == ("train", 200, 300)
    assert (train["loss"], train["gradient_norm"], train["learning_rate"]) == (2.0, 1.5, 0.0005)
    assert evaluation == ("eval", 220, {"loss": 7.0})
    assert train["tokens_per_second"] == after["tokens_per_second"] == 4.0 / 0.5
    curves.close.assert_called_once()


def test_the_progress_line_moves_while_the_system_s_time_is_set_back(monkeypatch, clock):
    monkeypatch.setattr("tqdm.std.time", lambda: 1e9 - 3600 * clock[0])
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    progress = Progress(None, 0, 1000)
    clock[0] += 10
    progress.step(SUMS, 0.0005, 1.5)
    assert "1/1000 [00:10<" in stderr.getvalue()


@pytest.mark.parametrize("kind", [TensorBoardCurves, JsonCurves])
def test_where_curves_cannot_be_written_the_reason_is_said(tmp_path, kind):
    (tmp_path / "train").touch()
    curves = kind(tmp_path)
    with pytest.raises(UserError, match=rf"Cannot write {tmp_path}/train.*the same command"):
        curves.write("train", 1, {"loss": 2.0})
    curves.close()


def spend(run_clock, clock, *parts_and_seconds):
    for part, seconds in parts_and_seconds:
        with run_clock.spent_on(part):
            clock[0] += seconds


def test_all_until_the_first_step_is_finished_is_the_start(clock, capsys):
    run_clock = RunClock()
    spend(run_clock, clock, (INPUT, 3), (STEP, 5))
    run_clock.show()
    assert capsys.readouterr().out == "Of 8.0 s: start 100.0%.\n"
    # Without a step it ends with the first evaluation.
    spend(run_clock, clock, (EVALUATION, 6), (INPUT, 1))
    found = {part: spent for part, spent in run_clock.seconds().items() if spent}
    assert found == {"start": 8, "evaluation": 6, "input": 1}


def test_parts_are_together_the_time_of_the_loop(clock):
    run_clock = RunClock()
    clock[0] += 4
    run_clock.begin_training()
    clock[0] += 6
    run_clock.end_start()
    for part in ((INPUT, 4), (STEP, 16), (INPUT, 1), (CHECKPOINT, 2), (EVALUATION, 3)):
        spend(run_clock, clock, part)
        clock[0] += 0.5
    with contextlib.suppress(ValueError), run_clock.spent_on(STEP):
        clock[0] += 5
        raise ValueError("the step failed")
    expected = {"start": 10, "input": 5, "step": 21, "evaluation": 3, "checkpoint": 2, "other": 2.5}
    assert run_clock.seconds() == expected
    # From `begin_training` on, without evaluations and checkpoints.
    assert run_clock.training_seconds() == 6 + 5 + 21 + 2.5
