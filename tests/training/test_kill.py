"""A process that is killed, at a random step or while it writes, and started again."""

import random
import time

import numpy as np
import pytest

STEPS = 36
EXPECTED = pytest.StashKey()


@pytest.fixture
def start(start_trainer, tmp_path):
    """Returns a function that starts a trainer process which saves after every step."""
    size = "--hparams=num_layers=1,d_model=64,d_ff=512,batch_tokens=300,max_length=32"
    saves = ("--save_checkpoints_secs=0", "--keep_checkpoint_max=3")
    return lambda name: start_trainer(tmp_path / name, f"--train_steps={STEPS}", size, *saves)


@pytest.fixture
def expected(start, tmp_path, everything_in, request):
    """All numbers after all steps of a run that nobody stopped, trained once for the module."""
    kept = request.node.parent.stash
    if EXPECTED not in kept:
        start("uninterrupted").said()
        kept[EXPECTED] = everything_in(tmp_path / "uninterrupted" / f"model.ckpt-{STEPS}")
    return kept[EXPECTED]


def wait_for(condition, process):
    """Waits, looking every millisecond, until the condition holds."""
    while not condition():
        process.check_running()
        time.sleep(0.001)


@pytest.mark.parametrize("writing", [False, True], ids=["at a random step", "while it saves"])
def test_what_was_killed_continues_bit_for_bit(
    start, expected, tmp_path, everything_in, newest_step, writing
):
    run = tmp_path / "killed"
    at, hit = random.randrange(1, STEPS // 3), False
    for _ in range(5):
        process, first = start("killed"), newest_step(run)
        wait_for(lambda first=first: newest_step(run) > first + at // 5, process)
        wait_for(lambda: not writing or any(run.glob("model.ckpt-*_temp")), process)
        process.kill()
        if hit := not writing or any(run.glob("model.ckpt-*_temp")):
            break
    assert hit, "no kill hit the writing of a checkpoint"
    assert 0 < newest_step(run) < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in start("killed").said()
    assert not list(run.glob("*_temp"))
    np.testing.assert_array_equal(everything_in(run / f"model.ckpt-{STEPS}"), expected)
