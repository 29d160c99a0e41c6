"""What an export says of a problem whose outputs are no translations."""

import hashlib
import types

import pytest
import sacrebleu

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.serving import description
from t2t_keras.serving.origin import measured_score, recorded_scores, run_origin
from t2t_keras.tables.results import Result, append_result

TREE = "(S (NP (NNP) /NP) (VP (VBZ) /VP) /S)"


@pytest.fixture
def record():
    return types.SimpleNamespace(
        problem=registry.problem("parsing_trees"),
        hparams_set="transformer_tiny",
        random_seed=1,
        data="d",
    )


def test_the_readme_says_that_outputs_are_no_trees(record, tmp_path, monkeypatch):
    monkeypatch.setattr(description, "_signatures", lambda directory: "")
    vocabulary = {"size": 5, "sha256": "v"}
    origin = run_origin(record, "model.ckpt-3", [])
    description.write_readme(tmp_path, origin, DecodeConfig(), vocabulary, "float32", "parse")
    text = " ".join((tmp_path / "README.md").read_text().split())
    assert "A translation is not a tree" in text
    assert '`problem = t2t_keras.problem("parsing_trees")`' in text
    assert "`problem.finished(sentence, translation, alignment)`" in text
    # It is as the text says.
    tree = "(TOP (S (NP (NNP John)) (VP (VBZ sees))))"
    assert record.problem.finished("John sees", TREE) == tree


def test_what_storing_loses_is_told_in_the_problem_s_own_score(record):
    translator = types.SimpleNamespace(
        models=[],
        config=DecodeConfig(samples=1, seed=5),
        translate=lambda lines: [Translation(TREE, 0.0) for _ in lines],
    )
    text = (["John sees"], [TREE])
    said = measured_score(translator, record, "int8", text)
    how = "(sampled, seed 5; +0.00)"
    assert said == f"dev: 100.00 F1 with weights as int8, 100.00 as float32 {how}"
    said = measured_score(translator, record, "float32", text)
    assert said == "dev: 100.00 F1 (sampled, seed 5)"


def test_only_scores_of_these_very_weights_are_told(record, tmp_path, capsys):
    """An average has the step of its newest source, and so has a run with other settings."""
    results, checkpoint = tmp_path / "results.jsonl", tmp_path / "model.ckpt-3"
    (tmp_path / "model.ckpt-3.index").write_bytes(b"sums of the weights")
    own = {"checkpoint": hashlib.sha256(b"sums of the weights").hexdigest()}
    search = {"beam_size": 21, "alpha": 0.3, "ensemble": [], "forbidden": [], "prefixes": ""}
    for fields in (
        dict(f1=91.5, decode=search, **own),
        dict(loss=2.0, **own),
        dict(f1=11.0, decode=search, checkpoint="0" * 64),
        dict(f1=12.0, decode=search),
        dict(f1=13.0, decode={**search, "ensemble": ["runs/other"]}, **own),
        dict(f1=14.0, decode={**search, "prefixes": "begins.txt"}, **own),
    ):
        append_result(
            results, Result("transformer_tiny", "parsing_trees", "dev", steps=3, **fields)
        )
    assert recorded_scores(record, checkpoint, results) == ["dev: 91.50 F1 (beam 21, alpha 0.3)"]
    assert "4 scores of the same set and step are left out" in capsys.readouterr().out


def wmt14(**more):
    """A run's record; newstest2014 in its filtered edition."""
    problem = registry.problem("translate_ende", "newstest2014=filtered")
    return types.SimpleNamespace(problem=problem, hparams_set="transformer_base", **more)


def test_a_recorded_score_says_which_edition_and_which_conventions(tmp_path):
    record, checkpoint = wmt14(), tmp_path / "model.ckpt-3"
    checkpoint.write_bytes(b"weights")
    score = {"bleu": 28.1, "signature": "nrefs:1|tok:moses"}
    result = Result(
        "transformer_base", "translate_ende", "test", steps=3, bleu=27.3,
        checkpoint=hashlib.sha256(b"weights").hexdigest(), bleu_signature="nrefs:1|tok:13a",
        conventions={"compound_split": score}, text=record.problem.text_name("test", 2737),
        decode={"beam_size": 4, "alpha": 0.6},
    )  # fmt: skip
    append_result(tmp_path / "results.jsonl", result)
    [said] = recorded_scores(record, checkpoint, tmp_path / "results.jsonl")
    assert said == (
        "newstest2014, filtered edition (2,737 lines): 27.30 BLEU (beam 4, alpha 0.6; "
        "sacrebleu nrefs:1|tok:13a), 28.10 BLEU (compound_split nrefs:1|tok:moses)"
    )


def test_a_measured_score_says_which_text_and_which_conventions():
    hypothesis, reference = "Das ist ein Hausboot auf dem See.", "Das ist ein Boot auf dem See."
    translator = types.SimpleNamespace(
        models=[],
        config=DecodeConfig(),
        translate=lambda lines: [Translation(hypothesis, 0.0) for _ in lines],
    )
    text = (["It is a boat on the lake."], [reference])
    said = measured_score(translator, wmt14(), "float32", text)
    name = "newstest2013 (1 lines; as published it has 3,000)"
    expected = sacrebleu.corpus_bleu([hypothesis], [[reference]]).score
    assert said.startswith(f"{name}: {expected:.2f} BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1|")
    assert f", {expected:.2f} BLEU (tokenised nrefs:1|" in said
    assert f", {expected:.2f} BLEU (compound_split nrefs:1|" in said
    assert measured_score(translator, wmt14(), "int8", text).startswith(f"{name}: ")
