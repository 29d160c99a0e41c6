"""Loading of exports: the version, the manifest, what is damaged."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import sentencepiece
import tensorflow as tf
from refusals import refused

from t2t_keras.serving.load import load_export, write_manifest

# Operators that call back into Python, which no other program has.
PYTHON_OPERATORS = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"}


def test_the_newest_version_is_taken(exported, tmp_path, loaded):
    assert loaded.directory.samefile(exported)
    for name in ("9", "10", ".unfinished-11", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "20990101").touch()
    with refused("not_read", Path("10", "manifest.json")):
        load_export(tmp_path)


def test_the_translation_is_the_only_hypothesis(loaded):
    [translation] = loaded.translate(["a"])
    assert [(hypothesis.text, hypothesis.score) for hypothesis in translation.hypotheses] == [
        (translation.text, translation.score)
    ]


def test_a_version_that_is_not_there(exported):
    with refused("no_export", exported):
        load_export(exported.parent / "1")


def test_a_run_is_no_export(tmp_path):
    (tmp_path / "run.json").touch()
    with refused("no_export", "t2t-exporter"):
        load_export(tmp_path)


def test_text_that_is_not_unicode(loaded):
    with refused("invalid_text", r"'\udcff'"):
        loaded.translate(["a", "\udcff"])


def test_the_vocabulary_is_an_asset(loaded, served, translator):
    """It encodes for the signature `tokens` without this package."""
    (asset,) = served.graph.asset_file_def
    path = loaded.directory / "assets" / asset.filename
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = processor.encode("Der kleine Hund", add_eos=True)
    assert ids == translator.tokenizer.encode(["Der kleine Hund"])[0].tolist()
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.manifest["vocabulary"]["sha256"] == checksum
    assert [loaded.manifest[name] for name in ("dtype", "outputs")] == ["float32", "text"]
    readme = (loaded.directory / "README.md").read_text("utf-8")
    assert f"`assets/{asset.filename}`" in readme
    assert checksum in readme


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("saved_model.pb", flip),
        ("variables/variables.data-00000-of-00001", flip),
        ("assets.extra/tf_serving_warmup_requests", flip),
        ("README.md", lambda path: path.unlink()),
        ("code.py", lambda path: path.touch()),
        ("pipe", os.mkfifo),
    ],
)
def test_a_changed_file_is_named(exported, tmp_path, name, damage):
    copy = shutil.copytree(exported, tmp_path / "1")
    damage(copy / name)
    with refused("damaged_export", f": {name}."):
        load_export(copy)


@pytest.mark.parametrize(
    ("manifest", "code"),
    [
        ("{", "damaged_file"),
        ("[]", "damaged_file"),
        ("{}", "damaged_file"),
        ('{"files": {"manifest.json": 3}}', "damaged_export"),
        ('{"files": []}', "damaged_export"),
        ("[" * 10**5, "damaged_file"),
    ],
)
def test_a_damaged_manifest(tmp_path, manifest, code):
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "manifest.json").write_text(manifest)
    with refused(code, "manifest.json"):
        load_export(tmp_path)


def test_a_saved_model_without_content(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    write_manifest(tmp_path, {})
    with refused("damaged_export", tmp_path):
        load_export(tmp_path)


@pytest.mark.parametrize("signature", ["serving_default", "other"])
def test_a_foreign_saved_model(tmp_path, signature):
    module = tf.Module()
    text = tf.TensorSpec([None], tf.string, name="text")
    module.copy = tf.function(lambda text: {"translation": text}, input_signature=[text])
    tf.saved_model.save(module, str(tmp_path), signatures={signature: module.copy})
    write_manifest(tmp_path, {})
    with refused("no_export", "serving_default"):
        load_export(tmp_path)


def test_an_export_has_no_code(exported, served):
    everything = b"".join(path.read_bytes() for path in exported.rglob("*") if path.is_file())
    for trace in (b"keras_metadata", b"class_name", b"registered_name", b"\x80\x04\x95"):
        assert trace not in everything, trace
    graph = served.graph.graph_def
    nodes = [
        *graph.node,
        *(node for graph_function in graph.library.function for node in graph_function.node_def),
    ]
    operators = {node.op for node in nodes}
    assert not operators & PYTHON_OPERATORS
    # What TensorFlow itself does not have.
    expected = {f"Sentencepiece{name}Op" for name in ("", "Tokenize", "Detokenize", "IdToString")}
    assert {operator for operator in operators if "Sentencepiece" in operator} == expected
