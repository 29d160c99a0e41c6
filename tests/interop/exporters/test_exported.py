"""What stands beside a file for greedy decoding, and what none can be made of."""

import dataclasses
import json
import re
import types

import greedy_exports
import numpy as np
import pytest
from refusals import refused

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.environment import installed_versions
from t2t_keras.interop.importers.weights import lookup_tokenizer
from t2t_keras.interop.tokenizers import SubwordTokenizer
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.formats import write_format
from t2t_keras.text.tokenizer import SentencePieceTokenizer


@pytest.fixture(scope="module")
def translator():
    return greedy_exports.translator("two vocabularies")


@pytest.fixture(scope="module")
def greedy(translator):
    config = dataclasses.replace(translator.config, beam_size=1)
    greedy = Translator(translator.models, translator.tokenizer, config)
    return greedy.translate(["A sentence."])[0].text


def run_readme(folder, capsys, monkeypatch):
    """Runs the program in it, in its folder; returns what that prints."""
    monkeypatch.chdir(folder)
    [program] = re.findall("```python\n(.*?)\n```", (folder / "README.md").read_text("utf-8"), re.S)
    exec(program, {})
    return capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize("name", ["litert", "onnx"])
def test_the_readme_translates(name, translator, greedy, tmp_path, capsys, monkeypatch):
    pytest.importorskip({"litert": "ai_edge_litert"}.get(name, name))
    folder = write_format(name, translator, tmp_path / "new" / "folders" / name, "float32")
    assert run_readme(folder, capsys, monkeypatch) == greedy
    written = json.loads((folder / "config.json").read_text("utf-8"))
    assert written["ids"] == {"padding": 0, "end": 1, "unknown": 2, "start": 0}
    limits = dict(max_input_length=60, extra_length=6, max_length=7, min_length=1)
    assert written["decoding"] == {"beam_size": 1, **limits}
    assert written["vocabulary"] == translator.tokenizer.record()
    assert (written["dtype"], written["provenance"]) == ("float32", installed_versions())
    readme = (folder / "README.md").read_text("utf-8")
    program = {"litert": "LiteRT", "onnx": "ONNX Runtime"}[name]
    for line in (f" for {program}\n", "\nWeights: float32.\n", "A row has at most 60 ids."):
        assert line in readme


def test_the_readme_with_subwords(tmp_path, capsys, monkeypatch):
    pieces = ["<pad>_", "<EOS>_", *"\\_u;0123456789Asentc."]
    tokenizer = SubwordTokenizer("\n".join(f"'{piece}'" for piece in pieces).encode())
    model = Transformer(tokenizer.vocab_size, **greedy_exports.SIZES, start_id=4)
    model.build()
    check_readme(Translator(model, tokenizer), tmp_path, capsys, monkeypatch)


def test_the_readme_with_pieces_that_are_looked_up(translator, tmp_path, capsys, monkeypatch):
    source = SentencePieceTokenizer.train(["x y"] * 9, 20, kind="char")
    known = [*source.pieces(range(4)), "A", "sentence."]
    source = lookup_tokenizer(source.model_bytes, known, "source.spm")
    tokenizer = translator.tokenizer.with_source(source)
    sizes = tokenizer.vocab_size, None, tokenizer.source_vocab_size
    model = Transformer(*sizes, **greedy_exports.SIZES, share_embeddings="target")
    model.build()
    check_readme(Translator(model, tokenizer), tmp_path, capsys, monkeypatch)


def check_readme(translator, tmp_path, capsys, monkeypatch):
    """Checks what the README of random weights prints."""
    pytest.importorskip("onnx")
    random = np.random.default_rng(5)
    for weight in translator.models[0].weights:
        weight.assign(random.normal(0, 0.3, weight.shape))
    config = DecodeConfig(beam_size=1, extra_length=9, min_length=5)
    translator = Translator(translator.models, translator.tokenizer, config)
    folder = write_format("onnx", translator, tmp_path / "onnx", "float32")
    [expected] = translator.translate(["A sentence."])
    written = json.loads((folder / "config.json").read_text("utf-8"))
    assert written["ids"]["start"] == translator.models[0].config.start_id
    assert expected.text
    assert run_readme(folder, capsys, monkeypatch) == expected.text


def test_what_is_not_greedy_decoding_of_one_model_is_refused(translator, tmp_path):
    models, tokenizer, config = translator.models, translator.tokenizer, translator.config
    sampling = dataclasses.replace(config, samples=2)
    for arguments, name in {
        ((models * 2, tokenizer, config)): "Transformer, Transformer",
        ((models, tokenizer, sampling)): "samples=2",
        ((models, tokenizer, config, ("Hund",))): "forbidden=",
        ((models, tokenizer, dataclasses.replace(config, xla=True))): "xla=True",
    }.items():
        with refused("not_supported", name):
            write_format("litert", Translator(*arguments), tmp_path / "litert", "float32")
    other = Translator(models, tokenizer, config)
    other.engine = types.SimpleNamespace(models=(), name="ctranslate2 int8")
    with refused("not_supported", "ctranslate2 int8"):
        write_format("litert", other, tmp_path / "litert", "float32")
    with refused("not_supported", "ctranslate2 int8", "keras"):
        _ = other.search
    with refused("not_written", "/proc/onnx", "--export_dir"):
        write_format("onnx", translator, "/proc/onnx", "float32")
    with refused("bad_value", "--dtype", "float32, int8", "float16"):
        write_format("onnx", translator, tmp_path / "onnx", "float16")
