"""Runs the server: socket, connections with time limits, and shutdown after a signal."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_keras.errors import UserError, translated_errors
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.models import ModelSource

# Requests are accepted for this time after a signal, since clients may not know of it yet.
SECONDS_TO_ACCEPT = 0.5
_ACCEPT_FRACTION = 0.2  # of the shutdown time, at most, for accepting requests
_ANSWER_FRACTION = 0.6  # of the rest, for answers; then unfinished work is stopped
_CLOSE_FRACTION = 0.7  # of the shutdown time, at most, for closing connections
_TICKS_PER_SECOND = 10
_MAX_BYTES_OF_HEAD = 65_536
_LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("t2t_keras.server")
_MAX_CONNECTIONS, _RESERVED_DESCRIPTORS = 512, 256
SECONDS_OF_HEAD = 10.0
# A body may take SECONDS_OF_BODY, plus a second per BYTES_PER_SECOND, up to the maximum.
SECONDS_OF_BODY, MAX_SECONDS_OF_BODY, BYTES_PER_SECOND = 30.0, 600.0, 8_192
SECONDS_OF_READING = 60.0
_SECONDS_BETWEEN_LOG_LINES = 60.0
_LATE_ANSWER = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FULL_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens.

    Attributes:
      host: name or IP address.
      port: 0 = any free port.
      certificate: PEM file for TLS; None = no TLS.
      key: PEM file of the private key.
      trusted_proxies: addresses of proxies whose X-Forwarded-For is trusted.
    """

    host: str = _LOOPBACK
    port: int = 5000
    certificate: Path | None = None
    key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * bool(self.certificate)}://{host}:{self.port}/"


