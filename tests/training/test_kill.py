"""A process that is killed, at a random step or while it writes, and started again."""

import random
import time

import numpy as np
import pytest
import tensorflow as tf

STEPS = 36


@pytest.fixture
def start(start_trainer, tmp_path):
    """Returns a function that starts a trainer process which saves after every step."""
    size = "--hparams=num_layers=1,d_model=64,d_ff=512,batch_tokens=300,max_length=32"
    saves = ("--save_checkpoints_secs=0", "--keep_checkpoint_max=3")
    return lambda name: start_trainer(tmp_path / name, f"--train_steps={STEPS}", size, *saves)


@pytest.fixture(scope="module")
def never_stopped():
    """Keeps the numbers of the run that nobody stopped, once for the module."""
    return {}


def wait_for(condition, process, seconds=120):
    """Waits, looking every millisecond, until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        process.check_running()
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def expected(start, tmp_path, everything_in, never_stopped):
    """All numbers after all steps of a run that nobody stopped."""
    if not never_stopped:
        start("never stopped").said()
        never_stopped["weights"] = everything_in(
            tf.train.latest_checkpoint(str(tmp_path / "never stopped"))
        )
    return never_stopped["weights"]


def test_killed_at_a_random_step_continues_bit_for_bit(
    start, expected, tmp_path, everything_in, newest_step
):
    run = tmp_path / "killed"
    at = random.randrange(1, STEPS - 10)
    process = start("killed")
    wait_for(lambda: newest_step(run) >= at, process)
    process.kill()
    done = newest_step(run)
    assert at <= done < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in start("killed").said()
    np.testing.assert_array_equal(everything_in(tf.train.latest_checkpoint(str(run))), expected)


def test_killed_while_it_writes_a_checkpoint_continues_bit_for_bit(
    start, expected, tmp_path, everything_in, newest_step
):
    run = tmp_path / "killed writing"
    for _ in range(5):
        process = start("killed writing")
        first = newest_step(run)
        wait_for(lambda first=first: newest_step(run) > first + 1, process)
        wait_for(lambda: any(run.glob("model.ckpt-*_temp")), process)
        process.kill()
        if any(run.glob("model.ckpt-*_temp")):
            break
    else:
        pytest.fail("no kill hit the writing of a checkpoint")
    assert newest_step(run) < STEPS
    start("killed writing").said()
    assert not list(run.glob("*_temp"))
    np.testing.assert_array_equal(everything_in(tf.train.latest_checkpoint(str(run))), expected)
