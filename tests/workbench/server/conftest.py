"""Servers on loopback, in threads."""

import asyncio
import contextlib
import dataclasses
import threading
from types import SimpleNamespace

import deepl
import pytest
from small_models import model, random_model, tokenizer  # noqa: F401
from starlette.testclient import TestClient
from upper_case import Aligning, Source

from t2t_keras.workbench.server import run
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.run import Address, make_server


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
def aligning(monkeypatch):
    """A translator for the page; it knows of a sentence's first two words how sure it is."""
    known = SimpleNamespace(words=(0.5, 0.25), whole=0.3)
    actual = lambda translator, lines, translations: [known for _ in lines]  # noqa: E731
    monkeypatch.setattr("t2t_keras.workbench.server.page_api.confidences", actual)
    return Aligning()


@pytest.fixture
def client_of():
    """client_of(*sources, address, **settings): a client of a server that runs."""
    with contextlib.ExitStack() as running:

        def client_of(*sources, address="127.0.0.1", **settings):
            config = ServerConfig(**{"max_wait_ms": 0.0, "reload_seconds": 0.0} | settings)
            client = TestClient(make_app(sources or [Source()], config), client=(address, 1))
            client.app.state.client = client
            client.raise_server_exceptions = False
            return running.enter_context(client)

        yield client_of


@pytest.fixture
def serving(monkeypatch):
    """serving(sources, config): a running server, with `url`, `app` and `stop()`."""
    monkeypatch.setattr(run, "SECONDS_TO_ACCEPT", 0.0)
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
