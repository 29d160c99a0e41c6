"""Many clients at once against t2t-serve: are all answers right, and how fast are they?

    python benchmarks/server_load.py [--output_dir=runs/averaged] [--engine=ctranslate2]
        [--text=news.en] [--clients=64] [--requests=10000] [--fair]

Starts t2t-serve on loopback with a copy of a run, of its export for CTranslate2, or of a small
model with random weights, and sends it 1 to 4 lines a request, by the APIs of LibreTranslate,
DeepL and the page: plain text, HTML, with alternatives, with terms. One in ten is malformed or
hostile, with another key: costly, half sent, without a key, or left by its client. After a quarter
and a half of the requests newer versions of the model appear, with the same weights; between them
the server is restarted. Then the requests come once more, and the server is stopped during them. It
fails unless every good request gets the translator's answer, every other one an expected status,
none is lost, both versions are loaded, and the server's memory no longer grows once the second is.
Prints a line of JSON; its requests a second are good ones.

With --fair it measures instead how long a client waits for one line, alone and together with two
costly clients, and fails if the 99th percentile is over three times that alone.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl import app, flags
from measuring import in_own_process
from server_requests import HOSTILE_KEYS, JSON, KEY, Request, as_html, make_requests, read_answer

_RUN = flags.DEFINE_string("output_dir", "", "Run to serve; default: random weights.")
_PAIR = flags.DEFINE_string("pair", "en-de", "Languages of the run.")
_ENGINE = flags.DEFINE_enum("engine", "keras", ("keras", "ctranslate2"), "Engine of the server.")
_DTYPE = flags.DEFINE_string("dtype", "int8", "Of the weights of the export for CTranslate2.")
_TEXT = flags.DEFINE_string("text", "", "Lines to translate; default: the run's dev set.")
_LINES = flags.DEFINE_integer("lines", 1000, "Most lines of the text.", 1)
_SETTINGS = flags.DEFINE_string("decode_hparams", "", "Decoding settings of the server.")
_CLIENTS = flags.DEFINE_integer("clients", 64, "Clients at once.", 1, 512)
_REQUESTS = flags.DEFINE_integer("requests", 10_000, "Requests in all.", 20, 1_000_000)
_FAIR = flags.DEFINE_bool("fair", False, "Measure one cheap client together with two costly ones.")
_MOST_SECONDS = flags.DEFINE_integer("most_secs", 3600, "Seconds until it gives up.", 1)

_LARGEST_GROWTH = 0.1


class _Server:
    """t2t-serve in its own process."""

    def __init__(self, model: Path, folder: Path):
        self._model, self._folder, self.port = model, folder, 0
        keys = "\n".join((KEY, *HOSTILE_KEYS))
        (folder / "keys").write_text(f"{keys}\n", encoding="utf-8")
        self._log = (folder / "log").open("wb")
        self._start()

    def restart(self) -> int:
        """Returns the exit status of the process before."""
        self.process.terminate()
        status = self.process.wait(60)
        self.process.stdout.close()
        self._start()
        return status

    def _start(self) -> None:
        folder = self._folder
        flags_ = [f"--model={_PAIR.value}={self._model}", f"--port={self.port}", "--reload_secs=1"]
        flags_ += ["--nosplit_sentences", f"--decode_hparams={_SETTINGS.value}"]
        flags_ += [f"--api_keys_file={folder / 'keys'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "t2t_keras.workbench.bin.t2t_serve", *flags_],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        line = self.process.stdout.readline()
        self.port = urllib.parse.urlsplit(line.removeprefix("Serving on ").strip()).port
        if not self.port:
            sys.exit(f"The server did not start:\n{(folder / 'log').read_text()[-2000:]}")

    def mebibytes(self) -> float:
        """Returns its resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def metrics(self) -> str:
        """Returns what it counts."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def stop(self) -> int:
        """Returns its exit status."""
        self.process.terminate()
        status = self.process.wait(120)
        self.process.stdout.close()
        self._log.close()
        return status


class _Clients:
    """Clients that send requests, each on its own connection."""

    def __init__(self, server: _Server):
        self._server, self._local = server, threading.local()
        self.outcomes = collections.Counter()
        self.milliseconds: list[float] = []
        self.memory: list[float] = []
        self.wrong: list[str] = []
        self._ending = self._restarting = False

    def restart(self) -> int:
        """Restarts the server while requests come; refused ones are sent again."""
        self._restarting = True
        status = self._server.restart()
        self._restarting = False
        self.memory.clear()
        return status

    def send(self, requests: Sequence[Request]) -> float:
        """Sends all and returns the seconds that it took."""
        began = time.perf_counter()
        self._until = time.monotonic() + _MOST_SECONDS.value
        with concurrent.futures.ThreadPoolExecutor(_CLIENTS.value) as pool:
            list(pool.map(self._send, requests))
        return time.perf_counter() - began

    def send_until_the_end(self, requests: Sequence[Request]) -> int:
        """Has the server end while requests come, and returns its exit status."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.send, requests)
            while sum(self.outcomes.values()) < 2 * _CLIENTS.value and not sending.done():
                time.sleep(0.001)
            self._ending = True
            status = self._server.stop()
            sending.result()
        return status

    def _send(self, request: Request) -> None:
        if time.monotonic() > self._until:
            self.outcomes["not sent"] += 1
            return
        if request.cut is not None:
            self._send_half(request)
            return
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection(
                "127.0.0.1", self._server.port, timeout=300
            )
        began = time.perf_counter()
        try:
            self._local.connection.request(
                request.method, request.path, request.body, request.headers
            )
            answer = self._local.connection.getresponse()
            found = read_answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            self._local.connection.close()
            if self._ending and isinstance(error, ConnectionRefusedError):
                self.outcomes["not sent"] += 1  # No new connection is taken.
                return
            if self._restarting and isinstance(error, ConnectionRefusedError):
                time.sleep(0.1)
                self._send(request)
                return
            found = f"{type(error).__name__}: {error}"
        if not request.is_answered(found):
            self.outcomes["wrong" if isinstance(found, list | int) else "lost"] += 1
            self.wrong.append(f"{request}: got {found}")
        elif not isinstance(request.expected, list):
            self.outcomes["refused"] += 1  # Or answered within its bounds.
        else:
            self.outcomes["good"] += 1
            self.milliseconds.append(1000 * (time.perf_counter() - began))
        if not (self._ending or self._restarting):
            self.memory.append(self._server.mebibytes())

    def _send_half(self, request: Request) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=10)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.putrequest(request.method, request.path)
            for name, value in (request.headers | {"Content-Length": len(request.body)}).items():
                connection.putheader(name, str(value))
            connection.endheaders(request.body[: request.cut])
            time.sleep(0.2)
        connection.close()
        self.outcomes["left"] += 1


