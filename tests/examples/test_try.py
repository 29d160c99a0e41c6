"""`make try` translates with the model in the repository: standard input, or a page."""

import json
import os
import pty
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("ctranslate2")


@pytest.fixture
def environment(tmp_path):
    """Commands of this environment, and a browser that writes down what it is to open."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path / "opened"}"\n')
    browser.chmod(0o755)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "BROWSER": f"{browser} %s"}


def test_standard_input_is_translated(root, environment):
    text = "The dog sleeps.\nWhere is the station?\n"
    command = [root / "examples" / "try.sh"]
    done = subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Der Hund schläft.\nWo ist der Bahnhof?\n"


@pytest.fixture
def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def test_a_terminal_gets_a_page(root, environment, tmp_path, free_port):
    _, terminal = pty.openpty()
    command = [root / "examples" / "try.sh", str(free_port)]
    with subprocess.Popen(command, env=environment, stdin=terminal) as server:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "opened").exists() and time.monotonic() < end:
                time.sleep(0.05)
            address = (tmp_path / "opened").read_text().strip()
            assert address == f"http://127.0.0.1:{free_port}/"
            content = json.dumps({"q": "The dog sleeps.", "source": "en", "target": "de"}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{address}translate", content, headers)
            answer = json.load(urllib.request.urlopen(request))
            assert answer == {"translatedText": "Der Hund schläft."}
        finally:
            server.terminate()


def test_the_model_is_small_and_has_its_card(root):
    folder = root / "examples" / "models" / "en-de"
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size <= 12 * 2**20
    card = (folder / "MODEL_CARD.md").read_text("utf-8")
    for part in ("int8", "Tatoeba", "CC BY 2.0 FR", "BLEU", "chrF", "t2t-exporter", "163,542"):
        assert part in card, part
    assert str(root) not in (folder / "t2t_keras.json").read_text("utf-8")
