"""Two processes that train together: as one process does, and again after a fault."""

import json
import re
import signal
import socket
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.trainer import train

STEPS = 16
SIZE = "num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10,max_length=32,batch_tokens=300"


@pytest.fixture
def start(start_trainer, tmp_path):
    """Returns a function that starts two workers of the run `tmp_path / "run"`."""

    def start(devices, microbatch, *more):
        servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
        addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
        for server in servers:
            server.close()
        flags = f"--train_steps={STEPS}", f"--hparams={SIZE},microbatch_tokens={microbatch}", *more
        return [
            start_trainer(
                tmp_path / "run",
                *flags,
                cluster={
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                },
                devices=devices,
            )
            for index in range(2)
        ]

    return start


@pytest.fixture
def train_here(make_record, make_strategy, generated, tmp_path, everything_in):
    """Returns a function that trains in this process; returns all numbers of its checkpoint."""

    def train_here(replicas, tokens):
        config = make_record(train_steps=STEPS, microbatch_tokens=tokens)
        step = TensorFlowStep(config.make_model, config.hparams, make_strategy(replicas), 1)
        train(config, generated, tmp_path / "here", step)
        return everything_in(tmp_path / "here" / f"model.ckpt-{STEPS}")

    return train_here


def test_two_workers_make_the_updates_of_one_process(start, train_here, tmp_path, everything_in):
    for worker in start(2, 40, "--schedule=train_and_evaluate"):
        assert "on 4 replica(s)" in worker.said()
    several = everything_in(tmp_path / "run" / f"model.ckpt-{STEPS}")
    np.testing.assert_allclose(several, train_here(4, 40), atol=1e-5)
    ours, theirs = (
        json.loads((tmp_path / name / "evaluations.json").read_text()) for name in ("run", "here")
    )
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_killed_and_a_stopped_run_continue_as_if_nothing_had_happened(
    start, train_here, tmp_path, everything_in, newest_step
):
    run = tmp_path / "run"

    def start_until_saved():
        workers, step = start(1, "auto", "--save_checkpoints_secs=0"), newest_step(run)
        while newest_step(run) < step + 3:
            workers[0].check_running()
            time.sleep(0.01)
        return workers

    chief, other = start_until_saved()
    other.kill()
    said = chief.said(75)
    assert "Worker 1 (localhost:" in said.splitlines()[-1]
    tokens = int(re.search("^microbatch_tokens=auto: ([0-9]+),", said, re.MULTILINE)[1])

    workers, before = start_until_saved(), newest_step(run)
    workers[1].send_signal(signal.SIGTERM)
    for said in [worker.said(143) for worker in workers]:
        assert f"SIGTERM after step {newest_step(run)};" in said
    assert before <= newest_step(run) < STEPS

    for worker in start(1, "auto"):
        worker.said()
    several = everything_in(tf.train.latest_checkpoint(str(run)))
    np.testing.assert_allclose(several, train_here(2, tokens), atol=1e-5)
