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

from t2t_keras.workbench.server.front.connections import (
    BoundedConnection,
    LateConnections,
    most_connections,
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


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
def test_a_head_must_come_soon(connect, sent):
    async def test():
        connection, transport = connect()
        if sent:
            connection.data_received(sent)
        await after(connect, 10.0)
        assert transport.state == "open"
        await after(connect, 0.1)
        assert transport.state == "closed"
        assert transport.written.startswith(b"HTTP/1.1 408" if sent else b"")

    asyncio.run(test())


def test_the_next_head_must_come_soon_once_it_has_begun(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD.replace(b"100000", b"0"))
        for _ in range(9):
            await after(connect, 0.0)
        assert connection.cycle.response_complete
        await after(connect, 100.0)  # uvicorn limits how long it may be idle.
        connection.data_received(b"GET / HT")
        await after(connect, 10.0)
        assert transport.state == "open"
        await after(connect, 0.1)
        assert transport.state == "closed"

    asyncio.run(test())


def test_a_byte_now_and_then_is_no_head(connect):
    async def test():
        connection, transport = connect()
        for byte in b"GET / HTTP/1.1":
            connection.data_received(bytes([byte]))
            await after(connect, 1.0)
        assert transport.state == "closed"

    asyncio.run(test())


@pytest.mark.parametrize(
    ("bytes_a_second", "state"), [(0, "aborted"), (4_000, "aborted"), (8_200, "open")]
)
def test_a_body_must_come_at_some_rate(connect, bytes_a_second, state):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD.replace(b"100000", b"9000000"))
        await after(connect, 30.0)
        assert transport.state == "open"
        connection.data_received(b"a" * 30 * bytes_a_second)
        await after(connect, 0.1)
        for _ in range(100):
            if transport.state == "open":
                connection.data_received(b"a" * 5 * bytes_a_second)
                await after(connect, 5.0)
        assert transport.state == state

    asyncio.run(test())


def test_no_body_takes_longer_than_ten_minutes(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD.replace(b"100000", b"90000000"))
        for second in range(601):
            assert transport.state == "open", second
            connection.data_received(b"a" * 20_000)
            await after(connect, 1.0)
        await after(connect, 1.0)
        assert transport.state == "aborted"

    asyncio.run(test())


def test_a_body_that_the_server_is_slow_to_take_is_not_late(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD)
        await asyncio.sleep(0)  # The application asks for the body.
        connection.flow.pause_reading()
        await after(connect, 1000.0)
        connection.flow.resume_reading()
        await after(connect, 30.0)
        assert transport.state == "open"
        await after(connect, 0.1)
        assert transport.state == "aborted"

    asyncio.run(test())


def test_whoever_awaits_an_answer_is_not_late(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD.replace(b"100000", b"1") + b"a")
        connect.clock.now += 1000.0
        connect.late.close(connect.state.connections)
        assert (connection.cycle.response_complete, transport.state) == (False, "open")

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
    assert most_connections() == most


def test_an_answer_must_be_read(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD)
        connection.pause_writing()
        await after(connect, 60.0)
        assert (transport.state, connection.flow.write_paused) == ("open", True)
        connection.resume_writing()
        assert not connection.flow.write_paused
        connection.pause_writing()
        await after(connect, 60.1)
        assert transport.state == "aborted"

    asyncio.run(test())


def test_an_answer_that_is_read_at_last_was_not_too_late(connect):
    async def test():
        connection, transport = connect()
        connection.data_received(HEAD + b"a" * 100_000)
        connection.pause_writing()
        connection.resume_writing()
        for _ in range(9):
            await after(connect, 0.0)
        await after(connect, 60.1)
        assert (connection.cycle.response_complete, transport.state) == (True, "open")

    asyncio.run(test())


def test_when_there_are_too_many_the_one_goes_that_has_waited_longest(connect, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "most", 3)

    async def test():
        asking = connect()
        asking[0].data_received(HEAD)
        waiting = []
        for _ in range(2):
            connect.clock.now += 1
            waiting.append(connect())
        newest = connect()
        transports = [transport for _, transport in (asking, *waiting, newest)]
        assert [each.state for each in transports] == ["open", "closed", "open", "open"]
        assert waiting[0][1].written.startswith(b"HTTP/1.1 503")

    asyncio.run(test())


def test_when_all_ask_another_is_refused(connect, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "most", 1)

    async def test():
        asking = connect()
        asking[0].data_received(HEAD)
        newest = connect()
        assert [asking[1].state, newest[1].state] == ["open", "closed"]
        assert newest[1].written.startswith(b"HTTP/1.1 503")

    asyncio.run(test())


def test_a_server_bounds_its_connections(serving, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.run._TICKS_A_SECOND", 1)
    server = serving()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = httpx.get(f"{server.url}/health", headers=upgrade)
    assert (answer.status_code, "server" in answer.headers) == (200, False)
    assert server.server.config.h11_max_incomplete_event_size == 64 << 10
    monkeypatch.setattr("t2t_keras.workbench.server.front.connections.SECONDS_OF_HEAD", 0.0)
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
