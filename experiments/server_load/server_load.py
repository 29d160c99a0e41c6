"""Many clients at once against servers: how many requests a second, how fast, how much memory?

    python experiments/server_load/server_load.py --model=RUN_OR_EXPORT --text=news.en
        [--clients=64] [--requests=2000] [--rounds=3] [--libretranslate=lt/bin/python]
        [--saved_model=EXPORT]
    python experiments/server_load/server_load.py --model=RUN_OR_EXPORT --text=news.en --fair

t2t-serve, LibreTranslate's own server (of `pip install libretranslate` in an environment of its
own; --model must be an export for CTranslate2) and a SavedModel, in the tests' stand-in for
TensorFlow Serving, take turns, each alone on the machine. Requests have 1 to 4 lines. Neither
server splits sentences. Prints a line of JSON for each, with medians of the rounds.

With --fair it measures how long a client of t2t-serve waits for one line, alone and together with
two costly clients, and fails if the 99th percentile is over three times that alone.

A slow test, tests/workbench/server/test_under_load.py, checks the answers.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from absl import app, flags

from t2t_keras.text.files import read_text

_MODEL = flags.DEFINE_string("model", None, "Run or export of t2t-serve.", required=True)
_PAIR = flags.DEFINE_string("pair", "en-de", "Languages of the model.")
_TEXT = flags.DEFINE_string("text", None, "Lines to translate.", required=True)
_LIBRETRANSLATE = flags.DEFINE_string("libretranslate", "", "Python that has LibreTranslate.")
_SAVED_MODEL = flags.DEFINE_string("saved_model", "", "Export for TensorFlow Serving.")
_CLIENTS = flags.DEFINE_integer("clients", 64, "Clients at once.", 1, 512)
_REQUESTS = flags.DEFINE_integer("requests", 2000, "Requests of a round.", 20)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds; the medians count.", 1)
_FAIR = flags.DEFINE_bool("fair", False, "Measure one cheap client together with two costly ones.")
_PORT = flags.DEFINE_integer("port", 5055, "Port of the servers, and the next one.")

# What LibreTranslate's command does, but for its splitter of sentences, which must be fetched.
_START_LIBRETRANSLATE = """
import argostranslate.sbd
argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
from libretranslate.main import main
main()
"""
_START_STAND_IN = """
import http.server, pathlib, stand_in_server, sys, time
http.server.HTTPServer.request_queue_size = 256
export = pathlib.Path(sys.argv[1])
served = stand_in_server.Model(export, "translate")
served.warm_up(export)
with stand_in_server.serve(served, int(sys.argv[2])) as ports:
    print(ports["grpc"], flush=True)
    sys.stdin.read()
