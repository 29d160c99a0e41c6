"""Servers on loopback, of models that change letters, and of a real one."""

import asyncio
import contextlib
import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.server.config import ServerConfig
from t2t_keras.server.run import Address, make_server


class UpperCase:
    """A translator that writes capitals, and a beam of three."""

    def __init__(self, config=None):
        self.config = config or DecodeConfig(beam_size=3, return_beams=True)
        self.problem = Problem()
        self.calls = []

    def translate(self, lines, prefixes=None, *, glossary=None, format="text"):  # noqa: A002
        self.calls.append(list(lines))
        if "explode" in lines:
            raise RuntimeError("as asked")
        return [self.translation(line, glossary) for line in lines]

    def translation(self, line, glossary):
        text = line.upper()
        for term in glossary or ():
            text = text.replace(term.source.upper(), term.target)
        others = [Hypothesis(f"{text}{mark}", -1.0) for mark in "!?"]
        return Translation(text, 0.0, (Hypothesis(text, 0.0), *others), postprocessed=text)


@dataclasses.dataclass
class Source:
    """As a `ModelSource`, of a translator that is there."""

    source: str = "en"
    target: str = "de"
    translator: object = dataclasses.field(default_factory=UpperCase)
    version: int = 1

    @property
    def pair(self):
        return self.source, self.target

    def newest(self):
        return Path(f"version-{self.version}"), self.version

    def load(self):
        return self.translator


@pytest.fixture
def serving():
    """serving(sources, config): a running server, with `url`, `app` and `stop()`."""
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
