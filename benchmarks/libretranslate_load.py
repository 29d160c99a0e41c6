"""t2t-serve and LibreTranslate's own server under the same load, with the same CTranslate2 model.

    python -m venv lt && lt/bin/pip install libretranslate
    python benchmarks/libretranslate_load.py --export=exports/student --text=news.en
        --libretranslate=lt/bin/python [--clients=64] [--requests=2000] [--rounds=3]

Both translate 1 to 4 lines a request, asked for by POST /translate, with a beam of 4. They take
turns, each alone on the machine. LibreTranslate's splitter of sentences, whose models must be
fetched, does nothing, and neither does ours. Prints requests a second, and p50 and p99 of the
milliseconds of an answer: medians of the rounds.
"""

import argparse
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
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.text.files import read_text

# What its command does, but for the splitter.
_LIBRETRANSLATE = """
import argostranslate.sbd
argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
from libretranslate.main import main
main()
"""


def _packages(export: Path, folder: Path) -> None:
    """Writes packages of Argos Translate with the model, two of them, so that none is fetched."""
    for pair in ("en de", "de en"):
        source, target = pair.split()
        package = folder / f"{source}_{target}"
        shutil.copytree(export, package / "model")
        shutil.copy(export / "vocab.model", package / "sentencepiece.model")
        content = {"package_version": "1.0", "argos_version": "1.5"}
        content |= {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
        (package / "metadata.json").write_text(json.dumps(content), encoding="utf-8")


def _answers(port: int, text: str) -> list[str] | None:
    """Returns the translation of a line; None = the server is not there yet."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as server:
        try:
            return _ask(server, [text])
        except (OSError, RuntimeError, http.client.HTTPException):
            return None


def _ask(server: http.client.HTTPConnection, texts: list[str]) -> list[str]:
    body = json.dumps({"q": texts, "source": "en", "target": "de"})
    server.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = server.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"Status {answer.status}: {content[:500]!r}")
    return json.loads(content)["translatedText"]


@contextlib.contextmanager
def _serving(command: list[str], environment: dict[str, str], port: int) -> Iterator[None]:
    """Runs a server, which answers already."""
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 120
            while not _answers(port, "Warm up."):
                if server.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    sys.exit(f"{command[0]} did not start:\n{log.read().decode()[-3000:]}")
                time.sleep(0.2)
            yield
        finally:
            server.terminate()
            server.wait(60)


def _load(port: int, requests: list[list[str]], clients: int) -> tuple[dict[str, float], int]:
    """Returns the figures of all requests, from so many clients at once, and how many were right.

    Right is an answer with a text for each of the request's.
    """
    local, milliseconds = threading.local(), []

    def send(texts: list[str]) -> bool:
        if not hasattr(local, "server"):
            local.server = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        start = time.perf_counter()
        answers = _ask(local.server, texts)
        milliseconds.append(1000 * (time.perf_counter() - start))
        return len(answers) == len(texts) and all(answers)

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        right = sum(pool.map(send, requests))
    seconds = time.perf_counter() - start
    cuts = statistics.quantiles(milliseconds, n=100)
    figures = {"requests/s": len(requests) / seconds, "p50 ms": cuts[49], "p99 ms": cuts[98]}
    return figures, right


def main() -> None:
    """Prints a line of JSON for each server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--export", type=Path, required=True)
    parser.add_argument("--libretranslate", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=5055)
    flags = parser.parse_args()
    choose = random.Random(0)
    lines = [line for line in read_text(flags.text) if line.strip()]
    requests = [choose.choices(lines, k=choose.randint(1, 4)) for _ in range(flags.requests)]
    found: dict[str, list[dict[str, float]]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        _packages(flags.export, Path(folder) / "packages")
        home = dict(HOME=folder, ARGOS_PACKAGES_DIR=f"{folder}/packages", XDG_DATA_HOME=folder)
        ours = [
            sys.executable,
            "-m",
            "t2t_keras.workbench.bin.t2t_serve",
            f"--model=en-de={flags.export}",
        ]
        ours += [f"--port={flags.port}", "--nosplit_sentences", "--decode_hparams=beam_size=4"]
        theirs = [flags.libretranslate, "-c", _LIBRETRANSLATE, "--port", str(flags.port + 1)]
        theirs += ["--disable-web-ui", "--disable-files-translation"]
        for _ in range(flags.rounds):
            for name, command, extra, port in (
                ("t2t-serve", ours, {}, flags.port),
                ("LibreTranslate", theirs, home, flags.port + 1),
            ):
                with _serving(command, os.environ | extra, port):
                    figures, right = _load(port, requests, flags.clients)
                if right != len(requests):
                    sys.exit(f"{name} answered {right:,} of {len(requests):,} requests.")
                found[name].append(figures)
    for name, rounds in found.items():
        medians = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        print(json.dumps({"server": name, **{key: round(x, 1) for key, x in medians.items()}}))


if __name__ == "__main__":
    main()
