"""Connections that are slow or too many, with a transport in memory, and the end with a socket."""

import asyncio
import concurrent.futures
import socket
import time

import httpx
import pytest
import uvicorn
from upper_case import Clock, Endless, Source
from uvicorn.server import ServerState

from t2t_keras.workbench.server.run import (
    BoundedConnection,
    LateConnections,
    max_connections,
)

HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"


class Transport:
    """What a connection does to its client."""

    def __init__(self):
        self.written, self.state = b"", "open"

    def get_extra_info(self, name):
        return None

    def write(self, data):
        self.written += data

    def close(self):
        self.state = "closed"

    def abort(self):
        self.state = "aborted"
        self.protocol.connection_lost(ConnectionAbortedError())

    def is_closing(self):
        return self.state != "open"

    def pause_reading(self):
        pass

    resume_reading = pause_reading


@pytest.fixture
def connect(monkeypatch):
    """connect(): a connection, its transport, and the clock of all, in a loop that runs."""
    clock, state = Clock(), ServerState()
    monkeypatch.setattr(BoundedConnection, "clock", clock)

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(app, ws="none", log_config=None, lifespan="off")

    def make():
        connection = BoundedConnection(config, state, {})
        transport = Transport()
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    make.clock, make.late, make.state = clock, LateConnections(clock), state
    return make


async def after(connect, seconds):
    """Lets time pass, and closes what is late then."""
    await asyncio.sleep(0)
    connect.clock.now += seconds
    connect.late.close(connect.state.connections)


def head(length):
    return HEAD.replace(b"100000", b"%d" % length)


def wrote(start):
    """A step of a script: what the client was sent begins so."""

    def step(connect, connection, transport):
        assert transport.written.startswith(start)

    return step


def answered(is_complete):
    """A step of a script: whether the client has its answer."""

    def step(connect, connection, transport):
        assert connection.cycle.response_complete == is_complete

    return step


def pause(connect, connection, transport):
    """A step of a script: the client does not read."""
    connection.pause_writing()
    assert connection.flow.write_paused


def resume(connect, connection, transport):
    connection.resume_writing()
    assert not connection.flow.write_paused


def compute(connect, connection, transport):
    """A step of a script: the application is busy for long."""
    connect.clock.now += 1000.0
    connect.late.close(connect.state.connections)


