"""64 clients at once against t2t-serve: all answers are right while it reloads, restarts and ends.

One request in ten is malformed or hostile, with another key. Twice a newer version of the model
appears, with the same weights; between them the server is restarted; at last it is stopped.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from random_runs import random_run, save_random_run  # noqa: F401
from server_requests import HOSTILE_KEYS, KEY, as_html, make_requests, read_answer

from t2t_keras.decoding.translation import one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.problems.translate_toy import TranslateEndeToy
from t2t_keras.serving.formats import write_format
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig
from t2t_keras.workbench.markup.translator import translate_markup
from t2t_keras.workbench.server.models import ModelSource
from t2t_keras.workbench.server.service import hypothesis_texts
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

CLIENTS, REQUESTS = 64, 10_000
SETTINGS = "beam_size=2,extra_length=5"


class Server:
    """t2t-serve in its own process."""

    def __init__(self, model, folder):
        self._folder, self.port = folder, 0
        (folder / "keys").write_text("".join(f"{key}\n" for key in (KEY, *HOSTILE_KEYS)))
        self._flags = [f"--model=en-de={model}", "--reload_secs=1", "--nosplit_sentences"]
        self._flags += [f"--decode_hparams={SETTINGS}", "--stop_seconds=100"]
        self._flags += [f"--api_keys_file={folder / 'keys'}"]
        self.start()

    def start(self):
        command = [sys.executable, "-m", "t2t_keras.workbench.bin.t2t_serve", *self._flags]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, f"--port={self.port}"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = self.process.stdout.readline().removeprefix("Serving on ").strip()
        self.port = urllib.parse.urlsplit(line).port
        assert self.port, (self._folder / "log").read_text()[-2000:]

    def stop(self):
        """Returns the exit status."""
        self.process.terminate()
        self.process.stdout.close()
        return self.process.wait(120)

    def mebibytes(self):
        """Returns its resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        with contextlib.closing(connection):
            return connection.getresponse().read().decode()


class Clients:
    """Clients that send requests, each on its own connection; what came is in `outcomes`.

    Args:
      server: the server.
      events: functions that are called at the numbers of requests.
    """

    def __init__(self, server, events):
        self._server, self._events, self._local = server, events, threading.local()
        self.outcomes, self.wrong, self.memory = collections.Counter(), [], []
        self.is_restarting = self.is_ending = False

    def send(self, requests):
        pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)
        with contextlib.ExitStack() as self._connections, pool:
            list(pool.map(self._send, range(len(requests)), requests))

    def restart(self):
        """Restarts the server while requests come; refused ones are sent again."""
        self._local.connection.close()  # The server would.
        self.is_restarting = True
        assert self._server.stop() == 0
        self._server.start()
        self.is_restarting = False
        self.memory.clear()

    def end(self):
        self._local.connection.close()
        self.is_ending = True
        assert self._server.stop() == 0

    def _send(self, number, request):
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection(
                "127.0.0.1", self._server.port, timeout=300
            )
            self._connections.callback(self._local.connection.close)
        if number in self._events:
            self._events[number]()
        outcome = self._send_half(request) if request.cut is not None else self._answer(request)
        self.outcomes[outcome] += 1
        if not (self.is_ending or self.is_restarting):
            self.memory.append(self._server.mebibytes())

    def _answer(self, request):
        local = self._local
        try:
            local.connection.request(request.method, request.path, request.body, request.headers)
            answer = local.connection.getresponse()
            answer = read_answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            local.connection.close()
            # The server takes no new connection, or it has closed one that was idle.
            is_unsent = isinstance(error, ConnectionRefusedError | BrokenPipeError)
            if is_unsent and self.is_ending:
                return "not sent"
            if is_unsent and self.is_restarting:
                time.sleep(0.1)
                return self._answer(request)
            answer = f"{type(error).__name__}: {error}"
        if request.is_answered(answer):
            return "good" if isinstance(request.expected, list) else "refused"
        self.wrong.append(f"{request}: got {answer}")
        return "wrong"

    def _send_half(self, request):
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=10)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.putrequest(request.method, request.path)
            for name, value in (request.headers | {"Content-Length": len(request.body)}).items():
                connection.putheader(name, str(value))
            connection.endheaders(request.body[: request.cut])
            time.sleep(0.2)
        connection.close()
        return "left"


@pytest.fixture(params=["keras", "ctranslate2"])
def model(request, random_run, tmp_path):  # noqa: F811
    """What is served, its translator, and a function that writes a newer version."""
    translator = Translator.from_run(random_run, decode_hparams=SETTINGS)
    model = translator.models[0]
    # Far from uniform: else batches decide which of two hypotheses is the likelier.
    model.set_weights([4.0 * weight for weight in model.get_weights()])
    folder = tmp_path / "model"
    if request.param == "ctranslate2":
        write_format("ctranslate2", translator, folder / "1", "float32")

        def write(version):
            shutil.copytree(folder / "1", folder / "writing")
            (folder / "writing").rename(folder / str(version))

    else:
        RunConfig.load(random_run).save(folder)
        checkpoints = Checkpoints(folder, {"model": model}, keep=9)
        checkpoints.save(1)
        write = checkpoints.save
    return folder, ModelSource.parse(f"en-de={folder}", request.param, SETTINGS).load(), write


def expected_answers(translator, lines):
    """Returns the right answers for the lines, as `make_requests` takes them."""
    translations, terms = translator.translate(lines), [[lines[0].split()[0], "Term"]]
    marked = translate_markup(translator, list(map(as_html, lines)), "html")
    with_glossary = with_terms(translator, Glossary.of(terms)).translate(lines)
    return {
        "plain": [one_line(translation.postprocessed) for translation in translations],
        "alternatives": [hypothesis_texts(translation)[:2] for translation in translations],
        "html": [translation.text for translation in marked],
        "with_terms": [translation.text for translation in with_glossary],
        "terms": terms,
    }


@pytest.mark.slow
def test_every_answer_is_right(model, tmp_path):
    path, translator, write_version = model
    pairs = TranslateEndeToy(name="toy").examples("dev")
    lines = sorted({line for line, _ in pairs})[:1000]
    answers = expected_answers(translator, lines)
    requests = make_requests(lines, answers, REQUESTS, ("en", "de"))
    server, events = Server(path, tmp_path), {}
    clients = Clients(server, events)
    events |= {REQUESTS // 4: lambda: write_version(2), 3 * REQUESTS // 8: clients.restart}
    events |= {REQUESTS // 2: lambda: write_version(3)}
    try:
        clients.send(requests)
        assert 'outcome="ok"} 1.0' in server.metrics(), "reloaded after the restart"
        last = Clients(server, {})
        last._events[3 * CLIENTS] = last.end
        last.send(requests)
    finally:
        server.process.kill()
    assert not clients.wrong + last.wrong, (clients.wrong + last.wrong)[0][:2000]
    assert clients.outcomes.keys() == {"good", "refused", "left"}
    assert clients.outcomes["good"] == 0.9 * REQUESTS
    memory = clients.memory
    before = max(memory[2 * len(memory) // 5 : 3 * len(memory) // 5])
    assert statistics.median(memory[-len(memory) // 10 :]) < 1.1 * before
