"""Servers on loopback, in threads."""

import asyncio
import contextlib
import dataclasses
import threading
from types import SimpleNamespace

import deepl
import pytest
from upper_case import Source

from t2t_keras.server import run
from t2t_keras.server.config import ServerConfig
from t2t_keras.server.run import Address, make_server


@pytest.fixture
def deepl_client():
    """deepl_client(server, key): DeepL's official client of a server."""
    with contextlib.ExitStack() as clients:

        def connect(server, key="any key"):
            client = deepl.DeepLClient(key, server_url=server.url)
            clients.callback(client.close)
            return client

        yield connect


@pytest.fixture
def serving(monkeypatch):
    """serving(sources, config): a running server, with `url`, `app` and `stop()`."""
    monkeypatch.setattr(run, "SECONDS_TO_HEAR", 0.0)
    with contextlib.ExitStack() as running:

        def start(sources=None, address=None, **settings):
            config = ServerConfig(**{"max_wait_ms": 1.0, "reload_seconds": 0.0} | settings)
            address = address or Address(port=0)
            server, bound = make_server(sources or [Source()], config, address)
            thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])))
            thread.start()

            def stop():
                server.should_exit = True
                thread.join()
                bound.close()

            running.callback(stop)
            port = bound.getsockname()[1]
            url = dataclasses.replace(address, port=port).url.rstrip("/")
            return SimpleNamespace(url=url, app=server.config.app, stop=stop, server=server)

        yield start
