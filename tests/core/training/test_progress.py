"""What a run shows: averages, the progress line or plain lines, and where the time went."""

import contextlib
import io
import os
import pty
import re
import termios
import time
from unittest import mock

import pytest
from refusals import refused

from t2t_keras.training.curves import JsonCurves, TensorBoardCurves
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
SCALARS = {"learning_rate": 0.0005, "gradient_norm": 1.5}


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
        # The last step before a line says little.
        loss = 42.0 if number == 299 else 8.0 if number < 210 else 10.0
        progress.step({**SUMS, "loss": loss}, SCALARS)
    progress.close()
    shown = (
        r"step 200/1250  loss 2.00  lr 5.0e-04  8.00 tok/s  eta 08:45\nthe report\n"
        r"step 300/1250  loss 2.53  lr .*\n"
    )
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
    progress.step(SUMS, SCALARS)
    assert f"step 1/1000  loss 2.00  lr 5.0e-04  0.40 tok/s  eta {999 * 10 // 3600}:" in (
        stderr.getvalue()
    )


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize(("before", "last"), [(134, 4000), (134_999, 300_000)])
def test_the_progress_line_fits_a_terminal(monkeypatch, clock, columns, before, last):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        progress = Progress(None, before, last)
        clock[0] += 1
        sums = {**SUMS, "tokens": 7219.0, "loss": 7219 * 7.27}
        progress.step(sums, {**SCALARS, "learning_rate": 4.7e-5})
        progress.close()
    shown = b""
    # What was written arrives in pieces; an error is its end.
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while some := terminal.read(4096):
            shown += some
    lines = shown.decode().rstrip().split("\r")
    assert {len(line) for line in lines[1:]} == {columns - 1}
    text = rf"step {before + 1}/{last}  loss 7.27  lr 4.7e-05  7.22k tok/s  eta [\d:]+  \|.+\|"
    assert re.fullmatch(text, lines[-1])


@pytest.mark.parametrize("kind", [TensorBoardCurves, JsonCurves])
def test_where_curves_cannot_be_written_the_reason_is_said(tmp_path, kind):
    (tmp_path / "train").touch()
    curves = kind(tmp_path)
    with refused("not_written", tmp_path / "train"):
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
    shown = re.findall(r"[\d.]+ s|\w+ [\d.]+%", capsys.readouterr().out)
    assert shown == ["8.0 s", "start 100.0%"]
    # Without a step it ends with the first evaluation.
    spend(run_clock, clock, (EVALUATION, 6), (INPUT, 1))
    found = {part: spent for part, spent in run_clock.seconds().items() if spent}
    assert found == {"start": 8, "evaluation": 6, "input": 1}
    run_clock = RunClock()  # Or with the first checkpoint.
    spend(run_clock, clock, (CHECKPOINT, 2))
    assert run_clock.seconds()["checkpoint"] == 2


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
