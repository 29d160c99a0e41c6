"""What a run costs: counted over restarts, kept for the checkpoints that stand."""

import re

import pytest

from t2t_keras.environment import usable_cores
from t2t_keras.training.cost import CostMeter, TrainingCost, copy_cost, hardware_name, read_costs


def save(folder, first, hardware, steps):
    """Saves checkpoints of a process that began after step `first`, of 10 tokens and 5 s a step."""
    meter = CostMeter(folder, first, hardware)
    for step in steps:
        meter.add_tokens(10.0)
        meter.write(step, 5.0 * (step - first))
        (folder / f"model.ckpt-{step}.index").touch()
    return read_costs(folder)


def test_seconds_and_tokens_over_a_restart(tmp_path):
    first = {1: TrainingCost(10, 5.0, "8 x P100"), 2: TrainingCost(20, 10.0, "8 x P100")}
    assert save(tmp_path, 0, "8 x P100", [1, 2]) == first
    # The newest was damaged: the run continues from the one before, elsewhere.
    (tmp_path / "model.ckpt-2.index").rename(tmp_path / "damaged.model.ckpt-2.index")
    later = TrainingCost(20, 15.0, "8 x P100, then 1 x K80")
    assert save(tmp_path, 1, "1 x K80", [3]) == {1: first[1], 3: later}
    assert save(tmp_path, 3, "1 x K80", [4])[4].hardware == later.hardware
    copy_cost(tmp_path / "model.ckpt-1", tmp_path / "copy")
    assert read_costs(tmp_path / "copy") == {1: first[1]}


def test_of_a_run_without_an_entry_nothing_is_claimed(tmp_path, capsys):
    assert save(tmp_path, 7, "1 x K80", [8]) == {}
    assert re.search(r"training_cost\.json .* step 7\b", capsys.readouterr().out)
    copy_cost(tmp_path / "model.ckpt-8", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"3": {"tokens": 1}}', '{"x": {}}', '{"3": 1}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, content):
    (tmp_path / "training_cost.json").write_text(content)
    assert read_costs(tmp_path) == {}
    out = capsys.readouterr().out
    assert (out.count("training_cost.json"), out.count("\n")) == (1, 1)


def test_hardware_by_name():
    assert hardware_name(["A", "B", "A"]) == "2 x A + 1 x B"
    assert hardware_name(workers=2).startswith(f"2 workers of {usable_cores()} cores of ")
