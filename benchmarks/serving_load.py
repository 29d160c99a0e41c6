"""Many clients at once against a served export: are all answers right, and how fast are they?

    python benchmarks/serving_load.py [--output_dir=runs/averaged] [--clients=64] [--requests=5000]

Serves the export of a run, or of a small model with random weights, by the tests' stand-in for
TensorFlow Serving in a process of its own. Each request has 1 to 4 sentences of mixed lengths, over
gRPC or, one in five, over REST. One in ten is malformed in one of two ways. It fails unless every
good request is answered as the same process translates, every malformed one is refused, and the
server's memory stays. Prints a line of JSON; first_ms and second_ms are of one sentence, twice,
before the load.
"""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from absl import app, flags, logging

from t2t_keras.environment import prepare_tensorflow
from t2t_keras.errors import UserError
from t2t_keras.serving.client.grpc import GrpcClient
from t2t_keras.serving.client.rest import RestClient

prepare_tensorflow()

_RUN = flags.DEFINE_string("output_dir", "", "Run to serve; default: random weights.")
_CLIENTS = flags.DEFINE_integer("clients", 64, "Clients at once.", 1)
_REQUESTS = flags.DEFINE_integer("requests", 5000, "Requests in all.", 1)

STAND_IN = Path(__file__).resolve().parents[1] / "tests" / "serving" / "stand_in_server.py"


class Request(NamedTuple):
    """Texts, and the translations to expect; None = the request must be refused.

    The protocol is "grpc", "rest", or a malformed use of gRPC: "other", a signature that gives no
    translation, or "missing", one that does not exist.
    """

    texts: list[str]
    protocol: str
    expected: list[str] | None


def make_requests(
    lines: Sequence[str], translations: Sequence[str], count: int, seed: int = 0
) -> list[Request]:
    """Returns `count` requests for 1 to 4 of the lines, one in ten of them malformed."""
    choose, requests = random.Random(seed), []
    for number in range(count):
        rows = [choose.randrange(len(lines)) for _ in range(choose.randint(1, 4))]
        texts = [lines[row] for row in rows]
        if number % 10 == 3:
            requests.append(Request(texts, "other" if number % 20 == 3 else "missing", None))
        else:
            expected = [translations[row] for row in rows]
            requests.append(Request(texts, "grpc" if number % 5 else "rest", expected))
    return requests


def load(server: dict, requests: Sequence[Request], clients: int) -> dict:
    """Sends all requests, `clients` of them at once.

    Args:
      server: "grpc" and "rest", the ports at 127.0.0.1, and "pid".
      requests: to send.
      clients: number of threads.

    Returns:
      Numbers of requests that were "good", "refused" and "wrong", with the "first_wrong"; seconds,
      rates, and MiB of the server; "memory_growth" compares the last third of the time with the
      middle one.
    """
    settings = {"address": f"127.0.0.1:{server['grpc']}", "name": "translate", "timeout": 120}
    by_protocol = {
        "grpc": GrpcClient(**settings),
        "rest": RestClient(**settings | {"address": f"127.0.0.1:{server['rest']}"}),
        "other": GrpcClient(**settings, signature="nbest"),
        "missing": GrpcClient(**settings, signature="none"),
    }
    outcomes, latencies, wrong, memory = collections.Counter(), [], [], [_memory(server["pid"])]

    def send(request: Request) -> None:
        began = time.perf_counter()
        try:
            found = [each.text for each in by_protocol[request.protocol].translate(request.texts)]
        except UserError as error:
            found, reason = None, str(error)
        if found != request.expected:
            outcomes["wrong"] += 1
            wrong.append(f"expected {request.expected}, got {found or reason}")
        elif found is None:
            outcomes["refused"] += 1
        else:
            outcomes["good"] += 1
            latencies.append(time.perf_counter() - began)
        memory.append(_memory(server["pid"]))

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, requests))
    seconds = time.perf_counter() - start
    for client in by_protocol.values():
        client.close()
    ordered, third = sorted(latencies) or [float("nan")], max(len(memory) // 3, 1)
    return {
        **{name: outcomes[name] for name in ("good", "refused", "wrong")},
        "first_wrong": wrong[0] if wrong else "",
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(requests) / seconds, 1),
        "p50_ms": round(1000 * ordered[len(ordered) // 2], 1),
        "p99_ms": round(1000 * ordered[int(0.99 * len(ordered))], 1),
        "memory_mib": round(memory[-1]),
        "memory_growth": round(max(memory[-third:]) / max(memory[third : 2 * third]) - 1, 3),
    }


def _memory(pid: int) -> float:
    """Returns the resident MiB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def _served(model_dir: Path, workers: int) -> Iterator[dict]:
    """Serves an export while it lasts; gives the ports and the process."""
    command = [sys.executable, STAND_IN, model_dir, "translate", str(workers)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield {**json.loads(process.stdout.readline()), "pid": process.pid}
        process.stdin.close()


def _model():
    """Returns a translator, and text for it."""
    from t2t_keras import registry
    from t2t_keras.decoding.translator import Translator

    if _RUN.value:
        from t2t_keras.serving.export.origin import dev_text
        from t2t_keras.training.run_config import RunConfig

        text = dev_text(RunConfig.load(_RUN.value), "")
        return Translator.from_run(_RUN.value), text[0] if text else []
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.text.tokenizer import Tokenizer

    problem = registry.problem("translate_ende_toy")
    lines = sorted({source for source, _ in problem.examples("dev")})
    tokenizer = Tokenizer.train(lines, 500)
    hparams = registry.hparams("transformer_tiny")
    model = registry.model("transformer").from_hparams(hparams, tokenizer.vocab_size)
    model.embedding.matrix.assign(3.0 * model.embedding.matrix.numpy())
    return Translator(model, tokenizer, decode_config("extra_length=5")), lines


def main(_) -> None:
    """Loads a server as the flags say."""
    from t2t_keras.serving.export.export import export

    logging.set_verbosity(logging.WARNING)  # TensorFlow names each function that it saves
    translator, lines = _model()
    translations = [translation.text for translation in translator.translate(lines)]
    requests = make_requests(lines, translations, _REQUESTS.value)
    with (
        tempfile.TemporaryDirectory() as folder,
        _served(export(translator, folder), workers=_CLIENTS.value) as server,
    ):
        one = Request(lines[:1], "grpc", translations[:1])
        first, second = (round(1000 * load(server, [one], 1)["seconds"]) for _ in range(2))
        report = load(server, requests, _CLIENTS.value)
    figures = {"first_ms": first, "second_ms": second, "clients": _CLIENTS.value}
    print(json.dumps(figures | report))
    if report["wrong"] or report["memory_growth"] > 0.1:
        sys.exit("Some answers are wrong, or the server has grown: see above.")


if __name__ == "__main__":
    app.run(main)