def _prepare(
    folder: str, run: str, pair: str, engine: str, dtype: str, text: str, most: int, settings: str
) -> dict:
    """Copies a run to <folder>/model; returns lines, answers and the files of newer versions."""
    from t2t_keras.data.dataset import open_generated
    from t2t_keras.decoding.translation import one_line
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.serving.export.formats import write_format
    from t2t_keras.text.files import read_text
    from t2t_keras.training.checkpoints.names import checkpoint_at
    from t2t_keras.training.run_config import RunConfig
    from t2t_keras.workbench.markup.translator import translate_markup
    from t2t_keras.workbench.server.models import ModelSource
    from t2t_keras.workbench.server.passages import hypothesis_texts
    from t2t_keras.workbench.terms.glossary import Glossary
    from t2t_keras.workbench.terms.stage import with_terms

    run, model = run or _random_run(Path(folder)), Path(folder) / "model"
    record, checkpoint = RunConfig.load(run), checkpoint_at(run)
    if text:
        lines = read_text(Path(text))
    else:
        lines, _ = open_generated(record.problem, record.data_dir).text("dev")
    lines = sorted({line.strip() for line in lines if line.strip()})
    lines = random.Random(1).sample(lines, min(most, len(lines)))
    if engine == "ctranslate2":
        write_format("ctranslate2", Translator.from_run(run), model / "1", dtype)
        shutil.copytree(model / "1", Path(folder) / "newer")
        newer = [[(str(Path(folder) / "newer"), str(model / each))] for each in "23"]
    else:
        record.save(model)
        files = sorted(Path(checkpoint).parent.glob(f"{Path(checkpoint).name}.*"))
        endings = [file.name.removeprefix(Path(checkpoint).name) for file in files]
        for file, ending in zip(files, endings, strict=True):
            shutil.copy(file, model / f"model.ckpt-1{ending}")
        newer = [
            [
                (str(file), str(model / f"model.ckpt-{step}{ending}"))
                for file, ending in zip(files, endings, strict=True)
            ]
            for step in (2, 3)
        ]
    translator = ModelSource.parse(f"{pair}={model}", engine, settings).load()
    found, terms = list(translator.translate(lines)), [[lines[0].split()[0], "Term"]]
    marked = translate_markup(translator, list(map(as_html, lines)), "html")
    termed = with_terms(translator, Glossary.of(terms)).translate(lines)
    answers = {
        "plain": [one_line(each.postprocessed) for each in found],
        "alternatives": [hypothesis_texts(each)[:2] for each in found],
        "html": [each.text for each in marked],
        "with_terms": [each.text for each in termed],
        "terms": terms,
    }
    return {"model": str(model), "lines": lines, "answers": answers, "newer": newer}


