"""The SavedModel does what `Translator` does, and needs neither this package nor Keras."""

import itertools
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from t2t_keras import registry
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.serving import messages
from t2t_keras.serving.detokenizer import graph_detokenizer
from t2t_keras.serving.export import export
from t2t_keras.serving.signatures import BLANK
from t2t_keras.serving.warmup import warmup_texts

# Every variation of Table 3, and restricted attention, in one model.
VARIED = dict(
    d_k=4,
    d_v=6,
    self_attention_radius=2,
    learned_positions=64,
    parameter_attention_heads=2,
    pre_norm=True,
)

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


@pytest.fixture(scope="module")
def serve(loaded):
    signature = loaded.signatures["serving_default"]

    def serve(lines):
        result = signature(text=tf.constant(lines, tf.string))
        return [text.decode() for text in result["translation"].numpy()], result["score"].numpy()

    serve.signature = signature
    return serve


def test_equals_in_process(translator, serve, lines):
    expected = translator.translate(lines)
    texts, scores = serve(lines)
    assert texts == [translation.text for translation in expected]
    np.testing.assert_allclose(scores, [t.score for t in expected], atol=1e-5)
    assert len({text for text in texts if text}) >= 4


@pytest.fixture(scope="module")
def real_lines(root):
    """Sentences and a size of vocabulary: real ones where they are, else those of a grammar."""
    file = root.parent / "shared" / "data" / "multi30k" / "val.en"
    if file.exists():
        return file.read_text("utf-8").split("\n")[:200], 1000
    examples = registry.problem("translate_ende_toy").examples("dev")
    return [source for source, _ in itertools.islice(examples, 200)], 500


def test_what_is_loaded_equals_in_process_on_real_text(
    real_lines, small_translator, tmp_path, load_module
):
    """Some lines are too long: cut in both in the same place, and not among the warm-up's."""
    lines, vocab_size = real_lines
    config = dict(beam_size=2, extra_length=2, max_input_length=24)
    translator = small_translator(Tokenizer.train(lines, vocab_size), VARIED, **config)
    stand_in = load_module(Path(__file__).with_name("stand_in_server.py"))
    # Which sends the requests of the warm-up, and fails if one of them is refused.
    served = stand_in.Model(export(translator, tmp_path), "translate")

    def predict(signature, *names):
        inputs = dict.fromkeys(names, messages.string_tensor(lines))
        asked = messages.predict_request("translate", signature, **inputs)
        return served.predict(predict_pb2.PredictRequest.FromString(asked.SerializeToString()))

    result = predict("serving_default", "text")
    expected = translator.translate(lines)
    texts = [text.decode() for text in result["translation"].numpy()]
    assert texts == [translation.text for translation in expected]
    scores = [translation.score for translation in expected]
    np.testing.assert_allclose(result["score"], scores, atol=1e-5)
    cut = [translation.cut for translation in expected]
    assert result["cut"].numpy().tolist() == cut
    assert 10 < sum(each > 0 for each in cut) < 130
    with pytest.raises(stand_in.RefusedError, match="text may have 24 tokens"):
        predict("score", "text", "translation")


@pytest.mark.parametrize("most", [2, 3, 24, 512])
def test_warmup_texts_are_never_refused(translator, most):
    tokenizer = translator.tokenizer
    batches = warmup_texts(tokenizer, most)
    assert [len(batch) for batch in batches] == [1, 1, 8, 1]
    lengths = [len(ids) for batch in batches for ids in tokenizer.encode(batch)]
    assert max(lengths) <= most
    assert max(lengths) >= min(most, 30) // 2


def test_signature(serve):
    _, inputs = serve.signature.structured_input_signature
    assert inputs == {"text": tf.TensorSpec([None], tf.string, name="text")}
    assert serve.signature.structured_outputs == {
        "translation": tf.TensorSpec([None], tf.string, name="translation"),
        "score": tf.TensorSpec([None], tf.float32, name="score"),
        "cut": tf.TensorSpec([None], tf.int32, name="cut"),
    }


def test_batches_without_text(serve):
    assert serve([])[0] == []
    texts, scores = serve(["", " "])
    assert texts == ["", ""]
    assert scores.tolist() == [0.0, 0.0]


def test_blank_is_what_python_calls_blank():
    characters = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) != "Cs"]
    found = tf.strings.regex_full_match(tf.constant(characters), BLANK).numpy()
    expected = [not character.strip() for character in characters]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_detokenizer_is_the_tokenizers(kind, lines):
    """Random ids: spaces, bytes that are no UTF-8, and the unknown id, in all places."""
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
    script = root / "examples" / "translate_with_savedmodel.py"
    assert not re.search("t2t|keras", script.read_text("utf-8"))
    sentences = [lines[0], lines[2]]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, script, exported, *sentences],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
        assert f"{sentence}\n  -> {translation.text}  ({translation.score:.3f})" in done.stdout


def test_versions_are_complete_and_rise(translator, exported, tmp_path, monkeypatch):
    def copied(module, path, signatures):
        shutil.copytree(exported, path)

    monkeypatch.setattr(tf.saved_model, "save", copied)
    first, second = export(translator, tmp_path), export(translator, tmp_path)
    assert int(first.name) < int(second.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]

    def interrupted(module, path, signatures):
        (tmp_path / path).mkdir()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    with pytest.raises(UserError, match=r"cannot be written to .*No space left"):
        export(translator, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]


def test_export_dir_that_is_a_file(translator, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written to"):
        export(translator, tmp_path / "file")
