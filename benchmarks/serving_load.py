"""Many clients at once against a served export: are all answers right, and how fast are they?

    python benchmarks/serving_load.py [--output_dir=runs/averaged] [--clients=64] [--requests=5000]

Serves the export of a run, or of a small model with random weights, by the tests' stand-in for
TensorFlow Serving, a process of its own. Each request has 1 to 4 sentences of mixed lengths, over
gRPC or, one in five, over REST. One in ten is malformed in one of four ways. It fails unless every
good request is answered as the same process translates, every malformed one with the status that it
deserves, none is lost, and the server's memory stays. Prints a line of JSON; first_ms and second_ms
are of one sentence, twice, before the load, and connect_ms of a request before these that computes
nothing: a process's first over gRPC takes longer, whatever it asks for.
"""

import collections
import contextlib
import dataclasses
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
from absl import app, flags, logging

from t2t_keras.environment import prepare_tensorflow
from t2t_keras.serving import messages

prepare_tensorflow()

_RUN = flags.DEFINE_string("output_dir", "", "Run to serve; default: random weights.")
_TEXT = flags.DEFINE_string("text", "", "Source text; default: the problem's dev set.")
_CLIENTS = flags.DEFINE_integer("clients", 64, "Clients at once.", 1)
_REQUESTS = flags.DEFINE_integer("requests", 5000, "Requests in all.", 1)
_LIMIT = flags.DEFINE_float("limit", 1800.0, "Seconds after which no request is sent any more.")

STAND_IN = Path(__file__).resolve().parents[1] / "tests" / "serving" / "stand_in_server.py"
_SECONDS_A_REQUEST = 120.0
_SAMPLE_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Request:
    """What is sent, and what must come.

    Attributes:
      inputs: `TensorProto`s by name, for gRPC.
      signature: name of the signature.
      rest: the inputs for JSON; None = over gRPC.
      expected: the translations, or the name of the gRPC status.
    """

    inputs: dict
    signature: str
    rest: dict | None
    expected: tuple[str, ...] | str


