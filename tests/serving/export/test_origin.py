"""What an export's README says of the run and its scores."""

import hashlib
import types

import pytest
import sacrebleu

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.evaluation.results import Result, append_result
from t2t_keras.serving.export import origin

TREE = "(S (NP (NNP) /NP) (VP (VBZ) /VP) /S)"
SEARCH = {"beam_size": 21, "alpha": 0.3, "ensemble": [], "forbidden": [], "prefixes": ""}


def run_of(problem, hparams_set="transformer_base"):
    """Returns what stands in a run's record."""
    fields = dict(problem=problem, hparams_set=hparams_set, random_seed=1, data="d")
    return types.SimpleNamespace(hparams=registry.hparams(hparams_set), **fields)


def translator_to(text, **config):
    """Returns what translates every line as `text`."""
    return types.SimpleNamespace(
        models=[],
        config=DecodeConfig(**config),
        translate=lambda lines: [Translation(text, 0.0) for _ in lines],
    )


@pytest.fixture
def parser():
    return run_of(registry.problem("parsing_trees"))


@pytest.fixture
def wmt14():
    """newstest2014 in its filtered edition."""
    return run_of(registry.problem("translate_ende", "newstest2014=filtered"))


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "model.ckpt-3.index").write_bytes(b"sums of the weights")
    return tmp_path / "model.ckpt-3"


@pytest.fixture
def record(tmp_path):
    """record(run, **of Result): adds a score of the checkpoint to the file, which is returned."""

    def record(run, **fields):
        checksum = hashlib.sha256(b"sums of the weights").hexdigest()
        fields = {"split": "dev", "checkpoint": checksum, **fields}
        result = Result(set=run.hparams_set, problem=run.problem.name, steps=3, **fields)
        append_result(tmp_path / "results.jsonl", result)
        return tmp_path / "results.jsonl"

    return record


@pytest.mark.parametrize(
    ("dtype", "rest"),
    [("float32", ""), ("int8", ", with weights as int8; 100.00 F1 with exact weights (+0.00)")],
)
def test_the_problem_s_own_score_is_measured(parser, checkpoint, dtype, rest):
    translator = translator_to(TREE, samples=1, seed=5)
    line = origin.measured_score(translator, parser, checkpoint, dtype, (["John sees"], [TREE]))
    assert line == f"dev: 100.00 F1 (sampled, seed 5){rest}"


def test_only_recorded_scores_of_these_very_weights_count(parser, checkpoint, record, capsys):
    """An average has the step of its newest source, and so has a run with other settings."""
    for fields in (
        dict(f1=91.5),
        dict(loss=2.0),
        dict(f1=11.0, checkpoint="0" * 64),
        dict(f1=12.0, checkpoint=""),
        dict(f1=13.0, decode={**SEARCH, "ensemble": ["runs/other"]}),
        dict(f1=14.0, decode={**SEARCH, "prefixes": "begins.txt"}),
    ):
        results = record(parser, **{"decode": SEARCH, **fields})
    found = origin.recorded_scores(parser, checkpoint, results)
    assert found == ["dev: 91.50 F1 (beam 21, alpha 0.3)"]
    assert "4 scores" in capsys.readouterr().out


def test_a_recorded_score_names_its_edition_and_conventions(wmt14, checkpoint, record):
    results = record(
        wmt14,
        bleu=27.3,
        bleu_signature="nrefs:1|tok:13a",
        conventions={"compound_split": {"bleu": 28.1, "signature": "nrefs:1|tok:moses"}},
        text=wmt14.problem.text_name("test", 2737),
        decode=SEARCH,
    )
    [line] = origin.recorded_scores(wmt14, checkpoint, results)
    assert line == (
        "newstest2014, filtered edition (2,737 lines): 27.30 BLEU (beam 21, alpha 0.3; "
        "sacrebleu nrefs:1|tok:13a), 28.10 BLEU (compound_split nrefs:1|tok:moses)"
    )


def test_a_measured_score_names_its_text_and_conventions(wmt14, checkpoint):
    hypothesis, reference = "Das ist ein Hausboot auf dem See.", "Das ist ein Boot auf dem See."
    text = (["It is a boat on the lake."], [reference])
    said = origin.measured_score(translator_to(hypothesis), wmt14, checkpoint, "float32", text)
    name = "newstest2013 (1 lines; as published it has 3,000)"
    bleu = sacrebleu.corpus_bleu([hypothesis], [[reference]]).score
    assert said.startswith(f"{name}: {bleu:.2f} BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1|")
    assert f", {bleu:.2f} BLEU (tokenised nrefs:1|" in said
    assert f", {bleu:.2f} BLEU (compound_split nrefs:1|" in said
