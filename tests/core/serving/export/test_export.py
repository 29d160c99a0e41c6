"""The SavedModel does what `Translator` does, and needs neither this package nor Keras."""

import copy
import dataclasses
import runpy
import shutil
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.problem import make_problem as problem
from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.hyperparameters import HParams
from t2t_keras.serving.export import export, warmup_texts
from t2t_keras.serving.load import load_export
from t2t_keras.serving.signatures import SIGNATURES, TranslationModule, rounded_weights
from t2t_keras.training.checkpoints import TrainedModel


def test_equals_in_process(loaded, lines, expected):
    found = loaded.translate(lines)
    assert [dataclasses.replace(each, hypotheses=()) for each in found] == expected
    assert [each.hypotheses for each in found] == [
        (Hypothesis(each.text, each.score),) for each in found
    ]
    assert len({each.text for each in expected}) > 4
    assert any(each.cut for each in expected)
    assert loaded.translate([]) == []


def test_what_is_no_model_is_refused(translator, tmp_path):
    model = translator.models[0]
    for arguments in (["runs/toy", tmp_path], [translator], [model, tmp_path]):
        with refused("wrong_type"):
            export(*arguments)


def test_smaller_weights_translate_as_in_process(
    translator, lines, expected, tmp_path, monkeypatch
):
    dtype = "int8"  # What is stored of each type, test_weights.py tells.
    signatures = TranslationModule.signatures
    only = lambda module: {"serving_default": signatures(module)["serving_default"]}  # noqa: E731
    monkeypatch.setattr(TranslationModule, "signatures", only)  # the others take long to trace
    directory = export(translator, tmp_path, dtype=dtype)
    found = load_export(directory).translate(lines)
    with rounded_weights(translator, dtype):
        rounded = translator.translate(lines)
    assert [each.text for each in found] == [each.text for each in rounded]
    scores = [each.score for each in rounded]
    assert [each.score for each in found] == pytest.approx(scores, abs=1e-4)
    assert scores != [each.score for each in expected]
    assert translator.translate(lines)[0].score == expected[0].score, "the weights are back"
    stored = (directory / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert stored < 0.6 * sum(each.numpy().nbytes for each in translator.models[0].weights)


def test_a_session_translates_like_tensorflow_serving_s(
    exported, served, lines, expected, tmp_path
):
    """From wherever the export was copied to."""
    copy = shutil.copytree(exported, tmp_path / "1")
    signature = served.graph.signature_def["serving_default"]
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        tf.compat.v1.saved_model.load(session, ["serve"], str(copy))
        text = {signature.inputs["text"].name: [lines[2]]}
        [found] = session.run(signature.outputs["translation"].name, text)
    assert found.decode() == expected[2].text


def test_the_example_script(root, exported, lines, expected, capsys, monkeypatch):
    script = root / "examples" / "translate_with_savedmodel.py"
    assert "t2t" not in script.read_text("utf-8")
    monkeypatch.setattr(sys, "argv", [str(script), str(exported), lines[0], lines[2]])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    for sentence, each in ((lines[0], expected[0]), (lines[2], expected[2])):
        assert f"{sentence}\n  -> {each.text}  ({each.score.expected:.3f})\n" in printed


def test_warm_up_requests(exported, served, loaded):
    """The server takes them: one text, several, and nothing but a blank one, of each signature."""
    shapes = {}
    for request in served.warm_up(exported):
        assert request.model_spec.name == "translate"
        text = request.inputs["text"].string_val
        shape = len(text), any(map(bytes.strip, text))
        shapes.setdefault(request.model_spec.signature_name, set()).add(shape)
    assert set(shapes) == set(loaded.signatures)
    assert shapes["serving_default"] == {(1, True), (8, True), (1, False)}
    ran, loaded = [], copy.copy(loaded)
    loaded.signatures = {
        name: lambda name=name, **inputs: ran.append((name, *sorted(inputs))) for name in SIGNATURES
    }
    loaded.warm_up()
    inputs = [(name, *sorted(each.name for each in specs)) for name, specs in SIGNATURES.items()]
    assert sorted(ran) == sorted(inputs * 4)


@pytest.mark.parametrize("max_tokens", [2, 3, 24, 512])
def test_warmup_texts_are_never_refused(translator, max_tokens):
    batches = warmup_texts(translator.tokenizer, max_tokens)
    lengths = [len(ids) for batch in batches for ids in translator.tokenizer.encode(batch)]
    assert min(max_tokens, 30) // 2 <= max(lengths) <= max_tokens


def test_versions_are_complete_and_rise(translator, tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationModule, "signatures", lambda module: {})
    monkeypatch.setattr(tf.saved_model, "save", lambda module, path, signatures: Path(path).mkdir())
    model_and_tokenizer = translator.models[0], translator.tokenizer
    trained = TrainedModel(*model_and_tokenizer, problem("parsing_wsj"), HParams(), "")
    before = int(time.time())
    first = int(export(translator, tmp_path).name)
    assert before <= first <= time.time()
    (tmp_path / "later").mkdir()
    (tmp_path / "9999999999").mkdir()  # In 2286.
    versions = [str(first), *map(str, range(9999999999, 10000000003))]
    for version, each, alpha in zip(
        versions[2:], ((translator,), model_and_tokenizer, (trained,)), (0.6, 0.6, 0.3), strict=True
    ):
        made = export(*each, tmp_path)
        assert (made.name, f", alpha={alpha}, " in (made / "README.md").read_text()) == (version, 1)

    def interrupted(module, path, signatures):
        Path(path).mkdir()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    for directory in (tmp_path, __file__):
        with refused("not_written", directory, "--export_dir"):
            export(translator, directory)
    assert {path.name for path in tmp_path.iterdir()} == {*versions, "later"}
