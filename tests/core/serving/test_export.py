"""The SavedModel does what `Translator` does, and needs neither this package nor Keras.

Its README says what the run and its scores were.
"""

import copy
import dataclasses
import json
import re
import runpy
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.data.problem import make_problem as problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.evaluation.results import Result, append_result
from t2t_keras.hyperparameters import HParams
from t2t_keras.serving.export import (
    dev_text,
    export,
    measured_score,
    origin_lines,
    recorded_scores,
    warmup_texts,
    write_readme,
)
from t2t_keras.serving.load import load_export
from t2t_keras.serving.signatures import SIGNATURES, TranslationModule, rounded_weights
from t2t_keras.training.checkpoint_files import identity
from t2t_keras.training.checkpoints import Checkpoints, TrainedModel


def test_equals_in_process(loaded, lines, expected):
    translations = loaded.translate(lines)
    assert [
        dataclasses.replace(translation, hypotheses=()) for translation in translations
    ] == expected
    assert [translation.hypotheses for translation in translations] == [
        (Hypothesis(translation.text, translation.score),) for translation in translations
    ]
    assert len({translation.text for translation in expected}) > 4
    assert any(translation.cut for translation in expected)
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
    translations = load_export(directory).translate(lines)
    with rounded_weights(translator, dtype):
        rounded = translator.translate(lines)
    assert [translation.text for translation in translations] == [
        translation.text for translation in rounded
    ]
    scores = [translation.score for translation in rounded]
    assert [translation.score for translation in translations] == pytest.approx(scores, abs=1e-4)
    assert scores != [translation.score for translation in expected]
    assert translator.translate(lines)[0].score == expected[0].score, "the weights are back"
    stored = (directory / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert stored < 0.6 * sum(weight.numpy().nbytes for weight in translator.models[0].weights)
    # So does a session like TensorFlow Serving's, from wherever the export was copied to.
    copy = shutil.copytree(directory, tmp_path / "copy")
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(copy))
        signature = graph.signature_def["serving_default"]
        text = {signature.inputs["text"].name: [lines[2]]}
        [outputs] = session.run(signature.outputs["translation"].name, text)
    assert outputs.decode() == rounded[2].text


def test_the_example_script(root, exported, lines, expected, capsys, monkeypatch):
    script = root / "examples" / "translate_with_savedmodel.py"
    assert "t2t" not in script.read_text("utf-8")
    monkeypatch.setattr(sys, "argv", [str(script), str(exported), lines[0], lines[2]])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    for sentence, translation in ((lines[0], expected[0]), (lines[2], expected[2])):
        assert (
            f"{sentence}\n  -> {translation.text}  ({translation.score.expected:.3f})\n" in printed
        )


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
    inputs = [(name, *sorted(spec.name for spec in specs)) for name, specs in SIGNATURES.items()]
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
    for version, model_arguments, alpha in zip(
        versions[2:], ((translator,), model_and_tokenizer, (trained,)), (0.6, 0.6, 0.3), strict=True
    ):
        folder = export(*model_arguments, tmp_path)
        assert (folder.name, f", alpha={alpha}, " in (folder / "README.md").read_text()) == (
            version,
            1,
        )

    def interrupted(module, path, signatures):
        Path(path).mkdir()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    for directory in (tmp_path, __file__):
        with refused("not_written", directory, "--export_dir"):
            export(translator, directory)
    assert {path.name for path in tmp_path.iterdir()} == {*versions, "later"}


# What a shell would replace, run or end a text at.
HOSTILE = 'It\'s "$5" `echo no` $(echo no) \\ !! ü'


def commands_of(readme):
    """The shell's commands of a README, by their first word."""
    matches = re.findall(r"^    (?! )(.*(?:\n {8}.*)*)", readme, flags=re.MULTILINE)
    return {command.split()[0]: command for command in matches}


def printed_by(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_examples_translate(exported, export_ports, translator, capsys):
    """That for gRPC in this process, which has TensorFlow; nothing of the package is in it."""
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    readme = (exported / "README.md").read_text("utf-8")
    assert {"- made in a test", "| output | `score` | float32 | [?] |"} < {*readme.split("\n")}
    for port, protocol in (("8500", "grpc"), ("8501", "rest")):
        readme = readme.replace(f"localhost:{port}", f"127.0.0.1:{export_ports[protocol]}")
    example = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)[1]
    assert "t2t" not in example
    exec(example, {})
    text, score = capsys.readouterr().out.removesuffix("\n").rsplit(" ", 1)
    [expected] = translator.translate(["A sentence."])
    expected_score = pytest.approx(expected.score, abs=1e-5)
    assert (text, float(score)) == (expected.text, expected_score)
    outputs = json.loads(printed_by(commands_of(readme)["curl"]))["outputs"]
    assert (outputs["translation"], outputs["score"]) == ([expected.text], [expected_score])


def test_any_sentence_reaches_the_commands_as_it_is(loaded, translator, tmp_path):
    manifest = loaded.manifest | {"dtype": "int8", "outputs": "Trees as symbols."}
    write_readme(tmp_path, {}, manifest, translator.config, "en-de", (), HOSTILE)
    text = (tmp_path / "README.md").read_text("utf-8")
    for line in (
        "\n- origin: not known\n",
        f", SentencePiece, {translator.tokenizer.vocab_size} ids, ",
        "\n- weights: int8\n",
        "\n- decoding: beam_size=3, ",
        f"keras {keras.__version__}",
        "\nTrees as symbols.\n",
        "MODEL_NAME=en-de ",
        "/v1/models/en-de:predict ",
        'model_spec.name = "en-de"',
        "--servable_name=en-de ",
    ):
        assert line in text

    def last_argument(name):
        command = commands_of(text)[name].replace(name, "printf '%s\\n'", 1)
        return printed_by(command).split("\n")[-2]

    assert last_argument("t2t-query-server") == f"--inputs_once={HOSTILE}"
    assert json.loads(last_argument("curl"))["inputs"] == {"text": [HOSTILE]}
    assert eval(re.search(r"make_tensor_proto\((.*)\)\)\n", text)[1]) == [HOSTILE]


