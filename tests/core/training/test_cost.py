"""What a run costs: counted over restarts, in the head of each checkpoint; where time went."""

import contextlib
import itertools
import re
import time
from unittest import mock

import numpy as np
import pytest

from t2t_keras.environment import usable_cores
from t2t_keras.training.checkpoint_files import path_at, read_head
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.cost import (
    CHECKPOINT,
    EVALUATION,
    INPUT,
    STEP,
    CostMeter,
    RunClock,
    TrainingCost,
    copy_cost,
    cost_in,
    hardware_name,
    read_cost,
    read_costs,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves: clock[0] is the second that it shows."""
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def save(folder, before, hardware, steps):
    """Saves checkpoints of a process that began with a cost, of 10 tokens and 5 s a step."""
    process_clock = mock.Mock(training_seconds=itertools.count(5.0, 5.0).__next__)
    meter = CostMeter(before, hardware, process_clock)
    for step in steps:
        meter.tokens += 10
        head = meter.head({"loss": 2.0})
        Checkpoints(folder, {"model": {"a": np.zeros(1)}}, 9).save(step, head)
    return read_costs(folder)


def test_seconds_and_tokens_over_a_restart(tmp_path):
    sums = {"loss": 2.0}
    first = {
        1: TrainingCost(10, 5.0, "8 x P100", sums),
        2: TrainingCost(20, 10.0, "8 x P100", sums),
    }
    assert save(tmp_path, TrainingCost(), "8 x P100", [1, 2]) == first
    later = TrainingCost(20, 10.0, "8 x P100, then 1 x K80", sums)
    assert save(tmp_path, first[1], "1 x K80", [3]) == {**first, 3: later}
    assert save(tmp_path, later, "1 x K80", [4])[4].hardware == later.hardware
    head = read_head(path_at(tmp_path, 1))
    assert cost_in(copy_cost(head)) == first[1]


def test_of_a_run_without_a_cost_nothing_is_claimed(tmp_path):
    assert save(tmp_path, None, "1 x K80", [8]) == {}
    assert CostMeter(None, "1 x K80", mock.Mock()).scalars() == {}
    assert copy_cost(read_head(path_at(tmp_path, 8))) == {}
    assert read_cost(tmp_path / "model.ckpt-9") is None


def test_hardware_by_name():
    assert hardware_name(["A", "B", "A"]) == "2 x A + 1 x B"
    assert hardware_name(workers=2).startswith(f"2 workers of {usable_cores()} cores of ")


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
    actual = {part: spent for part, spent in run_clock.seconds().items() if spent}
    assert actual == {"start": 8, "evaluation": 6, "input": 1}
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