@dataclasses.dataclass
class Report:
    """What came of a load.

    Attributes:
      seconds: from the first request to the last answer.
      latencies: seconds of each good request.
      outcomes: how many "good", "refused", "wrong" and "lost".
      first_wrong: what was wrong with the first that was.
      memory: MiB of the server, sampled.
    """

    seconds: float
    latencies: list[float]
    outcomes: collections.Counter
    first_wrong: str
    memory: list[float]

    @property
    def memory_growth(self) -> float:
        """How much larger the server is at the end than after a third of the time, as a share."""
        third = max(len(self.memory) // 3, 1)
        early, late = self.memory[third : 2 * third] or self.memory, self.memory[-third:]
        return max(late) / max(early) - 1

    def summary(self) -> dict:
        """Returns the figures."""
        ordered = sorted(self.latencies) or [float("nan")]
        return {
            **self.outcomes,
            "seconds": round(self.seconds, 1),
            "requests_per_second": round(sum(self.outcomes.values()) / self.seconds, 1),
            "p50_ms": round(1000 * ordered[len(ordered) // 2]),
            "p99_ms": round(1000 * ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)]),
            "memory_mib": round(self.memory[-1]),
            "memory_growth": round(self.memory_growth, 3),
            **({"first_wrong": self.first_wrong} if self.first_wrong else {}),
        }


def make_requests(
    lines: Sequence[str], translations: Sequence[str], count: int, seed: int = 0
) -> list[Request]:
    """Returns requests, one in ten of them malformed.

    Args:
      lines: source text.
      translations: what the model makes of each line.
      count: how many requests.
      seed: of the choice.
    """
    choose = random.Random(seed)

    def malformed(kind: int) -> Request:
        text = messages.string_tensor(["a"])
        if kind == 0:  # another dtype
            return Request(
                {"text": messages.int_tensor([[1]])}, "serving_default", None, "INVALID_ARGUMENT"
            )
        if kind == 1:  # another shape
            text.tensor_shape.dim.add(size=1)
            return Request({"text": text}, "serving_default", None, "INVALID_ARGUMENT")
        if kind == 2:  # a signature that there is not
            return Request({"text": text}, "no_such_signature", None, "FAILED_PRECONDITION")
        text.string_val[0] = b"\xff\xfe"  # not UTF-8
        return Request({"text": text}, "serving_default", None, "INVALID_ARGUMENT")

    def good(over_rest: bool) -> Request:
        rows = [choose.randrange(len(lines)) for _ in range(choose.randint(1, 4))]
        text = [lines[row] for row in rows]
        return Request(
            {"text": messages.string_tensor(text)},
            "serving_default",
            {"text": text} if over_rest else None,
            tuple(translations[row] for row in rows),
        )

    return [
        malformed(number // 10 % 4) if number % 10 == 3 else good(number % 5 == 0)
        for number in range(count)
    ]


def load(server: dict, requests: Sequence[Request], clients: int, limit: float) -> Report:
    """Sends all requests, `clients` of them at once.

    Args:
      server: "grpc" and "rest", the ports at 127.0.0.1, and "pid".
      requests: what to send.
      clients: how many threads, each with a connection of its own.
      limit: seconds after which no request is sent any more; those left are lost.
    """
    waiting = queue.SimpleQueue()
    for request in requests:
        waiting.put(request)
    outcomes, latencies, wrong, lock = collections.Counter(), [], [], threading.Lock()
    start = time.perf_counter()

    def client() -> None:
        with grpc.insecure_channel(
            f"127.0.0.1:{server['grpc']}", [("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            predict = channel.unary_unary(
                messages.PREDICT_METHOD,
                request_serializer=messages.PredictRequest.SerializeToString,
                response_deserializer=messages.PredictResponse.FromString,
            )
            while time.perf_counter() - start < limit:
                try:
                    request = waiting.get_nowait()
                except queue.Empty:
                    return
                began = time.perf_counter()
                found = _answer(predict, server["rest"], request)
                seconds = time.perf_counter() - began
                with lock:
                    if found != request.expected:
                        outcomes["wrong"] += 1
                        wrong.append(f"{request.expected} was expected, {found} came")
                    elif isinstance(found, str):
                        outcomes["refused"] += 1
                    else:
                        outcomes["good"] += 1
                        latencies.append(seconds)

    with _sampled_memory(server["pid"]) as memory:
        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    outcomes["lost"] = len(requests) - outcomes.total()
    seconds = time.perf_counter() - start
    return Report(seconds, latencies, outcomes, wrong[0] if wrong else "", memory)


def _answer(predict: Callable, rest_port: int, request: Request) -> tuple[str, ...] | str:
    """Returns the translations, or what failed."""
    try:
        if request.rest is None:
            message = messages.predict_request("translate", request.signature, **request.inputs)
            response = predict(message, timeout=_SECONDS_A_REQUEST)
            return tuple(messages.read_strings(response.outputs["translation"]))
        url = f"http://127.0.0.1:{rest_port}/v1/models/translate:predict"
        body = json.dumps({"signature_name": request.signature, "inputs": request.rest}).encode()
        with urllib.request.urlopen(url, body, timeout=_SECONDS_A_REQUEST) as response:
            return tuple(json.load(response)["outputs"]["translation"])
    except grpc.RpcError as error:
        return error.code().name
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _sampled_memory(pid: int) -> Iterator[list[float]]:
    """Gives a list that grows by the resident MiB of a process while it lasts."""
    memory, done = [], threading.Event()

    def sample() -> None:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)

    def sample_on() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            sample()

    sample()
    thread = threading.Thread(target=sample_on)
    thread.start()
    try:
        yield memory
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def _served(model_dir: Path, workers: int) -> Iterator[dict]:
    """Serves an export while it lasts; gives the ports and the process."""
    command = [sys.executable, STAND_IN, model_dir, "translate", f"--workers={workers}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def _model():
    """Returns a translator, and text for it."""
    from t2t_keras import registry
    from t2t_keras.decoding.translator import Translator

    if _RUN.value:
        from t2t_keras.serving.origin import dev_text
        from t2t_keras.training.run_record import RunRecord

        text = dev_text(RunRecord.load(_RUN.value), "")
        return Translator.from_run(_RUN.value), text[0] if text else []
    import keras

    from t2t_keras.data.tokenizer import Tokenizer
    from t2t_keras.decoding.config import decode_config

    problem = registry.problem("translate_ende_toy")
    lines = sorted({source for source, _ in problem.examples("dev")})
    tokenizer = Tokenizer.train(lines, 500)
    keras.utils.set_random_seed(1)
    hparams = registry.hparams("transformer_tiny")
    model = registry.model("transformer").from_hparams(hparams, tokenizer.vocab_size)
    model.embedding.matrix.assign(3.0 * model.embedding.matrix.numpy())
    return Translator(model, tokenizer, decode_config("extra_length=5")), lines


def main(_) -> None:
    """Loads a server as the flags say."""
    from t2t_keras.data.text_files import read_text
    from t2t_keras.serving.export import export

    # TensorFlow tells how it names the inputs of each function that it saves.
    logging.set_verbosity(logging.WARNING)
    translator, lines = _model()
    lines = read_text(_TEXT.value) if _TEXT.value else lines
    translations = [translation.text for translation in translator.translate(lines)]
    requests = make_requests(lines, translations, _REQUESTS.value)
    with tempfile.TemporaryDirectory() as folder:
        version = export(translator, folder)
        with _served(version, workers=_CLIENTS.value) as server:
            text = {"text": messages.string_tensor(lines[:1])}
            nothing = Request(text, "no_such_signature", None, "FAILED_PRECONDITION")
            one = Request(text, "serving_default", None, tuple(translations[:1]))
            alone = [load(server, [each], 1, _LIMIT.value) for each in (nothing, one, one)]
            report = load(server, requests, _CLIENTS.value, _LIMIT.value)
    names = ("connect_ms", "first_ms", "second_ms")
    figures = {
        name: round(1000 * each.seconds) for name, each in zip(names, alone, strict=True)
    } | {"clients": _CLIENTS.value}
    print(json.dumps(figures | report.summary()))
    if report.outcomes["wrong"] or report.outcomes["lost"] or report.memory_growth > 0.1:
        sys.exit("Some answers are wrong or lost, or the server has grown: see above.")


if __name__ == "__main__":
    app.run(main)