def _random_run(folder: Path) -> Path:
    """Returns a run of random weights on the toy problem's dev set."""
    import keras

    from t2t_keras import registry
    from t2t_keras.data.dataset import open_generated
    from t2t_keras.data.generate import generate
    from t2t_keras.training.checkpoints.tensorflow import Checkpoints
    from t2t_keras.training.run_config import RunConfig

    pairs = list(registry.problem("translate_ende_toy").examples("dev"))
    for split in ("train", "dev"):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    config = "source_language=en,target_language=de,vocab_size=500"
    problem = registry.problem("parallel_text", config)
    generate(problem, folder / "data", folder)
    hparams = registry.hparams("transformer_tiny", "num_layers=2,d_model=64,d_ff=128,num_heads=4")
    record = RunConfig(
        problem=problem,
        model="transformer",
        hparams=hparams,
        random_seed=1,
        data_dir=str(folder / "data"),
    ).with_data(open_generated(problem, folder / "data"))
    record.save(folder / "run")
    keras.utils.set_random_seed(1)
    Checkpoints(folder / "run", {"model": record.make_model()}, keep=1).save(1)
    return folder / "run"


def _newer_version(copies: Sequence[Sequence[str]]) -> None:
    """Writes a newer version, each file or folder whole or not at all, the index last."""
    for source, target in sorted(copies, key=lambda copy: copy[0].endswith(".index")):
        (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, f"{target}.writing")
        Path(f"{target}.writing").rename(target)


def main(_) -> None:
    """Loads a server as the flags say."""
    with tempfile.TemporaryDirectory() as folder:
        settings = _RUN, _PAIR, _ENGINE, _DTYPE, _TEXT, _LINES, _SETTINGS
        made = in_own_process(_prepare, folder, *(each.value for each in settings))
        pair = tuple(_PAIR.value.split("-", 1))
        requests = make_requests(made["lines"], made["answers"], _REQUESTS.value, pair)
        server = _Server(Path(made["model"]), Path(folder))
        if _FAIR.value:
            _measure_fairness(server, made["lines"])
            return
        clients = _Clients(server)
        quarters = len(requests) // 4, len(requests) // 2
        when = zip(quarters, made["newer"], strict=True)
        timer = threading.Thread(target=_newer_versions, args=(clients, list(when)))
        timer.start()
        seconds = clients.send(requests)
        timer.join()
        reloaded = 'outcome="ok"} 1.0' in server.metrics()
        last = _Clients(server)
        status = last.send_until_the_end(requests)
    report = _report(clients, seconds) | {"at_the_end": dict(last.outcomes)}
    print(json.dumps(report | {"reloaded": reloaded, "exit_status": status}))
    if wrong := clients.wrong + last.wrong:
        print(f"The first of {len(wrong)}: {wrong[0]:.2000}", file=sys.stderr)
    answered = sum(report[name] for name in ("good", "refused", "left"))
    complete = answered == len(requests) and not last.wrong
    if not complete or not reloaded or status or report["memory_growth"] > _LARGEST_GROWTH:
        sys.exit("Some answers are wrong, or the server has grown or not reloaded: see above.")


