"""What a run costs: counted over restarts, kept for the checkpoints that stand."""

import json

import pytest

from t2t_keras.processor_cores import usable_cores
from t2t_keras.training import training_cost
from t2t_keras.training.training_cost import CostMeter, copy_cost, hardware_name, read_costs


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves on: clock(seconds)."""
    now = [100.0]

    def move(seconds):
        now[0] += seconds

    monkeypatch.setattr(training_cost.time, "monotonic", lambda: now[0])
    return move


def save(meter, folder, step):
    with meter.paused():
        meter.write(step)
        (folder / f"model.ckpt-{step}.index").touch()


def test_seconds_and_tokens_over_a_restart(clock, tmp_path):
    meter = CostMeter(tmp_path, 0, "8 x P100")
    meter.add_tokens(70.0)
    clock(10)
    with meter.paused():
        clock(1000)
    clock(5)
    save(meter, tmp_path, 3)
    meter.add_tokens(30)
    clock(20)
    save(meter, tmp_path, 6)
    assert json.loads((tmp_path / "training_cost.json").read_text()) == {
        "3": {"target_tokens": 70, "seconds": 15.0, "hardware": "8 x P100"},
        "6": {"target_tokens": 100, "seconds": 35.0, "hardware": "8 x P100"},
    }
    # The newest was damaged: the run continues from the one before, elsewhere.
    (tmp_path / "model.ckpt-6.index").rename(tmp_path / "damaged.model.ckpt-6.index")
    meter = CostMeter(tmp_path, 3, "1 x K80")
    meter.add_tokens(1)
    clock(2)
    save(meter, tmp_path, 4)
    costs = read_costs(tmp_path)
    assert set(costs) == {3, 4}
    assert (costs[4].target_tokens, costs[4].seconds) == (71, 17.0)
    assert costs[4].hardware == "8 x P100, then 1 x K80"


def test_of_a_run_without_an_entry_nothing_is_claimed(tmp_path, capsys):
    meter = CostMeter(tmp_path, 7, "1 x K80")
    assert "no entry for step 7" in capsys.readouterr().out
    save(meter, tmp_path, 8)
    assert read_costs(tmp_path) == {}


@pytest.mark.parametrize("content", ["{", "[]", '{"3": {"tokens": 1}}', '{"x": {}}', "3"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, content):
    (tmp_path / "training_cost.json").write_text(content)
    assert read_costs(tmp_path) == {}
    said = capsys.readouterr().out
    # An empty list has no entries, but is no mapping either.
    assert f"{tmp_path / 'training_cost.json'} cannot be read" in said


def test_a_copy_has_the_entry_of_its_checkpoint(clock, tmp_path):
    meter = CostMeter(tmp_path, 0, "1 x K80")
    clock(4)
    save(meter, tmp_path, 2)
    clock(4)
    save(meter, tmp_path, 4)
    copy_cost(tmp_path / "model.ckpt-2", tmp_path / "copy")
    assert read_costs(tmp_path / "copy") == {2: read_costs(tmp_path)[2]}
    copy_cost(tmp_path / "model.ckpt-3", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_hardware_by_name():
    assert hardware_name(["P100"] * 8) == "8 x P100"
    assert hardware_name(["A", "B", "A"]) == "2 x A + 1 x B"
    assert hardware_name().startswith(f"{usable_cores()} cores of ")
    assert len(hardware_name()) > len(f"{usable_cores()} cores of ")
