"""A worker that waits for others to connect goes on otherwise, and says what fails."""

import socket
import subprocess
import sys

import pytest

CONNECT = """
import os, sys, threading
import tensorflow as tf
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.devices import multi_worker_strategy

threading.Timer(float(sys.argv[2]), os._exit, [75]).start()
try:
    multi_worker_strategy(Cluster((f"localhost:{sys.argv[1]}", "localhost:1"), 0), 0)
except tf.errors.OpError as error:
    print(error)
    sys.stdout.flush()
    os._exit(76)
"""


@pytest.fixture
def connect():
    """Returns a function that connects one of two workers; returns its process, ended by then."""

    def connect(port, seconds):
        command = [sys.executable, "-c", CONNECT, str(port), str(seconds)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=False)

    return connect


def test_other_threads_run_while_a_worker_waits_for_one_that_never_connects(connect):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    assert connect(port, 1).returncode == 75


def test_a_server_that_cannot_be_started_is_an_error(connect):
    with socket.create_server(("", 0)) as server:
        ended = connect(server.getsockname()[1], 60)
    assert ended.returncode == 76
    assert "server" in ended.stdout