def serve(
    sources: Sequence[ModelSource],
    config: ServerConfig | None = None,
    address: Address | None = None,
) -> None:
    """Serves models until SIGTERM or Ctrl-C; then answers pending requests, and returns.

    Args:
      sources: locations of the models.
      config: the settings.
      address: address to listen on.

    Raises:
      UserError: a model cannot be loaded, the address is in use, or the server does not start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    server, server_socket = make_server(sources, config, address or Address())
    server.ends_process = True
    with server_socket:
        asyncio.run(server.serve([server_socket]))
    if not server.started:
        raise UserError("The server did not start. See the log above.", code="server_not_started")


def make_server(
    sources: Sequence[ModelSource], config: ServerConfig | None, address: Address
) -> tuple["Server", socket.socket]:
    """Returns the server and its socket; see `serve` for the arguments."""
    server_socket = _bind(address)  # Bind first, since loading the models takes a while.
    config = config or ServerConfig()
    advice = "Correct --storage, --api_keys_file or --model."
    try:
        with translated_errors(
            OSError, "The server cannot start", advice, code="server_not_started"
        ):
            app = make_app(sources, config)
            server = Server(_uvicorn_config(app, config, address), app, config.stop_seconds)
    except BaseException:
        server_socket.close()
        raise
    _, port = server_socket.getsockname()[:2]
    _announce(f"Serving on {dataclasses.replace(address, port=port).url}")
    return server, server_socket


def _uvicorn_config(app: Starlette, config: ServerConfig, address: Address) -> uvicorn.Config:
    settings = uvicorn.Config(
        app,
        http=BoundedConnection,
        # Web sockets would bypass the limits.
        ws="none",
        # uvicorn passes the value to asyncio, which accepts fractions.
        timeout_graceful_shutdown=_CLOSE_FRACTION * config.stop_seconds,  # type: ignore[arg-type]
        h11_max_incomplete_event_size=_MAX_BYTES_OF_HEAD,
        log_config=None,
        access_log=False,  # It would show queries.
        server_header=False,
        proxy_headers=bool(address.trusted_proxies),
        forwarded_allow_ips=list(address.trusted_proxies),
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    subject = f"TLS cannot use {address.certificate} and {address.key}"
    advice = "Give PEM files that belong together."
    with translated_errors(OSError, subject, advice, code="bad_certificate"):
        settings.load()
    return settings


class Server(uvicorn.Server):
    """A server that answers all requests sent before a signal to stop, and then returns.

    Args:
      settings: uvicorn's settings.
      app: the application from `make_app`.
      stop_seconds: seconds from the signal to the end.

    Attributes:
      ends_process: whether the process ends `stop_seconds` after the signal, even with unfinished
        work.
    """

    def __init__(self, settings: uvicorn.Config, app: Starlette, stop_seconds: float):
        super().__init__(settings)
        self.ends_process = False
        self._app, self._stop_seconds, self._late_connections = app, stop_seconds, LateConnections()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals; uvicorn's version would raise them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = signal.SIGINT, signal.SIGTERM
        old_handlers = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in old_handlers.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Closes late connections once a second."""
        if counter % _TICKS_PER_SECOND == 0:
            self._late_connections.close(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answers pending requests, and stops."""
        state, seconds = self._app.state, self._stop_seconds
        deadline = state.stop_by = time.monotonic() + seconds
        if self.ends_process:
            _end_process_after(seconds)
        for listener in self.servers:
            listener.close()
        # From now on, answers tell clients to close the connection.
        state.stopping = True
        await asyncio.sleep(min(SECONDS_TO_ACCEPT, _ACCEPT_FRACTION * seconds))
        delay = _ANSWER_FRACTION * (deadline - time.monotonic())
        timer = asyncio.get_running_loop().call_later(delay, self._end_work)
        await super().shutdown(sockets)
        timer.cancel()

    def _end_work(self) -> None:
        self._app.state.context.service.end_jobs()
        self._app.state.context.files.end_jobs()
        for connection in bounded_connections(self.server_state.connections):
            if connection.waits_for_body:
                connection.give_up()


def max_connections() -> int:
    """Returns the maximum number of connections, which leaves descriptors for files and models."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return min(max(descriptors - _RESERVED_DESCRIPTORS, descriptors // 2), _MAX_CONNECTIONS)


class BoundedConnection(H11Protocol):
    """A connection with time limits for its client.

    A connection above the limit replaces the one that has waited longest for a request.

    Attributes:
      clock: returns monotonic seconds.
      limit: maximum number of connections.
    """

    clock = staticmethod(time.monotonic)
    limit = max_connections()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection, or refuses it."""
        super().connection_made(transport)
        self._since, self._bytes_received = self.clock(), 0
        self._blocked_since: float | None = None
        if len(self.connections) <= self.limit:
            return
        others = [other for other in bounded_connections(self.connections) if other is not self]
        idle = [other for other in others if other.waits_for_head]
        min(idle, key=lambda other: other._since, default=self).give_up(_FULL_ANSWER)

    @property
    def waits_for_head(self) -> bool:
        """Whether the client has not yet sent the whole head of a request."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_body(self) -> bool:
        """Whether the client has not yet sent the whole body."""
        return not self.waits_for_head and self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Receives bytes from the client."""
        if self.waits_for_head and not self._bytes_received:
            self._since = self.clock()
        self._bytes_received += len(data)
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self._since, self._bytes_received = self.clock(), 0

    def on_response_complete(self) -> None:
        """Starts waiting for the next request."""
        self._since, self._bytes_received = self.clock(), 0
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Records the time when the client stopped reading."""
        self._blocked_since = self.clock()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Records that the client reads again."""
        self._blocked_since = None
        super().resume_writing()

    def is_late(self, now: float) -> bool:
        """Returns whether the client has exceeded a time limit."""
        if self._blocked_since is not None:
            return now - self._blocked_since > SECONDS_OF_READING
        if self.waits_for_head:
            # After an answer, uvicorn's own limit for idle connections applies.
            is_idle = self.cycle is not None and not self._bytes_received
            return now - self._since > SECONDS_OF_HEAD and not is_idle
        if not self.waits_for_body:
            return False
        if self.flow.read_paused:
            self._since, self._bytes_received = now, 0  # The server is slow, not the client.
        seconds = now - self._since
        allowed_seconds = SECONDS_OF_BODY + self._bytes_received / BYTES_PER_SECOND
        return seconds > min(allowed_seconds, MAX_SECONDS_OF_BODY)

    def give_up(self, answer: bytes = _LATE_ANSWER) -> None:
        """Closes the connection; if no answer has begun, sends this one."""
        if self.waits_for_head:
            if self.conn.our_state is h11.IDLE and (self._bytes_received or answer is _FULL_ANSWER):
                self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()


def bounded_connections(connections: Iterable[object]) -> list[BoundedConnection]:
    """Returns uvicorn's connections, narrowed to their actual type."""
    return [connection for connection in connections if isinstance(connection, BoundedConnection)]


class LateConnections:
    """Closes connections whose clients are too slow, and logs their number at most once a minute.

    Args:
      clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock, self._logged_at, self._num_closed = clock, clock(), 0

    def close(self, connections: Iterable[object]) -> None:
        """Closes the late connections."""
        now = self._clock()
        for connection in bounded_connections(connections):
            if connection.is_late(now):
                connection.give_up()
                self._num_closed += 1
        if self._num_closed and now - self._logged_at > _SECONDS_BETWEEN_LOG_LINES:
            _LOG.warning("Closed %d connections of slow clients", self._num_closed)
            self._logged_at, self._num_closed = now, 0


def _announce(line: str) -> None:
    try:
        print(line, flush=True)
    except (OSError, ValueError) as error:  # Closed, or the disk is full: serve anyway.
        _LOG.warning("%s (standard output: %s)", line, error)


def _end_process_after(seconds: float) -> None:
    """Ends the process after a time, because some calls in threads cannot be interrupted."""

    def end() -> None:
        _LOG.error("Stopped after %g seconds with unfinished work", seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _bind(address: Address) -> socket.socket:
    subject, advice = (
        f"Cannot listen on {address.host}:{address.port}",
        "Give another --host or --port.",
    )
    with translated_errors(OSError, subject, advice, code="cannot_listen"):
        family, _, _, _, sockaddr = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        server_socket = socket.create_server(sockaddr[:2], family=family, backlog=2048)
    server_socket.setblocking(False)
    return server_socket
