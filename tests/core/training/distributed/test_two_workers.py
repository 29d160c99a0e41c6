"""Two processes that train together make the updates of one, whatever happens to them."""

import json
import signal
import socket

import numpy as np
import pytest
from training_runs import newest_step, numbers_in

from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import newest_checkpoint
from t2t_keras.training.run_config import TrainOptions
from t2t_keras.training.trainer import train

EVALUATED = 4


def evaluations(run):
    lines = map(json.loads, (run / "evaluations.json").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines}


def test_a_killed_and_a_stopped_run_make_the_updates_of_one_process(
    start_trainer, make_record, make_strategy, generated, tmp_path
):
    run, alone = tmp_path / "run", tmp_path / "alone"

    def start(until):
        servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
        cluster = {"worker": [f"localhost:{server.getsockname()[1]}" for server in servers]}
        for server in servers:
            server.close()
        flags = ["--schedule=train_and_evaluate", f"--local_eval_frequency={EVALUATED}"]
        # Often also by time, which the workers must agree on.
        flags += ["--eval_secs=0.1", "--save_checkpoints_secs=0"]
        record = make_record(train_steps=1000, microbatch_tokens=40)
        configs = [
            {"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)
        ]
        workers = [start_trainer(run, record, *flags, tf_config=config) for config in configs]
        workers[0].wait_until(lambda: newest_step(run) >= until)
        return workers

    chief, other = start(EVALUATED - 2)
    other.kill()
    assert "Worker 1 (localhost:" in chief.said(75).splitlines()[-1]

    workers = start(2 * EVALUATED)
    workers[1].terminate()
    said = [worker.said(128 + signal.SIGTERM) for worker in workers]
    step, newest = newest_step(run), newest_checkpoint(run)
    assert all(f"SIGTERM after step {step};" in each for each in said)

    config = make_record(train_steps=step, microbatch_tokens=40)
    one = TensorFlowStep(config.make_model, config.hparams, make_strategy(4), 1)
    options = TrainOptions(local_eval_frequency=EVALUATED)
    expected = train(config, generated, alone, one, options).checkpoint
    np.testing.assert_allclose(numbers_in(newest), numbers_in(expected), atol=1e-5)
    losses, found = evaluations(alone), evaluations(run)
    assert set(found) - set(losses), "by time"
    assert 2 * EVALUATED in found
    for at in set(found) & set(losses):
        assert found[at] == pytest.approx(losses[at], rel=1e-5)
