"""Workers that train together: what they exchange, the updates they make, and how they end."""

import dataclasses
import json
import os
import random
import signal
import socket
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from tensorflow.python.eager import context
from training_runs import newest_step, numbers_in

from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.training import distributed
from t2t_keras.training.backends import tensorflow as backend
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import newest_checkpoint, path_at
from t2t_keras.training.distributed import Actions, Workers, lost_worker_error
from t2t_keras.training.run_config import TrainOptions
from t2t_keras.training.trainer import train

ADDRESSES = ("a:1", "b:2", "c:3")


def test_all_act_on_requests_after_the_same_step():
    workers = [Workers(Cluster(ADDRESSES[:2], index)) for index in range(2)]
    step, nothing = mock.Mock(), dict(stop=0, save=False, evaluate=False)

    def agree(number, stop=0, **due):
        """What both do, and what they request with the next step; the signal came to the second."""
        both = zip(workers, (0, stop), strict=True)
        agreed = [
            worker.exchange_requests(step, number, Actions(signal, **due))
            for worker, signal in both
        ]
        return agreed, [call.kwargs for call in step.request.call_args_list[-2:]]

    def hear(number, **requests):
        for worker in workers:
            sums = {f"{name}_requests": float(value) for name, value in requests.items()}
            worker.receive_requests(number, sums := {**sums, "loss": 2.0})
            assert sums == {"loss": 2.0}

    # A save and an evaluation are due on both, but only the chief's clock counts.
    requests = [dict(stop=0, save=True, evaluate=True), {**nothing, "stop": signal.SIGINT}]
    due = dict(save=True, evaluate=True)
    assert agree(3, signal.SIGINT, **due) == ([Actions()] * 2, requests)
    hear(4, stop=1, **due)
    acted = [Actions(signal.SIGTERM, **due), Actions(signal.SIGINT, **due)]
    assert agree(5, signal.SIGINT) == (acted, [nothing] * 2)
    # What was requested before all acted is fulfilled; later requests are not.
    hear(5, stop=1, **due)
    assert agree(6) == ([Actions()] * 2, [nothing] * 2)
    hear(6, stop=0, save=0, evaluate=1)
    assert agree(7) == ([Actions(evaluate=True)] * 2, [nothing] * 2)


class Gathering(Workers):
    """One of three workers, with what each gives; None = the same as this one."""

    def __init__(self, index, *values):
        super().__init__(Cluster(ADDRESSES, index))
        self.values = values

    def gather(self, value):
        self.own = value
        return [value if own is None else own for own in self.values]


@pytest.fixture
def unlike(make_record, generated):
    """unlike(record, data, options): the lines in which a worker differs from the chief."""

    def unlike(record=None, data=generated, **options):
        other = Gathering(1, None, None, None)
        other.check_same((record or make_record()).with_data(data), data, TrainOptions(**options))
        assert {"python", "tensorflow", "source of t2t_keras"} <= set(other.own)
        with refused("different_workers") as error:
            Gathering(2, None, other.own, None).check_same(make_record(), generated, TrainOptions())
        return str(error.value).splitlines()[1:]

    return unlike


def test_settings_that_differ_are_named(unlike, make_record):
    both = "{} on Worker 0 (the chief, a:1), {} on Worker 1 (b:2)".format
    assert unlike(make_record(dropout=0.3)) == ["  dropout: " + both(0.0, 0.3)]
    assert unlike(make_record(microbatch_tokens=100)) == ["  microbatch_tokens: " + both(512, 100)]
    assert unlike(eval_steps=7) == ["  --eval_steps: " + both(0, 7)]


@pytest.mark.parametrize(("split", "name"), [("train", "training data"), ("dev", "dev data")])
def test_data_that_differ_are_named(unlike, generated, split, name):
    files = {
        file: {**entry, "sha256": "0"} if file.startswith(split) else entry
        for file, entry in generated.manifest["files"].items()
    }
    data = dataclasses.replace(generated, manifest={**generated.manifest, "files": files})
    (line,) = unlike(data=data)
    assert line.startswith(f"  {name}: ")


