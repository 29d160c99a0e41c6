"""What an export's README says of the run and its scores."""

import re
import types

import numpy as np
import pytest
import sacrebleu
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.evaluation.results import Result, append_result
from t2t_keras.serving import export
from t2t_keras.training.checkpoint_files import identity
from t2t_keras.training.checkpoints import Checkpoints

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
    line, other = export.recorded_scores(wmt14, checkpoint, tmp_path / "results.jsonl")
    assert other == r"\x1b]0;: 45.50 ROUGE (sacrebleu nrefs:1|tok:13a)"
    assert line == (
        "newstest2014, filtered edition (2,737 lines): 27.30 BLEU (beam 21, alpha 0.3; "
        "sacrebleu nrefs:1|tok:13a), 28.10 BLEU (compound_split nrefs:1|tok:moses)"
    )
    assert re.findall(r"(?<![\w/.-])\d+", capsys.readouterr().out) == ["5"]
    assert export.run_lines(wmt14, checkpoint) == [
        "problem: translate_ende",
        "hyperparameter set: transformer_base",
        "optimizer steps: 3",
        "training data, SHA-256: d",
    ]
    assert export.run_lines(wmt14, "w")[2] == "optimizer steps: not known"


@pytest.mark.parametrize(
    ("dtype", "rest"),
    [("float32", ""), ("int8", ", with weights as int8; 100.00 F1 with exact weights (+0.00)")],
)
def test_the_problem_s_own_score_is_measured(checkpoint, dtype, rest):
    run, text = run_of("parsing_trees"), (["John sees"], [TREE])
    translator = translator_to(TREE, run, samples=1, seed=5)
    line = export.measured_score(translator, run, checkpoint, dtype, text)
    assert line == f"dev: 100.00 F1 (sampled, seed 5){rest}"


def test_what_rounding_costs_is_measured(checkpoint):
    run, text = run_of("parsing_trees"), (["John sees"], [TREE])
    translator, answers = translator_to("", run), iter([TREE, TREE.replace("VP", "X")])
    translator.translate = lambda lines: [Translation(next(answers), 0.0) for _ in lines]
    line = export.measured_score(translator, run, checkpoint, "int8", text)
    assert line.startswith("dev: 66.67 F1 ")
    assert line.endswith("; 100.00 F1 with exact weights (-33.33)")


def test_only_a_folder_that_was_given_must_have_a_dev_set(tmp_path):
    run = run_of("translate_ende_toy")
    for recorded in ("", str(tmp_path)):
        run.data_dir = recorded
        assert export.dev_text(run, "") is None
    with refused("no_data", tmp_path):
        export.dev_text(run, str(tmp_path))


def test_a_measured_score_names_its_text_and_conventions(wmt14, checkpoint):
    hypothesis, reference = "Das ist ein Hausboot auf dem See.", "Das ist ein Boot auf dem See."
    text = (["It is a boat on the lake."], [reference])
    translator = translator_to(hypothesis, wmt14)
    said = export.measured_score(translator, wmt14, checkpoint, "float32", text)
    name = "newstest2013 (1 lines; as published it has 3,000)"
    bleu = sacrebleu.corpus_bleu([hypothesis], [[reference]]).score
    assert said.startswith(f"{name}: {bleu:.2f} BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1|")
    for convention in ("tokenised", "compound_split"):
        assert f", {bleu:.2f} BLEU ({convention} nrefs:1|" in said
