"""The SavedModel does what `Translator` does, and needs neither this package nor Keras."""

import ctypes
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.serving.export.export import export, warmup_texts
from t2t_keras.serving.export.signatures import BLANK, TranslationModule, graph_detokenizer
from t2t_keras.text.tokenizer import Tokenizer

# TensorFlow Text imports Keras for layers of its own, which the export does not use: they are
# replaced by nothing, so that Keras can be blocked from the start.
BLOCKED = """
import runpy, sys, types
sys.modules["tensorflow_text.python.keras"] = types.ModuleType("keras")
for name in ("t2t_keras", "keras", "keras_hub", "keras_nlp", "sentencepiece", "sacrebleu"):
    sys.modules[name] = None
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


def test_equals_in_process_on_real_text(real_lines, translator, loaded):
    """Some lines are too long: cut in both in the same place."""
    found, expected = loaded.translate(real_lines), translator.translate(real_lines)
    assert [(each.text, each.cut) for each in found] == [(each.text, each.cut) for each in expected]
    scores = [[each.score for each in translations] for translations in (found, expected)]
    np.testing.assert_allclose(*scores, atol=1e-5)
    assert 3 < sum(each.cut > 0 for each in expected) < 50


class Output(ctypes.Structure):
    """TF_Output of TensorFlow's C library."""

    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


def test_tensorflow_s_c_library_translates(exported, graph, translator, lines, tmp_path):
    """From wherever the export was copied to."""
    library = ctypes.CDLL(next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc.so*")))

    def call(name, *arguments, returns=ctypes.c_void_p):
        getattr(library, name).restype = returns
        wide = (ctypes.c_void_p(each) if isinstance(each, int) else each for each in arguments)
        return getattr(library, name)(*wide)

    def output(info):
        name, index = info.name.split(":")
        return Output(call("TF_GraphOperationByName", model, name.encode()), int(index))

    model, status, options = map(call, ("TF_NewGraph", "TF_NewStatus", "TF_NewSessionOptions"))
    path = os.fsencode(shutil.copytree(exported, tmp_path / "1"))
    tags = (ctypes.c_char_p * 1)(b"serve")
    load = "TF_LoadSessionFromSavedModel"
    session = call(load, options, None, path, tags, 1, model, None, status)
    assert call("TF_Message", status, returns=ctypes.c_char_p) == b""
    text, result = (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 2)()
    text[0] = call("TF_AllocateTensor", 7, (ctypes.c_int64 * 1)(1), 1, 24)  # one TF_TString
    data = call("TF_TensorData", text[0])
    call("TF_StringInit", data)
    call("TF_StringCopy", data, lines[2].encode(), len(lines[2].encode()))
    signature = graph.signature_def["serving_default"]
    feed = (Output * 1)(output(signature.inputs["text"]))
    fetch = (Output * 2)(*(output(signature.outputs[name]) for name in ("translation", "score")))
    sent = (None, feed, text, 1, fetch, result, 2, None, 0, None, status)
    call("TF_SessionRun", session, *sent, returns=None)
    assert call("TF_Message", status, returns=ctypes.c_char_p) == b""
    data, score = (call("TF_TensorData", tensor) for tensor in result)
    size = call("TF_StringGetSize", data, returns=ctypes.c_size_t)
    found = ctypes.string_at(call("TF_StringGetDataPointer", data), size).decode()
    [expected] = translator.translate([lines[2]])
    assert found == expected.text
    assert ctypes.c_float.from_address(score).value == pytest.approx(expected.score, abs=1e-5)


@pytest.mark.parametrize("max_tokens", [2, 3, 24, 512])
def test_warmup_texts_are_never_refused(translator, max_tokens):
    batches = warmup_texts(translator.tokenizer, max_tokens)
    assert [len(batch) for batch in batches] == [1, 1, 8, 1]
    lengths = [len(ids) for batch in batches for ids in translator.tokenizer.encode(batch)]
    assert min(max_tokens, 30) // 2 <= max(lengths) <= max_tokens


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_batches_without_text(loaded, texts):
    found = loaded.translate(texts)
    assert [(each.text, each.score) for each in found] == [("", 0.0)] * len(texts)


def test_blank_is_what_python_calls_blank():
    characters = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) != "Cs"]
    found = tf.strings.regex_full_match(tf.constant(characters), BLANK).numpy()
    expected = [not character.strip() for character in characters]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_detokenizer_is_the_tokenizers(kind, lines):
    """Random ids: spaces, bytes that are no UTF-8, and the unknown id, in all positions."""
    text = [line for line in lines if line.strip()] * 20
    tokenizer = Tokenizer.train(text, vocab_size=300, kind=kind)
    pieces = tokenizer.graph_tokenizer().id_to_string(tf.range(tokenizer.vocab_size)).numpy()
    space = [i for i, piece in enumerate(pieces) if piece.decode().startswith("\u2581")]
    random = np.random.default_rng(0)
    ids = random.integers(2, tokenizer.vocab_size, [2000, 8])
    ids[::2, :2] = random.choice(space, [1000, 2])
    ids[np.arange(2000), random.integers(0, 8, 2000)] = 1
    detokenize = graph_detokenizer(tokenizer.graph_tokenizer())
    ended = np.where(np.cumsum(ids == 1, axis=1) > 0, 1, ids)
    found = detokenize(tf.constant(ended, tf.int32)).numpy()
    assert [text.decode() for text in found] == tokenizer.decode(ids)


def test_example_script_needs_only_tensorflow(root, translator, exported, lines):
    sentences = [lines[0], lines[2]]
    script = root / "examples" / "translate_with_savedmodel.py"
    command = [sys.executable, "-c", BLOCKED, script, exported, *sentences]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
        assert f"{sentence}\n  -> {translation.text}  ({translation.score:.3f})" in done.stdout


def test_versions_are_complete_and_rise(translator, tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationModule, "signatures", lambda module: {})
    monkeypatch.setattr(tf.saved_model, "save", lambda module, path, signatures: Path(path).mkdir())
    versions = [export(translator, tmp_path).name for _ in range(2)]
    assert int(versions[0]) < int(versions[1])

    def interrupted(module, path, signatures):
        Path(path).mkdir()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    with pytest.raises(UserError, match="--export_dir"):
        export(translator, tmp_path)
    with pytest.raises(UserError, match=__name__):
        export(translator, __file__)
    assert sorted(path.name for path in tmp_path.iterdir()) == versions
