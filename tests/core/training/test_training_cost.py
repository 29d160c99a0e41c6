"""What a run costs: counted over restarts, in the head of each checkpoint."""

import numpy as np

from t2t_keras.environment import usable_cores
from t2t_keras.training.checkpoint_files import path_at, read_head
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.cost import (
    CostMeter,
    TrainingCost,
    cost_in,
    hardware_name,
    read_cost,
    read_costs,
    same_cost,
)


def save(folder, before, hardware, steps):
    """Saves checkpoints of a process that began with a cost, of 10 tokens and 5 s a step."""
    meter = CostMeter(before, hardware)
    for number, step in enumerate(steps, 1):
        meter.add_tokens(10.0)
        head = meter.head(5.0 * number, {"loss": 2.0})
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
    assert cost_in(same_cost(head)) == first[1]
    assert CostMeter(first[1], "").epoch_sums == sums


def test_of_a_run_without_a_cost_nothing_is_claimed(tmp_path):
    assert save(tmp_path, None, "1 x K80", [8]) == {}
    assert CostMeter(None, "1 x K80").seconds(5.0) is None
    assert same_cost(read_head(path_at(tmp_path, 8))) == {}
    assert read_cost(tmp_path / "model.ckpt-9") is None


def test_hardware_by_name():
    assert hardware_name(["A", "B", "A"]) == "2 x A + 1 x B"
    assert hardware_name(workers=2).startswith(f"2 workers of {usable_cores()} cores of ")
