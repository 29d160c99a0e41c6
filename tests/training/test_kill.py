"""A process that is killed, at a random step or while it writes, and started again."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

STEPS = 36


@pytest.fixture
def start(generated, tmp_path):
    """Returns a function that starts a trainer process which saves after every step."""

    def start(name, steps=STEPS):
        config = ",".join(f"{key}={value}" for key, value in generated.problem.config().items())
        command = [sys.executable, "-m", "t2t_keras.bin.t2t_trainer"]
        command += [f"--output_dir={tmp_path / name}", f"--train_steps={steps}"]
        command += [f"--problem={generated.problem.name}", f"--problem_config={config}"]
        command += [f"--data_dir={generated.directory.parent}", "--hparams_set=transformer_tiny"]
        command += ["--hparams=num_layers=1,d_model=64,d_ff=512,batch_tokens=300,max_length=32"]
        command += ["--schedule=train", "--save_checkpoints_secs=0", "--keep_checkpoint_max=3"]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start


@pytest.fixture(scope="module")
def never_stopped():
    """Keeps the numbers of the run that nobody stopped, once for the module."""
    return {}


def finished(process):
    """Waits for a process to end well; returns what it printed."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def wait_for(condition, process, seconds=120):
    """Waits, looking every millisecond, until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def expected(start, tmp_path, everything_in, never_stopped):
    """All numbers after all steps of a run that nobody stopped."""
    if not never_stopped:
        finished(start("never stopped"))
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
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    done = newest_step(run)
    assert at <= done < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in finished(start("killed"))
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
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if any(run.glob("model.ckpt-*_temp")):
            break
    else:
        pytest.fail("no kill hit the writing of a checkpoint")
    assert newest_step(run) < STEPS
    finished(start("killed writing"))
    assert not list(run.glob("*_temp"))
    np.testing.assert_array_equal(everything_in(tf.train.latest_checkpoint(str(run))), expected)