def _newer_versions(clients: _Clients, when: Sequence[tuple[int, Sequence]]) -> None:
    for number, (count, copies) in enumerate(when):
        while sum(clients.outcomes.values()) < count:
            time.sleep(0.01)
        _newer_version(copies)
        if number == 0:
            between = (count + when[1][0]) // 2
            while sum(clients.outcomes.values()) < between:
                time.sleep(0.01)
            if status := clients.restart():
                clients.wrong.append(f"the server that was restarted ended with {status}")


def _measure_fairness(server: _Server, lines: Sequence[str]) -> None:
    """Prints how long a line takes alone and together with two costly clients."""
    source, target = _PAIR.value.split("-", 1)
    asked, until = {"source": source, "target": target}, threading.Event()

    def ask(key: str, text: str, **others) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        body = json.dumps(asked | {"q": text, "api_key": key} | others).encode()
        began = time.perf_counter()
        connection.request("POST", "/translate", body, JSON)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return time.perf_counter() - began if answer.status == 200 else math.inf

    def cost(key: str) -> None:
        while not until.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask(key, "".join(f"<p>{line}</p>" for line in lines * 20)[:150_000], format="html")

    def cheap() -> np.ndarray:
        times = [ask(KEY, lines[number % len(lines)]) for number in range(_REQUESTS.value)]
        return 1000 * np.percentile(times, [50, 90, 99])

    cheap()  # Warms up.
    alone = cheap()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        costly = [pool.submit(cost, key) for key in HOSTILE_KEYS]
        time.sleep(2.0)
        for line in lines[:5]:  # Searches that began while a client was alone are large.
            ask(KEY, line)
        together = cheap()
        until.set()
        status = server.stop()
        concurrent.futures.wait(costly)
    found = {"alone_ms": alone.round(1).tolist(), "together_ms": together.round(1).tolist()}
    print(json.dumps({"percentiles": [50, 90, 99], **found, "exit_status": status}))
    if (times := together[-1] / alone[-1]) > 3 or status:
        sys.exit(f"It takes {times:.1f} times as long together with costly clients.")


def _report(clients: _Clients, seconds: float) -> dict:
    """Returns figures; "memory_growth" compares the end with the time after the second reload."""
    memory = clients.memory
    # It begins with the restart, after three eighths of the requests; the reload is at 20 %.
    before = memory[2 * len(memory) // 5 : 3 * len(memory) // 5 + 1]
    after = memory[-len(memory) // 10 :]
    return {
        **{name: clients.outcomes[name] for name in ("good", "refused", "left", "wrong", "lost")},
        "clients": _CLIENTS.value,
        "engine": _ENGINE.value,
        "seconds": round(seconds, 3),
        "requests_per_second": round(clients.outcomes["good"] / seconds, 1),
        "p50_ms": round(np.percentile(clients.milliseconds or [0], 50), 1),
        "p99_ms": round(np.percentile(clients.milliseconds or [0], 99), 1),
        "memory_mib": [round(memory[len(memory) * part // 10]) for part in range(10)]
        + [round(memory[-1])],
        "memory_growth": round(np.median(after) / max(before) - 1, 3),
    }


if __name__ == "__main__":
    app.run(main)
