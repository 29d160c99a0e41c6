"""An export, and a process that serves it as TensorFlow Serving does."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.export import export
from t2t_keras.serving.loaded import load_export

LINES = [
    "The small dog sleeps.",
    "",
    "Der kleine Hund schläft im Haus, während die Katze frisst.",
    "  two spaces first",
    " \t ",
    "一只猫 🐈 sits",
    "\u3000\u00a0",
    "e\u0301 \x01 control",
]


@pytest.fixture(scope="session")
def lines():
    """Text of many kinds, blank lines among it."""
    return list(LINES)


@pytest.fixture(scope="session")
def small_translator():
    """small_translator(tokenizer, model_options=None, **config): random weights, varied text."""

    def small_translator(tokenizer, model_options=None, **config):
        keras.utils.set_random_seed(3)
        options = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2) | (model_options or {})
        model = Transformer(tokenizer.vocab_size, **options)
        model.build()
        model.embedding.matrix.assign(3.0 * model.embedding.matrix.numpy())
        return Translator(model, tokenizer, DecodeConfig(**config))

    return small_translator


@pytest.fixture(scope="session")
def translator(small_translator):
    tokenizer = Tokenizer.train([line for line in LINES if line.strip()] * 20, vocab_size=330)
    return small_translator(tokenizer, beam_size=3, extra_length=3)


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    return export(translator, tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="session")
def loaded(exported):
    return load_export(exported)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Folder with server.pem, client.pem (each signed by itself) and their keys."""
    openssl = shutil.which("openssl")
    if not openssl:
        return None
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client"):
        command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        command += ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def server(exported, certificates):
    """The ports of a server that serves the export as "translate"."""
    command = [
        sys.executable,
        Path(__file__).with_name("stand_in_server.py"),
        exported,
        "translate",
    ]
    if certificates:
        tls = [str(certificates / name) for name in ("server.pem", "server.key")]
        command += [f"--tls={','.join(tls)}", f"--client_ca={certificates / 'client.pem'}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, f"the server ended with status {process.wait()}"
        yield json.loads(line)
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()