TREE = "(S (NP (NNP) /NP) (VP (VBZ) /VP) /S)"


def run_of(problem, config=""):
    fields = dict(hparams_set="transformer_base", random_seed=1, data="d")
    hparams = hyperparameters.hparams("transformer_base")
    return types.SimpleNamespace(problem=make_problem(problem, config), hparams=hparams, **fields)


def translator_to(text, run, **config):
    """What translates every line as `text`, for the problem of a run."""
    return types.SimpleNamespace(
        models=[],
        problem=run.problem,
        config=DecodeConfig(**config),
        translate=lambda lines: [Translation(text, 0.0) for _ in lines],
    )


@pytest.fixture(scope="module")
def wmt14():
    return run_of("translate_ende", "newstest2014=filtered")


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoints(tmp_path, {"model": {"a": np.zeros(1)}}, 1).save(3)


def test_only_recorded_scores_of_these_very_weights_count(wmt14, checkpoint, tmp_path, capsys):
    """An average has the step of its newest source, and so has a run with other settings."""
    search = {"beam_size": 21, "alpha": 0.3, "ensemble": [], "forbidden": [], "prefixes": ""}
    recorded = dict(
        set="transformer_base",
        problem="translate_ende",
        steps=3,
        split="test",
        checkpoint=identity(checkpoint)["digest"],
        text=wmt14.problem.text_name("test", 2737),
        bleu=27.3,
        bleu_signature="nrefs:1|tok:13a",
        conventions={"compound_split": {"bleu": 28.1, "signature": "nrefs:1|tok:moses"}},
        decode=search,
    )
    for changes in (
        {},
        dict(bleu=None, loss=2.0),
        # A problem may have a score of its own, and a file of results anything in a name.
        dict(bleu=None, main={"rouge": 45.5}, conventions={}, text="\x1b]0;", decode={}),
        dict(checkpoint="0" * 64),
        dict(checkpoint=""),
        dict(steps=4, checkpoint="0" * 64),  # It is not alike.
        dict(decode={**search, "ensemble": ["runs/other"]}),
        dict(decode={**search, "prefixes": "begins.txt"}),
        dict(decode={**search, "engine": "ctranslate2 int8"}),
    ):
        append_result(tmp_path / "results.jsonl", Result(**{**recorded, **changes}))
    line, other = recorded_scores(wmt14, checkpoint, tmp_path / "results.jsonl")
    assert other == r"\x1b]0;: 45.50 ROUGE (sacrebleu nrefs:1|tok:13a)"
    assert line == (
        "newstest2014, filtered edition (2,737 lines): 27.30 BLEU (beam 21, alpha 0.3; "
        "sacrebleu nrefs:1|tok:13a), 28.10 BLEU (compound_split nrefs:1|tok:moses)"
    )
    assert re.findall(r"(?<![\w/.-])\d+", capsys.readouterr().out) == ["5"]
    assert origin_lines(wmt14, checkpoint) == [
        "problem: translate_ende",
        "hyperparameter set: transformer_base",
        "optimizer steps: 3",
        "training data, SHA-256: d",
    ]
    assert origin_lines(wmt14, "w")[2] == "optimizer steps: not known"


@pytest.mark.parametrize(
    ("dtype", "rest"),
    [("float32", ""), ("int8", ", with weights as int8; 100.00 F1 with exact weights (+0.00)")],
)
def test_the_problem_s_own_score_is_measured(checkpoint, dtype, rest):
    run, text = run_of("parsing_trees"), (["John sees"], [TREE])
    translator = translator_to(TREE, run, samples=1, seed=5)
    line = measured_score(translator, run, checkpoint, dtype, text)
    assert line == f"dev: 100.00 F1 (sampled, seed 5){rest}"


def test_what_rounding_costs_is_measured(checkpoint):
    run, text = run_of("parsing_trees"), (["John sees"], [TREE])
    translator, answers = translator_to("", run), iter([TREE, TREE.replace("VP", "X")])
    translator.translate = lambda lines: [Translation(next(answers), 0.0) for _ in lines]
    line = measured_score(translator, run, checkpoint, "int8", text)
    assert line.startswith("dev: 66.67 F1 ")
    assert line.endswith("; 100.00 F1 with exact weights (-33.33)")


def test_only_a_folder_that_was_given_must_have_a_dev_set(tmp_path):
    run = run_of("translate_ende_toy")
    for recorded in ("", str(tmp_path)):
        run.data_dir = recorded
        assert dev_text(run, "") is None
    with refused("no_data", tmp_path):
        dev_text(run, str(tmp_path))


def test_a_measured_score_names_its_text_and_conventions(wmt14, checkpoint):
    hypothesis, reference = "Das ist ein Hausboot auf dem See.", "Das ist ein Boot auf dem See."
    text = (["It is a boat on the lake."], [reference])
    translator = translator_to(hypothesis, wmt14)
    score = measured_score(translator, wmt14, checkpoint, "float32", text)
    name = "newstest2013 (1 lines; as published it has 3,000)"
    bleu = sacrebleu.corpus_bleu([hypothesis], [[reference]]).score
    assert score.startswith(f"{name}: {bleu:.2f} BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1|")
    for convention in ("tokenised", "compound_split"):
        assert f", {bleu:.2f} BLEU ({convention} nrefs:1|" in score
