"""Running the application until it receives a signal to stop."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.models import ModelSource

# Requests that clients send before they learn of the end are still read and answered.
SECONDS_TO_HEAR = 0.5
# Fractions of the time to stop: at most the first for requests that still arrive; of the rest, the
# second for answers, before unfinished work is ended; at most the third for closing connections.
_HEARING, _ANSWERING, _CLOSING = 0.2, 0.6, 0.7
_TICKS_A_SECOND = 10
_MOST_BYTES_OF_HEAD = 65_536
_LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("t2t_keras.server")


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens.

    Attributes:
      host: name or number; others than this machine's own are for networks.
      port: 0 = any that is free.
      certificate: PEM file for TLS; None = none.
      key: PEM file of its private key.
      trusted_proxies: addresses of proxies whose X-Forwarded-For tells who asks.
    """

    host: str = _LOOPBACK
    port: int = 5000
    certificate: Path | None = None
    key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """What a browser opens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * bool(self.certificate)}://{host}:{self.port}/"


def serve(
    sources: Sequence[ModelSource],
    config: ServerConfig | None = None,
    address: Address | None = None,
) -> None:
    """Serves models until SIGTERM or Ctrl-C; then answers what has come, and returns.

    Args:
      sources: of the models.
      config: how the server works.
      address: where it listens.

    Raises:
      UserError: a model cannot be loaded, the address is taken, a package is not installed, or
        the server does not start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    server, bound = make_server(sources, config, address or Address())
    server.ends_process = True
    with bound:
        asyncio.run(server.serve([bound]))
    if not server.started:
        raise UserError(
            "The server did not start: the log above says why.", code="server_not_started"
        )


def make_server(sources: Sequence[ModelSource], config: ServerConfig | None, address: Address):
    """Returns uvicorn's server and its socket; takes the same arguments as `serve`."""
    try:
        import uvicorn

        from t2t_keras.workbench.server.app import make_app
        from t2t_keras.workbench.server.front.connections import BoundedConnection, LateConnections
    except ModuleNotFoundError as error:
        raise UserError(
            f"The server needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[server]'",
            code="missing_package",
        ) from error

    stop_seconds = (config or ServerConfig()).stop_seconds
    late = LateConnections()

    class Server(uvicorn.Server):
        """Reads the requests already sent before it closes its connections, and then returns.

        Attributes:
          ends_process: whether the process ends `stop_seconds` after the signal to stop, even if
            work is unfinished.
        """

        ends_process = False

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn's own raises them again at the end.
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            kinds = signal.SIGINT, signal.SIGTERM
            before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
            try:
                yield
            finally:
                for kind, handler in before.items():
                    signal.signal(kind, handler)

        async def on_tick(self, counter: int) -> bool:
            if counter % _TICKS_A_SECOND == 0:
                late.close(self.server_state.connections)
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            until = app.state.stop_by = time.monotonic() + stop_seconds
            if self.ends_process:
                _end_process_after(stop_seconds)
            for listening in self.servers:
                listening.close()
            # Answers until then tell clients to close, so that they send no further requests.
            app.state.stopping = True
            await asyncio.sleep(min(SECONDS_TO_HEAR, _HEARING * stop_seconds))
            left = until - time.monotonic()
            ending = asyncio.get_running_loop().call_later(_ANSWERING * left, self._end_work)
            await super().shutdown(sockets)
            ending.cancel()

        def _end_work(self) -> None:
            app.state.context.service.end_jobs()
            app.state.context.files.end()
            for connection in list(self.server_state.connections):
                if connection.waits_for_body:
                    connection.give_up()

    # Before the models are loaded, which takes a while.
    bound = _bind(address)
    try:
        app = make_app(sources, config)
        settings = uvicorn.Config(
            app,
            http=BoundedConnection,
            # A connection that becomes a web socket would have none of the limits.
            ws="none",
            timeout_graceful_shutdown=_CLOSING * stop_seconds,
            h11_max_incomplete_event_size=_MOST_BYTES_OF_HEAD,
            log_config=None,
            access_log=False,  # It would show queries.
            server_header=False,
            proxy_headers=bool(address.trusted_proxies),
            forwarded_allow_ips=list(address.trusted_proxies),
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
        )
        try:
            settings.load()
        except OSError as error:
            raise UserError(
                f"TLS with {address.certificate} and {address.key}: {error.strerror or error}.",
                code="bad_certificate",
            ) from error
    except OSError as error:
        bound.close()
        raise UserError(
            f"The server cannot start: {error}. Give another --storage, --api_keys_file or "
            f"--model.",
            code="server_not_started",
        ) from error
    except BaseException:
        bound.close()
        raise
    _, port = bound.getsockname()[:2]
    _announce(f"Serving on {dataclasses.replace(address, port=port).url}")
    return Server(settings), bound


def _announce(line: str) -> None:
    try:
        print(line, flush=True)
    except (OSError, ValueError) as error:  # Closed, or a full disk: serve all the same.
        _LOG.warning("%s (standard output: %s)", line, error)


def _end_process_after(seconds: float) -> None:
    """Ends the process, as its threads may be running calls that cannot be interrupted."""

    def end() -> None:
        _LOG.error("Stopped after %g seconds with unfinished work", seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _bind(address: Address) -> socket.socket:
    try:
        family, _, _, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.create_server(name[:2], family=family, backlog=2048)
    except OSError as error:
        raise UserError(
            f"Cannot listen on {address.host}:{address.port}: {error.strerror}. Give another "
            f"--host or --port.",
            code="cannot_listen",
        ) from error
    bound.setblocking(False)
    return bound
