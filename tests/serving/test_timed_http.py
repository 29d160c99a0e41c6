"""A server that sends a byte now and then is not waited for beyond the time."""

import socket
import threading
import time

import pytest

from t2t_keras.serving.clients import RestClient
from t2t_keras.serving.retries import DeadlineError
from t2t_keras.serving.server_address import Served

HEADER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
BODY = b'{"outputs": {"translation": ["b"], "score": [-1.0]}}'


@pytest.fixture
def answer():
    """answer(start, rest, pause, timeout): asks a server that sends the rest byte by byte."""
    ended = threading.Event()

    def answer(start, rest, pause, timeout):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = RestClient(Served(f"127.0.0.1:{listener.getsockname()[1]}", "translate"))
            thread = threading.Thread(target=drip, args=(listener, start, rest, pause))
            thread.start()
            try:
                return client.attempt(["a"], timeout)
            finally:
                ended.set()
                thread.join()

    def drip(listener, start, rest, pause):
        with listener.accept()[0] as near:
            near.recv(65536)
            near.sendall(start)
            for i in range(len(rest)):
                if ended.wait(pause):
                    return
                near.sendall(rest[i : i + 1])

    return answer


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX-Long: ", HEADER % 200])
def test_a_dripping_server(answer, start):
    begin = time.monotonic()
    with pytest.raises(DeadlineError):
        answer(start, b" " * 200, pause=0.05, timeout=0.3)
    assert time.monotonic() - begin < 5


def test_a_slow_answer_within_the_time(answer):
    (found,) = answer(HEADER % len(BODY), BODY, pause=0.001, timeout=30)
    assert (found.text, found.score) == ("b", -1.0)