def test_all_restore_the_chief_s_checkpoint(tmp_path, monkeypatch):
    expected, checkpoints = path_at(tmp_path, 7), mock.Mock()
    Path(expected).touch()
    checkpoints.restore_newest.return_value = expected
    assert Gathering(0, None, "", "").restore_newest(checkpoints, tmp_path) == expected
    checkpoints.restore.assert_not_called()
    other = Gathering(1, Path(expected).name, None, "")
    assert other.restore_newest(checkpoints, tmp_path) == expected
    checkpoints.restore.assert_called_once_with(expected)
    assert Gathering(1, "", None, "").restore_newest(checkpoints, tmp_path) is None
    monkeypatch.setattr(distributed, "_MAX_DELAY_SECONDS", 0)
    with refused("folder_not_shared", "model.ckpt-8", tmp_path, "--output_dir"):
        Gathering(1, "model.ckpt-8", None, "").restore_newest(checkpoints, tmp_path)


def test_seconds_and_the_barrier_reach_tensorflow(monkeypatch):
    service = mock.Mock()
    monkeypatch.setattr(context, "context", lambda: service)
    cluster = Cluster(ADDRESSES, 0)
    monkeypatch.setattr(distributed, "cluster_from_environment", lambda: cluster)
    monkeypatch.setattr(distributed, "require_free_port", lambda _: None)
    planned = lambda *_, **__: Devices(["/cpu:0"], [], 3, False)  # noqa: E731
    monkeypatch.setattr(backend, "plan_devices", planned)
    monkeypatch.setattr(backend, "multi_worker_strategy", lambda *arguments: arguments)
    monkeypatch.setattr(Workers, "gather", lambda _, value: [value])
    options = TrainOptions(worker_start_secs=7, worker_timeout_secs=1.5)
    with distributed.workers_of_run(options, 0) as workers:
        assert (workers.cluster, workers.count, workers.is_chief) == (cluster, 3, True)
    kwargs = service.configure_coordination_service.call_args.kwargs
    assert kwargs["cluster_register_timeout_in_ms"] == 7000
    assert kwargs["heartbeat_timeout_in_ms"] == 1500
    (barrier,) = service.coordination_service.MergeFrom.call_args.args
    assert barrier.cluster_register_with_barrier


REMOTE = "Additional GRPC error information from remote target /job:worker/replica:0/task:{} while "
REMOTE += "calling /tensorflow."