RATES = [(0, "aborted"), (4_000, "aborted"), (8_200, "open")]
# What a client sends, seconds that pass, and what has then become of its connection.
SCRIPTS = {
    "nothing is sent": [10.0, "open", 0.1, "closed", wrote(b"")],
    "half a head": [b"GET / HT", 10.0, "open", 0.1, "closed", wrote(b"HTTP/1.1 408")],
    # uvicorn limits how long a connection may be idle.
    "the next head, once it has begun": [
        *(head(0), *[0.0] * 9, answered(True)),
        *(100.0, b"GET / HT", 10.0, "open", 0.1, "closed"),
    ],
    "a byte now and then is no head": [
        *(step for byte in b"GET / HTTP/1.1" for step in (bytes([byte]), 1.0)),
        "closed",
    ],
    **{
        f"a body of {rate} bytes a second": [
            *(head(9_000_000), 30.0, "open", b"a" * 30 * rate, 0.1),
            *[b"a" * 5 * rate, 5.0] * 100,
            state,
        ]
        for rate, state in RATES
    },
    "no body takes longer than ten minutes": [
        *(head(90_000_000), *["open", b"a" * 20_000, 1.0] * 601),
        *(1.0, "aborted"),
    ],
    # The application asks for the body, and then takes no more of it.
    "a body that the server is slow to take": [
        *(HEAD, 0.0, lambda _, connection, __: connection.flow.pause_reading(), 1000.0),
        *(lambda _, connection, __: connection.flow.resume_reading(), 30.0, "open"),
        *(0.1, "aborted"),
    ],
    "whoever awaits an answer is not late": [head(1) + b"a", compute, answered(False), "open"],
    "an answer must be read": [HEAD, pause, 60.0, "open", resume, pause, 60.1, "aborted"],
    "the time to read an answer begins with the answer": [
        *(HEAD + b"a" * 100_000, compute, pause, 60.0, "open", 0.1, "aborted"),
    ],
    "an answer that is read at last": [
        *(HEAD + b"a" * 100_000, pause, resume, *[0.0] * 9, 60.1, answered(True)),
        "open",
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_who_is_late(connect, name):
    async def test():
        connection, transport = connect()
        for number, step in enumerate(SCRIPTS[name]):
            if isinstance(step, str):
                assert transport.state == step, number
            elif isinstance(step, float):
                await after(connect, step)
            elif callable(step):
                step(connect, connection, transport)
            elif transport.state == "open":
                connection.data_received(step)

    asyncio.run(test())


def test_slow_clients_are_logged_once_a_minute(connect, caplog):
    async def test():
        for seconds, count in (
            (20, 2),
            (20, 1),
            (20, 0),
            (0.1, 0),
            (50, 1),
            (10, 0),
            (0.1, 0),
            (70, 0),
        ):
            for _ in range(count):
                connect()
            await after(connect, seconds)
            connect.state.connections.clear()  # Those that are late are closed.

    asyncio.run(test())
    assert [record.args for record in caplog.records] == [(3,), (1,)]


@pytest.mark.parametrize(
    ("files", "most"),
    [(300, 150), (512, 256), (600, 344), (767, 511), (768, 512), (1 << 20, 512), (-1, 512)],
)
def test_connections_leave_descriptors_for_files(monkeypatch, files, most):
    monkeypatch.setattr("resource.getrlimit", lambda which: (files, 1 << 20))
    assert max_connections() == most


def test_when_there_are_too_many_the_one_goes_that_has_waited_longest(connect, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "limit", 3)

    async def test():
        asking = connect()
        asking[0].data_received(HEAD)
        waiting = []
        for _ in range(2):
            connect.clock.now += 1
            waiting.append(connect())
        newest = connect()
        transports = [transport for _, transport in (asking, *waiting, newest)]
        assert [transport.state for transport in transports] == ["open", "closed", "open", "open"]
        assert waiting[0][1].written.startswith(b"HTTP/1.1 503")

    asyncio.run(test())


def test_when_all_ask_another_is_refused(connect, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "limit", 1)

    async def test():
        asking = connect()
        asking[0].data_received(HEAD)
        newest = connect()
        assert [asking[1].state, newest[1].state] == ["open", "closed"]
        assert newest[1].written.startswith(b"HTTP/1.1 503")

    asyncio.run(test())


def test_a_server_bounds_its_connections(serving, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.run._TICKS_PER_SECOND", 1)
    server = serving()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = httpx.get(f"{server.url}/health", headers=upgrade)
    assert (answer.status_code, "server" in answer.headers) == (200, False)
    assert server.server.config.h11_max_incomplete_event_size == 64 << 10
    monkeypatch.setattr("t2t_keras.workbench.server.run.SECONDS_OF_HEAD", 0.0)
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        assert client.recv(1) == b"", "who says nothing is not waited for"


def test_the_end_does_not_wait_for_half_a_body(serving):
    server = serving([Source(translator=Endless())], stop_seconds=0.5)
    host, _, port = server.url.removeprefix("http://").partition(":")
    asked = {"q": "a" * 100_000, "source": "en", "target": "de"}  # Of many searches.
    with (
        socket.create_connection((host, int(port))) as client,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        client.sendall(HEAD + b"a")
        endless = pool.submit(httpx.post, f"{server.url}/translate", json=asked, timeout=20)
        while len(server.server.server_state.tasks) < 2:
            time.sleep(0.01)
        server.stop()
    assert not server.server.server_state.tasks
    assert (endless.result().status_code, endless.result().headers["Retry-After"]) == (503, "5")
