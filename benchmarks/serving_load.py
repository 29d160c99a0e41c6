"""Many clients at once against a served export: are all answers right, and how fast are they?

    python benchmarks/serving_load.py [--output_dir=runs/averaged] [--clients=64] [--requests=5000]

Serves the export of a run, or of a small model with random weights, by the tests' stand-in for
TensorFlow Serving in a process of its own. Each request has 1 to 4 sentences of mixed lengths, over
gRPC or, one in five, over REST. One in ten names a signature that does not exist. It fails unless
every good request is answered as the same process translates, every malformed one is refused, and
the server's memory stays. Prints a line of JSON; first_ms and second_ms are of one sentence, twice,
before the load.
"""

import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import app, flags, logging
from measuring import small_translator

from t2t_keras.errors import UserError
from t2t_keras.serving.client.grpc import GrpcClient
from t2t_keras.serving.client.rest import RestClient

_RUN = flags.DEFINE_string("output_dir", "", "Run to serve; default: random weights.")
_CLIENTS = flags.DEFINE_integer("clients", 64, "Clients at once.", 1)
_REQUESTS = flags.DEFINE_integer("requests", 5000, "Requests in all.", 1)

_SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
# Serves an export to so many clients until its standard input ends; prints the ports.
_SERVE = """
import http.server, json, pathlib, stand_in_server, sys
http.server.HTTPServer.request_queue_size = 256
export = pathlib.Path(sys.argv[1])
served = stand_in_server.Model(export, "translate")
served.warm_up(export)
with stand_in_server.serve(served, int(sys.argv[2])) as ports:
    print(json.dumps(ports), flush=True)
    sys.stdin.read()
"""


class _Request(NamedTuple):
    """Texts, how they are sent, and their translations; None = the request must be refused."""

    texts: list[str]
    way: str
    expected: list[str] | None


def _make_requests(lines: list[str], translations: list[str], count: int) -> list[_Request]:
    """Returns so many requests for 1 to 4 of the lines, one in ten of them malformed."""
    choose, requests = random.Random(0), []
    for number in range(count):
        rows = [choose.randrange(len(lines)) for _ in range(choose.randint(1, 4))]
        texts, expected = [lines[row] for row in rows], [translations[row] for row in rows]
        if number % 10 == 3:
            requests.append(_Request(texts, "malformed", None))
        else:
            requests.append(_Request(texts, "grpc" if number % 5 else "rest", expected))
    return requests


def _load(server: dict, requests: Sequence[_Request], clients: int) -> dict:
    """Sends all requests, `clients` of them at once, to the ports of a server; returns figures.

    They are numbers of requests that were "good", "refused" and "wrong", with the "first_wrong";
    seconds, rates, and MiB of the server; "memory_growth" compares the last third of the time with
    the middle one.
    """
    settings = {"address": f"127.0.0.1:{server['grpc']}", "name": "translate", "timeout": 120}
    ways = {
        "grpc": GrpcClient(**settings),
        "rest": RestClient(**settings | {"address": f"127.0.0.1:{server['rest']}"}),
        "malformed": GrpcClient(**settings, signature="none"),
    }
    outcomes, milliseconds, wrong, memory = collections.Counter(), [], [], []

    def send(request: _Request) -> None:
        began = time.perf_counter()
        try:
            found = [each.text for each in ways[request.way].translate(request.texts)]
            milliseconds.append(1000 * (time.perf_counter() - began))
        except UserError as error:
            found, reason = None, str(error)
        if found != request.expected:
            outcomes["wrong"] += 1
            wrong.append(f"expected {request.expected}, got {found or reason}")
        else:
            outcomes["refused" if found is None else "good"] += 1
        pages = int(Path(f"/proc/{server['pid']}/statm").read_text("ascii").split()[1])
        memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, requests))
    seconds = time.perf_counter() - start
    for client in ways.values():
        client.close()
    third = max(len(memory) // 3, 1)
    return {
        **{name: outcomes[name] for name in ("good", "refused", "wrong")},
        "first_wrong": wrong[0] if wrong else "",
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(requests) / seconds, 1),
        "p50_ms": round(np.percentile(milliseconds, 50), 1),
        "p99_ms": round(np.percentile(milliseconds, 99), 1),
        "memory_mib": round(memory[-1]),
        "memory_growth": round(max(memory[-third:]) / max(memory[-2 * third :][:third]) - 1, 3),
    }


def _model():
    """Returns a translator, and text for it."""
    from t2t_keras import registry
    from t2t_keras.data.dataset import open_generated
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.training.run_config import RunConfig

    if _RUN.value:
        run = RunConfig.load(_RUN.value)
        lines, _ = open_generated(run.problem, run.data_dir).text("dev")
        return Translator.from_run(_RUN.value), lines
    lines = sorted({line for line, _ in registry.problem("translate_ende_toy").examples("dev")})
    return small_translator(lines), lines


def main(_) -> None:
    """Loads a server as the flags say."""
    from t2t_keras.serving.export.export import export

    logging.set_verbosity(logging.WARNING)  # TensorFlow names each function that it saves
    translator, lines = _model()
    translations = [translation.text for translation in translator.translate(lines)]
    requests = _make_requests(lines, translations, _REQUESTS.value)
    with tempfile.TemporaryDirectory() as folder:
        exported = export(translator, folder)
        command = [sys.executable, "-c", _SERVE, exported, str(_CLIENTS.value)]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_SUPPORT)
        with subprocess.Popen(command, **pipes) as process:  # ends with its standard input
            server = {**json.loads(process.stdout.readline()), "pid": process.pid}
            one = _Request(lines[:1], "grpc", translations[:1])
            first, second = (round(1000 * _load(server, [one], 1)["seconds"]) for _ in range(2))
            report = _load(server, requests, _CLIENTS.value)
            process.stdin.close()
    figures = {"first_ms": first, "second_ms": second, "clients": _CLIENTS.value}
    print(json.dumps(figures | report))
    if report["wrong"] or report["memory_growth"] > 0.1:
        sys.exit("Some answers are wrong, or the server has grown: see above.")


if __name__ == "__main__":
    app.run(main)
