"""What a run costs: counted over restarts, kept for the checkpoints that stand."""

import json

import pytest

from t2t_keras.environment import usable_cores
from t2t_keras.training.cost import CostMeter, TrainingCost, copy_cost, hardware_name, read_costs


def save(meter, folder, step, seconds):
    meter.write(step, seconds)
    (folder / f"model.ckpt-{step}.index").touch()


def test_seconds_and_tokens_over_a_restart(tmp_path):
    meter = CostMeter(tmp_path, 0, "8 x P100")
    meter.add_tokens(70.0)
    save(meter, tmp_path, 3, 15.0)
    meter.add_tokens(30)
    save(meter, tmp_path, 6, 35.0)
    assert json.loads((tmp_path / "training_cost.json").read_text()) == {
        "3": {"target_tokens": 70, "seconds": 15.0, "hardware": "8 x P100"},
        "6": {"target_tokens": 100, "seconds": 35.0, "hardware": "8 x P100"},
    }
    # The newest was damaged: the run continues from the one before, elsewhere.
    (tmp_path / "model.ckpt-6.index").rename(tmp_path / "damaged.model.ckpt-6.index")
    meter = CostMeter(tmp_path, 3, "1 x K80")
    meter.add_tokens(1)
    save(meter, tmp_path, 4, 2.0)
    costs = read_costs(tmp_path)
    assert costs.keys() == {3, 4}
    assert costs[4] == TrainingCost(71, 17.0, "8 x P100, then 1 x K80")
    copy_cost(tmp_path / "model.ckpt-3", tmp_path / "copy")
    assert read_costs(tmp_path / "copy") == {3: costs[3]}


def test_of_a_run_without_an_entry_nothing_is_claimed(tmp_path, capsys):
    meter = CostMeter(tmp_path, 7, "1 x K80")
    assert "no entry for step 7" in capsys.readouterr().out
    meter.add_tokens(1)
    save(meter, tmp_path, 8, 1.0)
    assert read_costs(tmp_path) == {}
    copy_cost(tmp_path / "model.ckpt-8", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"3": {"tokens": 1}}', '{"x": {}}', '{"3": 1}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, content):
    (tmp_path / "training_cost.json").write_text(content)
    assert read_costs(tmp_path) == {}
    said = capsys.readouterr().out
    assert f"{tmp_path / 'training_cost.json'}" in said
    assert "not used" in said


def test_hardware_by_name():
    assert hardware_name(["P100"] * 8) == "8 x P100"
    assert hardware_name(["A", "B", "A"], workers=2) == "2 workers of 2 x A + 1 x B"
    assert hardware_name().startswith(f"{usable_cores()} cores of ")