@pytest.mark.parametrize(
    ("message", "named", "seconds"),
    [
        (
            "Barrier timed out.\nThe first task at the barrier: /job:worker/replica:0/task:0. Some "
            "timed out task names:\n/job:worker/replica:0/task:1\n/job:worker/replica:0/task:2\n\n"
            + REMOTE.format(0)
            + "CoordinationService/RegisterTask:",
            (1, 2),
            "300 s",
        ),
        ("Deadline Exceeded\n" + REMOTE.format(0) + "CoordinationService/RegisterTask:", (0,), ""),
        (
            "from /job:worker/task:2: (stopped sending heartbeats):\n/job:worker/task:1\nThe tasks",
            (1,),
            "60 s",
        ),
        ("Socket closed\n" + REMOTE.format(1) + "WorkerService/RecvBuf:", (1,), ""),
        ("Device /job:worker/task:1/device:CPU:0 is joining a group with size4", (1,), ""),
        ("Deadline Exceeded\n\nRPC: /tensorflow.CoordinationService/Heartbeat", (0,), ""),
    ],
)
def test_the_lost_worker_is_named(message, named, seconds):
    error = tf.errors.UnavailableError(None, None, f"Collective ops is aborted by: {message}")
    end = lost_worker_error(error, Cluster(ADDRESSES, 2), TrainOptions())
    differs = "joining a group" in message
    expected = ("different_workers", 2) if differs else ("worker_ended", 75)
    assert (end.code, end.exit_status) == expected
    assert [index for index in range(3) if ADDRESSES[index] in str(end)] == list(named)
    assert seconds in str(end)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (UserError("no\nsuch file", code="no_data"), "no_data", 2),
        (OSError("disk full"), "worker_failed", 75),
        (OutOfMemoryError("OOM"), "worker_failed", 75),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), "worker_failed", 75),
    ],
)
def test_a_worker_s_own_error_reaches_the_others_with_its_status(error, code, status):
    own = lost_worker_error(error, Cluster(ADDRESSES, 1), TrainOptions())
    assert (own.code, own.exit_status) == (code, status)
    assert "Worker 1 (b:2)" in str(own)
    assert str(error) in str(own)
    text = f"Collective ops is aborted by: Error reported from /job:worker/task:1: {own} [exit "
    told = tf.errors.UnavailableError(None, None, f"{text}status {status}]\nThe error could be ...")
    command = lost_worker_error(told, Cluster(ADDRESSES, 0), TrainOptions())
    assert (str(command), command.exit_status) == (str(own), status)


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
    assert "Worker 1 (localhost:" in chief.wait_for_output(75).splitlines()[-1]

    workers = start(2 * EVALUATED)
    workers[1].terminate()
    outputs = [worker.wait_for_output(128 + signal.SIGTERM) for worker in workers]
    step, newest = newest_step(run), newest_checkpoint(run)
    assert all(f"SIGTERM after step {step};" in output for output in outputs)

    config = make_record(train_steps=step, microbatch_tokens=40)
    one = TensorFlowStep(config.make_model, config.hparams, make_strategy(4), 1)
    options = TrainOptions(local_eval_frequency=EVALUATED)
    expected = train(config, generated, alone, one, options).checkpoint
    np.testing.assert_allclose(numbers_in(newest), numbers_in(expected), atol=1e-5)
    losses, actual = evaluations(alone), evaluations(run)
    assert set(actual) - set(losses), "by time"
    assert 2 * EVALUATED in actual
    for at in set(actual) & set(losses):
        assert actual[at] == pytest.approx(losses[at], rel=1e-5)


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

    def start(run, count, machines):
        servers = [socket.create_server(("localhost", 0)) for _ in range(count)]
        cluster = {"worker": [f"localhost:{server.getsockname()[1]}" for server in servers]}
        for server in servers:
            server.close()
        flags = ["--save_checkpoints_secs=0", "--eval_secs=0"]
        flags += ["--worker_start_secs=30", "--worker_timeout_secs=10"]
        record, workers = make_record(train_steps=200), {}
        for index in range(count):
            if machines.get(index, []) is not None:
                config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
                more = machines.get(index, [])
                workers[index] = start_trainer(run, record, *flags, *more, tf_config=config)
        return workers

    return start


@pytest.fixture
def numbers_at_the_end(start_workers):
    """numbers_at_the_end(run, count): all weights and moments when a run is trained to its end."""

    def numbers(run, count):
        for worker in start_workers(run, count, {}).values():
            worker.wait_for_output(0)
        assert newest_step(run) == 200
        return numbers_in(newest_checkpoint(run))

    return numbers


def send(number, worker, run):
    """Sends a signal to a worker that has saved a checkpoint since this call, some time later."""
    before = newest_step(run)
    worker.wait_until(lambda: newest_step(run) > before)
    time.sleep(random.random() / 3)
    os.kill(worker.pid, number)


@pytest.mark.slow
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
    outputs = [
        worker.wait_for_output(status) for index, worker in workers.items() if index != victim
    ]
    record_property("seconds", time.monotonic() - start)
    assert all(words in output for output in outputs), outputs
    if victim in workers:
        workers[victim].kill()
    expected = numbers_at_the_end(tmp_path / "whole", 3)
    np.testing.assert_array_equal(numbers_at_the_end(run, 3), expected)


@pytest.mark.slow
def test_a_process_that_is_killed_200_times(start_workers, numbers_at_the_end, tmp_path):
    expected = numbers_at_the_end(tmp_path / "whole", 1)
    for trial in range(40):
        run = tmp_path / f"run {trial}"
        for _ in range(5):
            [worker] = start_workers(run, 1, {}).values()
            send(signal.SIGKILL, worker, run)
            worker.kill()
        np.testing.assert_array_equal(numbers_at_the_end(run, 1), expected)