"""

_Ask = Callable[[list[str]], list[str]]


def main(_) -> None:
    """Prints the figures of each server."""
    if _FAIR.value:
        _measure_fairness()
        return
    choose = random.Random(0)
    lines = [line for line in read_text(Path(_TEXT.value)) if line.strip()]
    requests = [choose.choices(lines, k=choose.randint(1, 4)) for _ in range(_REQUESTS.value)]
    servers = {"t2t-serve": _t2t_serve}
    if _LIBRETRANSLATE.value:
        servers["LibreTranslate"] = _libretranslate
    if _SAVED_MODEL.value:
        servers["SavedModel"] = _saved_model
    rounds = collections.defaultdict(list)
    for _ in range(_ROUNDS.value):
        for name, server in servers.items():
            with server() as (process, ask):
                rounds[name].append(_load(ask, requests) | {"MiB": _mebibytes(process)})
    for name, figures in rounds.items():
        medians = {key: statistics.median(figure[key] for figure in figures) for key in figures[0]}
        print(json.dumps({"server": name, **{key: round(x, 1) for key, x in medians.items()}}))


def _load(ask: _Ask, requests: list[list[str]]) -> dict[str, float]:
    """Sends all requests, and returns requests a second and percentiles of the milliseconds."""
    milliseconds = []

    def send(texts: list[str]) -> None:
        start = time.perf_counter()
        answers = ask(texts)
        milliseconds.append(1000 * (time.perf_counter() - start))
        if len(answers) != len(texts) or not all(answers):
            raise RuntimeError(f"{texts} became {answers}")

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(_CLIENTS.value) as pool:
        list(pool.map(send, requests))
    seconds = time.perf_counter() - start
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return {"requests/s": len(requests) / seconds, "p50 ms": p50, "p99 ms": p99}


def _mebibytes(process: subprocess.Popen) -> float:
    pages = Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def _t2t_serve() -> Iterator[tuple[subprocess.Popen, _Ask]]:
    command = [sys.executable, "-m", "t2t_keras.workbench.bin.t2t_serve"]
    command += [f"--model={_PAIR.value}={_MODEL.value}", f"--port={_PORT.value}"]
    command += ["--nosplit_sentences", "--decode_hparams=beam_size=4"]
    ask = _client(_PORT.value)
    with _serving(command, os.environ, ask) as process:
        yield process, ask


@contextlib.contextmanager
def _libretranslate() -> Iterator[tuple[subprocess.Popen, _Ask]]:
    """Serves packages of Argos Translate with the model, of both directions: none is fetched."""
    port, model = _PORT.value + 1, Path(_MODEL.value)
    with tempfile.TemporaryDirectory() as folder:
        codes = _PAIR.value.split("-")
        for source, target in (codes, codes[::-1]):
            package = Path(folder) / "packages" / f"{source}_{target}"
            shutil.copytree(model, package / "model")
            shutil.copy(model / "vocab.model", package / "sentencepiece.model")
            content = {"package_version": "1.0", "argos_version": "1.5"}
            content |= {"from_code": source, "from_name": source}
            content |= {"to_code": target, "to_name": target}
            (package / "metadata.json").write_text(json.dumps(content), encoding="utf-8")
        home = dict(HOME=folder, ARGOS_PACKAGES_DIR=f"{folder}/packages", XDG_DATA_HOME=folder)
        command = [_LIBRETRANSLATE.value, "-c", _START_LIBRETRANSLATE, "--port", str(port)]
        command += ["--disable-web-ui", "--disable-files-translation"]
        ask = _client(port)
        with _serving(command, os.environ | home, ask) as process:
            yield process, ask


@contextlib.contextmanager
def _serving(command: list[str], environment, ask: _Ask) -> Iterator[subprocess.Popen]:
    """Runs a server until it answers, and then until the end of the context."""
    until = time.monotonic() + 120
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            while True:
                with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException):
                    ask(["Warm up."])
                    break
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    sys.exit(f"{command[0]} did not start:\n{log.read().decode()[-3000:]}")
                time.sleep(0.2)
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _client(port: int, **fields) -> _Ask:
    """Returns what asks LibreTranslate's API, on a connection for each thread."""
    local, (source, target) = threading.local(), _PAIR.value.split("-")

    def ask(texts: list[str]) -> list[str]:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        body = json.dumps({"q": texts, "source": source, "target": target} | fields)
        try:
            local.connection.request(
                "POST", "/translate", body, {"Content-Type": "application/json"}
            )
            answer = local.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            local.connection.close()
            raise
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}: {content[:500]!r}")
        return json.loads(content)["translatedText"]

    return ask


@contextlib.contextmanager
def _saved_model() -> Iterator[tuple[subprocess.Popen, _Ask]]:
    from t2t_keras.serving.client import GrpcClient

    command = [sys.executable, "-c", _START_STAND_IN, str(Path(_SAVED_MODEL.value).resolve())]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pipes["cwd"] = Path(__file__).resolve().parents[2] / "tests" / "support"
    with subprocess.Popen([*command, str(_CLIENTS.value)], **pipes) as process:
        port = int(process.stdout.readline())
        client = GrpcClient(address=f"127.0.0.1:{port}", name="translate", timeout=120)
        yield process, lambda texts: [translation.text for translation in client.translate(texts)]
        client.close()
        process.stdin.close()  # It ends with its standard input.


def _measure_fairness() -> None:
    """Prints how long a line takes alone and together with two costly clients."""
    lines, until = read_text(Path(_TEXT.value)), threading.Event()
    lines = [line for line in lines if line.strip()]
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("cheap\ncostly 1\ncostly 2\n".replace(" ", "-"))
        keys.flush()
        command = [sys.executable, "-m", "t2t_keras.workbench.bin.t2t_serve", "--nosplit_sentences"]
        command += [f"--model={_PAIR.value}={_MODEL.value}", f"--port={_PORT.value}"]
        command += [f"--api_keys_file={keys.name}"]
        ask = _client(_PORT.value, api_key="cheap")

        def cost(key: str) -> None:
            costly = _client(_PORT.value, api_key=key, format="html")
            text = "".join(f"<p>{line}</p>" for line in lines * 20)[:150_000]
            while not until.is_set():
                with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException):
                    costly([text])

        def percentiles() -> np.ndarray:
            times = []
            for number in range(_REQUESTS.value):
                start = time.perf_counter()
                ask([lines[number % len(lines)]])
                times.append(1000 * (time.perf_counter() - start))
            return np.percentile(times, [50, 90, 99])

        with _serving(command, os.environ, ask):
            percentiles()  # Warms up.
            alone = percentiles()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for key in ("costly-1", "costly-2"):
                    pool.submit(cost, key)
                time.sleep(2.0)
                for line in lines[:5]:  # Searches that began while a client was alone are large.
                    ask([line])
                together = percentiles()
                until.set()
    print(json.dumps({"alone ms": alone.tolist(), "together ms": together.tolist()}))
    if (times := together[-1] / alone[-1]) > 3:
        sys.exit(f"It takes {times:.1f} times as long together with costly clients.")


if __name__ == "__main__":
    app.run(main)
