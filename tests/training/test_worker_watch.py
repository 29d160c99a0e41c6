"""Each fault of a worker ends all workers in time, with a text that names the worker and the cause.

The processes are real, and only pretend to train; `benchmarks/worker_faults.py` does it in earnest.
"""

import concurrent.futures
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t_keras.training import worker_watch
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.worker_links import Link, connect, listen
from t2t_keras.training.worker_meeting import tell_failure
from t2t_keras.training.worker_watch import WorkerWatch

SILENCE = 3.0
# Seconds that docs/distributed.md states: after a fault, or after the time that it is waited for.
STATED = 10.0


@pytest.fixture
def addresses():
    """Three addresses; the chief's watch port, the only one in use, was free a moment ago."""
    while True:
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1] - 1000
        if 1024 < port < 60_000:
            return [f"localhost:{port + number}" for number in range(3)]


@pytest.fixture
def start(addresses):
    """Returns a function that starts a worker; what it started is ended with the test."""
    started = []

    def start(index, uses=None, start=60.0, **case):
        usual = dict(addresses=addresses, silence=SILENCE)
        case = json.dumps({**usual, **case, "index": index, "uses": uses or {}, "start": start})
        script = Path(__file__).with_name("watched_worker.py")
        started.append(
            subprocess.Popen(
                [sys.executable, script, case],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def training(start, **cases):
    """Starts three workers, of which some differ, and returns them when all train."""
    workers = [start(index, **cases.get(f"worker_{index}", {})) for index in range(3)]
    for worker in workers:
        assert worker.stdout.readline() == "trains\n", worker.stderr.read()
    return workers


def said(worker, status, seconds=30):
    """Returns what a worker says at its end, which must come in time and with this status."""
    _, text = worker.communicate(timeout=seconds)
    assert worker.returncode == status, text
    return text


@contextlib.contextmanager
def within(seconds):
    """Checks that what is done inside takes no longer."""
    since = time.monotonic()
    yield
    assert time.monotonic() - since < seconds


def to_chief(addresses):
    """Returns a connection to the chief, as soon as it listens."""
    end = time.monotonic() + 30
    while True:
        try:
            return connect(Cluster(tuple(addresses), 1).watch_address, 1.0)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_workers_that_finish(start):
    # One waits for the others at the end, and its silence then is no fault.
    workers = [start(index, steps=6 + 40 * index) for index in range(3)]
    for worker in workers:
        assert worker.communicate(timeout=30)[0] == "trains\nfinished\n"
        assert worker.returncode == 0


@pytest.mark.parametrize("victim", [1, 0])
def test_a_killed_worker(start, addresses, victim):
    workers = training(start)
    workers.pop(victim).kill()
    chief = "the chief, " if victim == 0 else ""
    # Nobody waits for its silence.
    with within(SILENCE):
        for worker in workers:
            text = said(worker, 75)
            assert f"Worker {victim} ({chief}{addresses[victim]}) was killed or crashed" in text
            assert "The same command on every machine continues from run/model.ckpt-13." in text


@pytest.mark.parametrize("victim", [2, 0])
def test_a_stopped_worker(start, victim):
    workers = training(start)
    stopped = workers.pop(victim)
    stopped.send_signal(signal.SIGSTOP)
    with within(SILENCE + STATED):
        for worker in workers:
            text = said(worker, 75)
            assert f"Worker {victim} (" in text
            assert f"has not been heard of for {SILENCE:g} s" in text
    stopped.send_signal(signal.SIGCONT)
    assert "Worker " in said(stopped, 75)


def test_a_worker_that_lives_but_does_not_go_on(start):
    workers = training(start, worker_1={"stalls_at": 9})
    with within(SILENCE + STATED):
        for worker in workers:
            assert "Worker 1 (" in (text := said(worker, 75))
            assert "stalls in step 10" in text


def test_a_worker_that_fails_tells_the_others_why(start):
    workers = [start(0), start(1, fails_at=9), start(2)]
    said(workers[1], 2)
    with within(STATED):
        for worker in (workers[0], workers[2]):
            assert "Worker 1 (" in (text := said(worker, 2))
            assert "ended with an error: the disk is full" in text


@pytest.mark.parametrize("count", [2, 3])
def test_a_worker_that_fails_before_the_chief_listens_tells_all_why(start, addresses, count):
    cluster = Cluster(tuple(addresses[:count]), 1)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        telling = thread.submit(tell_failure, cluster, "there is no data", 2)
        workers = [start(0, addresses=cluster.addresses)]
        telling.result()
        # The third comes only after the chief has heard it.
        workers += [start(index, addresses=cluster.addresses) for index in range(2, count)]
        for worker in workers:
            text = f"Worker 1 ({addresses[1]}) ended with an error: there is no data\n"
            assert said(worker, 2) == text


def test_a_worker_that_never_starts(start, addresses):
    with within(1 + STATED):
        for worker in [start(index, start=1.0) for index in (0, 1)]:
            text = said(worker, 75)
            assert f"Worker 2 ({addresses[2]}) did not start" in text
            assert "worker 1" not in text.lower()


def test_a_chief_that_never_starts(start, addresses):
    with within(1 + STATED):
        text = said(start(1, start=1.0), 75)
    assert f"Worker 0 (the chief, {addresses[0]}) did not start" in text
    assert "Connection refused" in text


def test_a_worker_that_comes_and_is_killed_before_all_are_there(start, addresses):
    chief = start(0, addresses=[*addresses, "localhost:1"])
    links = {}

    def comes(index):
        links[index] = to_chief(addresses)
        links[index].send({"hello": {}, "index": index})

    comes(2)
    comes(1)
    links[1].close()
    with within(STATED):
        time.sleep(1)
        # The killed one is started again, and only then the last one comes.
        comes(1)
        comes(3)
        text = said(chief, 75)
    assert f"Worker 1 ({addresses[1]}) was killed or crashed while others were awaited" in text
    for link in links.values():
        assert link.receive(10) == [{"stop": text.strip(), "status": 75}], "told as well"
        link.close()


def test_a_chief_that_is_killed_before_all_are_there(start, addresses):
    with listen(Cluster(tuple(addresses), 0).watch_address) as listener:
        listener.settimeout(30)
        worker = start(1)
        link = Link(listener.accept()[0])
        assert link.receive(30)[0]["index"] == 1
    link.close()
    with within(STATED):
        text = said(worker, 75)
    assert (
        f"Worker 0 (the chief, {addresses[0]}) was killed or crashed while others were awaited"
        in text
    )


def test_workers_that_differ(start):
    uses = {"tensorflow": "2.21.0", "training data": "aaaaaaaaaaaa"}
    unlike = {1: uses | {"tensorflow": "2.20.0"}, 2: uses | {"training data": "bbbbbbbbbbbb"}}
    with within(STATED):
        for worker in [start(index, uses=unlike.get(index, uses)) for index in range(3)]:
            text = said(worker, 2)
            assert "tensorflow: 2.21.0 on worker 0 (the chief" in text
            assert ", 2.20.0 on worker 1 (" in text
            assert "training data: aaaaaaaaaaaa on worker 0 (the chief" in text
            assert ", bbbbbbbbbbbb on worker 2 (" in text


def test_two_processes_with_one_index(start):
    for worker in [start(0), start(1), start(1)]:
        assert "Two processes are worker 1" in said(worker, 2)


def test_a_stranger_at_the_chief_s_port_does_no_harm(start, addresses):
    workers = [start(0), start(1)]
    to_chief(addresses).close()
    with socket.create_connection(Cluster(tuple(addresses), 1).watch_address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    workers.append(start(2))
    for worker in workers:
        assert worker.stdout.readline() == "trains\n"


def test_when_no_worker_begins_a_step(monkeypatch):
    monkeypatch.setattr(worker_watch, "_NO_STEP_SECONDS", 0.1)
    faults = []
    watch = WorkerWatch(Cluster(("a:1",), 0), {}, 0.2, lambda fault, _: faults.append(str(fault)))
    watch.begins(0)
    time.sleep(0.3)
    assert not faults, "the first step may take long"
    watch.begins(1)
    time.sleep(0.3)
    assert not faults, "a step may take five times as long as the one before"
    end = time.monotonic() + 60
    while not faults and time.monotonic() < end:
        time.sleep(0.1)
    assert re.match(r"No worker has begun a step for \d+ s: all are in step 2\.", faults[0])
