"""What an export says of a problem whose outputs are no translations."""

import types

import pytest

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.serving import description
from t2t_keras.serving.origin import measured_loss, recorded_scores, run_origin
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
    assert 't2t_keras.problem("parsing_trees").finished(sentence, translation)' in text
    # It is as the text says.
    tree = "(TOP (S (NP (NNP John)) (VP (VBZ sees))))"
    assert record.problem.finished("John sees", TREE) == tree


def test_what_storing_loses_is_told_in_the_problem_s_own_score(record):
    translator = types.SimpleNamespace(
        models=[], translate=lambda lines: [Translation(TREE, 0.0) for _ in lines]
    )
    said = measured_loss(translator, record, "int8", (["John sees"], [TREE]))
    assert said == "dev: 100.00 F1 with weights as int8, 100.00 as float32 (+0.00)"


def test_recorded_f1(record, tmp_path):
    results = tmp_path / "results.jsonl"
    for fields in (dict(f1=91.5), dict(loss=2.0)):
        append_result(
            results,
            Result("transformer_tiny", "parsing_trees", "dev", random_seed=1, steps=3, **fields),
        )
    assert recorded_scores(record, "model.ckpt-3", results) == ["dev: 91.50 F1"]
