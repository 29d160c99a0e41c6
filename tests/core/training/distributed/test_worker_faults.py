"""Faults of workers that train together: the others end in time, and the same command continues."""

import os
import random
import signal
import socket
import time

import numpy as np
import pytest
from training_runs import newest_step, numbers_in

from t2t_keras.training.checkpoint_files import newest_checkpoint

pytestmark = pytest.mark.slow

# By name: the worker that fails, the signal that it gets while it trains, its other flags (None: it
# never starts), and the exit status and words of the others.
FAULTS = {
    "killed": (1, signal.SIGKILL, [], 75, "Worker 1 (localhost:"),
    "chief killed": (0, signal.SIGKILL, [], 75, "Worker 0 (the chief, localhost:"),
    "stopped": (1, signal.SIGSTOP, [], 75, "Worker 1 (localhost:"),
    "chief stopped": (0, signal.SIGSTOP, [], 75, "Worker 0 (the chief, localhost:"),
    "never starts": (1, None, None, 75, "did not start within 30 s"),
    "chief never starts": (0, None, None, 75, "did not start within 30 s"),
    "other settings": (1, None, ["--random_seed=2"], 2, "The workers have different settings:"),
    "no data": (1, None, ["--data_dir=missing"], 2, "Worker 1 (localhost:"),
}


@pytest.fixture
def start_workers(start_trainer, make_record):
    """start_workers(run, count, {index: flags}): the workers by index, without those of None."""

    def start(run, count, others):
        servers = [socket.create_server(("localhost", 0)) for _ in range(count)]
        cluster = {"worker": [f"localhost:{server.getsockname()[1]}" for server in servers]}
        for server in servers:
            server.close()
        flags = ["--save_checkpoints_secs=0", "--eval_secs=0"]
        flags += ["--worker_start_secs=30", "--worker_timeout_secs=10"]
        record, workers = make_record(train_steps=200), {}
        for index in range(count):
            if others.get(index, []) is not None:
                config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
                more = others.get(index, [])
                workers[index] = start_trainer(run, record, *flags, *more, tf_config=config)
        return workers

    return start


@pytest.fixture
def numbers_at_the_end(start_workers):
    """numbers_at_the_end(run, count): all weights and moments when a run is trained to its end."""

    def numbers(run, count):
        for worker in start_workers(run, count, {}).values():
            worker.said(0)
        assert newest_step(run) == 200
        return numbers_in(newest_checkpoint(run))

    return numbers


def send(number, worker, run):
    """Sends a signal to a worker that has saved a checkpoint since this call, some time later."""
    before = newest_step(run)
    worker.wait_until(lambda: newest_step(run) > before)
    time.sleep(random.random() / 3)
    os.kill(worker.pid, number)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_end_and_the_same_command_continues(
    fault, start_workers, numbers_at_the_end, tmp_path, record_property
):
    victim, number, flags, status, words = FAULTS[fault]
    run = tmp_path / "run"
    workers = start_workers(run, 3, {victim: flags})
    if number:
        send(number, workers[victim], run)
    start = time.monotonic()
    said = [worker.said(status) for index, worker in workers.items() if index != victim]
    record_property("seconds", time.monotonic() - start)
    assert all(words in each for each in said), said
    if victim in workers:
        workers[victim].kill()
    expected = numbers_at_the_end(tmp_path / "whole", 3)
    np.testing.assert_array_equal(numbers_at_the_end(run, 3), expected)


def test_a_process_that_is_killed_200_times(start_workers, numbers_at_the_end, tmp_path):
    expected = numbers_at_the_end(tmp_path / "whole", 1)
    for trial in range(40):
        run = tmp_path / f"run {trial}"
        for _ in range(5):
            [worker] = start_workers(run, 1, {}).values()
            send(signal.SIGKILL, worker, run)
            worker.kill()
        np.testing.assert_array_equal(numbers_at_the_end(run, 1), expected)
