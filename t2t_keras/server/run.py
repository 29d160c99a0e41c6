"""Running the application, until it is told to stop."""

import asyncio
import contextlib
import dataclasses
import logging
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.server.config import ServerConfig
from t2t_keras.server.models import ModelSource

# What clients have sent before they see the end is still read and answered.
SECONDS_TO_HEAR = 0.5
_LOOPBACK = "127.0.0.1"


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
    with bound:
        asyncio.run(server.serve([bound]))
    if not server.started:
        raise UserError("The server did not start: the log above says why.")


def make_server(sources: Sequence[ModelSource], config: ServerConfig | None, address: Address):
    """Returns uvicorn's server, and the socket that it is to serve; arguments as of `serve`."""
    try:
        import uvicorn

        from t2t_keras.server.app import make_app
    except ModuleNotFoundError as error:
        raise UserError(
            f"The server needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[server]'"
        ) from error

    class Server(uvicorn.Server):
        """Hears what was sent to it before it closes its connections, and then just returns."""

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

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for listening in self.servers:
                listening.close()
            # Whoever asks until then is told, and sends nothing more on a connection that ends.
            app.state.stopping = True
            await asyncio.sleep(SECONDS_TO_HEAR)
            await super().shutdown(sockets)

    # Before the models are loaded, which takes a while.
    bound = _bind(address)
    try:
        app = make_app(sources, config)
        settings = uvicorn.Config(
            app,
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
                f"TLS with {address.certificate} and {address.key}: {error.strerror or error}."
            ) from error
    except OSError as error:
        bound.close()
        raise UserError(
            f"The server cannot start: {error}. Give another --storage, --api_keys_file or --model."
        ) from error
    except BaseException:
        bound.close()
        raise
    _, port = bound.getsockname()[:2]
    print(f"Serving on {dataclasses.replace(address, port=port).url}", flush=True)
    return Server(settings), bound


def _bind(address: Address) -> socket.socket:
    try:
        family, _, _, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.create_server(name[:2], family=family, backlog=2048)
    except OSError as error:
        raise UserError(
            f"Cannot listen on {address.host}:{address.port}: {error.strerror}. Give another "
            f"--host or --port."
        ) from error
    bound.setblocking(False)
    return bound
