import dataclasses
import os
import re
import subprocess
import sys
import venv

import pytest
from refusals import refused
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_keras.lab.comparison.scores import (
    TESTS,
    CometModel,
    MetricScores,
    Significance,
    SystemScore,
    score_systems,
)
from t2t_keras.lab.comparison.systems import System, system_names
from t2t_keras.registry import register_metric


@pytest.mark.parametrize(
    ("significance", "flags", "seed"),
    [
        (Significance(samples=200), ["--paired-bs", "--paired-bs-n=200"], "12345"),
        (Significance(samples=100, seed=7), ["--paired-bs", "--paired-bs-n=100"], "7"),
        (Significance("randomization", 300), ["--paired-ar", "--paired-ar-n=300"], "12345"),
    ],
)
def test_all_is_as_sacrebleu_prints_it(text, tmp_path, monkeypatch, significance, flags, seed):
    for name, lines in [("ref", text.references)] + [
        (s.name, s.translations) for s in text.systems
    ]:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", *(s.name for s in text.systems)]
    command += ["-m", "bleu", "chrf", "ter", "-f", "text", "-w", "6", *flags]
    environment = os.environ | {"SACREBLEU_SEED": seed, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    actual = score_systems(text, significance=significance)
    assert "SACREBLEU_SEED" not in os.environ
    # Row by row, a system's three metrics side by side.
    ours = [metric.scores[number] for number in range(3) for metric in actual]
    table = done.stdout.decode()
    p_values = re.findall(r"\(p = ([\d.]+)\)", table)
    assert [score.p_value for score in ours[:3]] == [None] * 3
    assert [f"{score.p_value:.4f}" for score in ours[3:]] == p_values
    if significance.test == "bootstrap":
        shown = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", table)
        assert [(our.score, our.mean, our.interval) for our in ours] == [
            pytest.approx([*map(float, values)], abs=1e-4) for values in shown
        ]
    for metric in actual:
        assert metric.signature in table
        assert metric.scores[1].difference == metric.scores[1].score - metric.scores[0].score
    assert [metric.higher_is_better for metric in actual] == [True, True, False]


@pytest.mark.parametrize("lowercase", [False, True])
def test_case_and_tokens_are_sacrebleu_s(text, lowercase):
    system = System("loud", [line.upper() for line in text.systems[0].translations], "loud.txt")
    shouted = dataclasses.replace(text, systems=[text.systems[0], system])
    names, few = ["bleu", "chrf", "chrf++", "ter"], Significance(samples=9)
    actual = score_systems(shouted, names, "char", lowercase, few)
    metrics = [
        BLEU(tokenize="char", lowercase=lowercase),
        CHRF(lowercase=lowercase),
        CHRF(lowercase=lowercase, word_order=2),
        TER(),
    ]
    for scores, metric in zip(actual, metrics, strict=True):
        expected = metric.corpus_score(system.translations, [text.references]).score
        assert scores.scores[1].score == pytest.approx(expected)
        ignored = lowercase or scores.name == "ter"
        assert (scores.scores[1].difference == 0) == ignored


def test_the_seed_is_sacrebleus_unless_given(text, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    assert [Significance().seed, Significance(seed=3).seed] == [99, 3]
    assert [Significance(test).samples for test in TESTS] == [1_000, 10_000]
    monkeypatch.setenv("SACREBLEU_SEED", "None")
    assert Significance().seed is None
    assert str(Significance()).endswith(", 1,000 samples, no fixed seed")
    monkeypatch.setenv("SACREBLEU_SEED", "0")  # which sacreBLEU takes for no seed
    with refused("bad_value", "SACREBLEU_SEED", "'0'"):
        Significance()
    with refused("bad_value", "bootstrap, randomization", "'t'"):
        Significance("t")
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    score_systems(text, ["bleu"], significance=Significance(samples=2, seed=3))
    assert os.environ["SACREBLEU_SEED"] == "99"
    with refused("too_few", "bleu"):
        score_systems(text, [])


def test_what_is_more_than_chance_and_how_it_is_rounded():
    significant = [
        SystemScore(1, difference=1, p_value=p).is_significant for p in (0.049, 0.05, None)
    ]
    assert significant == [True, False, False]
    assert not SystemScore(1, difference=0.0, p_value=0.001).is_significant
    digits = [
        MetricScores("x", "x", "", None, [SystemScore(0.5), SystemScore(most)]).digits
        for most in (1.99, -2, 2)
    ]
    assert digits == [4, 2, 2]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/x.de", "b/y.de"], ["x.de", "y.de"]),
        (["runs/a/x", "runs/b/x"], ["a/x", "b/x"]),
        (["a/b/x", "c/b/x"], ["a/b/x", "c/b/x"]),
        (["a/x", "x"], ["a/x", "x"]),
    ],
)
def test_a_system_is_called_by_what_tells_its_path_apart(paths, names):
    assert system_names(paths) == names
    assert system_names(paths, ["one", "two"]) == ["one", "two"]


def test_a_registered_metric_has_no_p_value(text, own_registry):
    @register_metric
    def same_length(hypotheses, references, sources):
        pairs = zip(hypotheses, references, sources, strict=True)
        return sum(len(hypothesis) == len(reference) for hypothesis, reference, _ in pairs)

    names = ["bleu", "same_length", "bleu"]
    bleu, own = score_systems(text, names, significance=Significance(samples=9))
    assert bleu.scores[1].p_value > 0
    first, second = (
        sum(map(lambda a, b: len(a) == len(b), system.translations, text.references))
        for system in text.systems[:2]
    )
    assert [score.score for score in own.scores[:2]] == [first, second]
    assert (own.scores[1].difference, own.scores[1].p_value) == (second - first, None)
    without = dataclasses.replace(text, sources=(), source_file="")
    with refused("missing_flags", "same_length", "--source"):
        score_systems(without, names)


@pytest.fixture
def comet(tmp_path, monkeypatch):
    """A model, and a Python whose package scores a translation by its share of "e"."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    (tmp_path / "model" / "checkpoints").mkdir(parents=True)
    (tmp_path / "model" / "hparams.yaml").touch()
    (tmp_path / "model" / "checkpoints" / "model.ckpt").touch()
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = (tmp_path / "env" / "lib").glob("*/site-packages")
    (packages / "comet.py").write_text(
        """
import os, types
def load_from_checkpoint(path, local_files_only):
    assert path.endswith("model.ckpt") and local_files_only and os.environ["HF_HOME"]
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
    return types.SimpleNamespace(predict=predict)
def predict(samples, gpus, progress_bar):
    print("GPU available")
    assert gpus == 1 and all(sorted(sample) == ["mt", "ref", "src"] for sample in samples)
    if samples[0]["src"] == "fail":
        raise ValueError("the encoder is missing.")
    scores = [sample["mt"].count("e") / len(sample["mt"]) for sample in samples]
    return types.SimpleNamespace(scores=scores)
"""
    )
    (packages / "torch.py").write_text("class cuda:\n    device_count = lambda: 4\n")
    metadata = packages / "unbabel_comet-2.2.7.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 2.2.7\n")
    return CometModel(tmp_path / "model", tmp_path / "env" / "bin" / "python")


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_comet_is_tested_as_the_others(text, comet, test, capfd):
    [actual] = score_systems(text, [], significance=Significance(test, 50), comet=comet)
    for score, system in zip(actual.scores, text.systems, strict=True):
        shares = [line.count("e") / len(line) for line in system.translations]
        assert score.score == pytest.approx(sum(shares) / len(shares))
    assert capfd.readouterr().out == "", "the report is what standard output is for"
    p_values = [comparison.p_value for comparison in actual.scores]
    assert p_values[0] is None
    assert all(1 / 51 <= p <= 1 for p in p_values[1:])
    assert re.fullmatch(
        r"nrefs:1\|(bs|ar):50\|seed:12345\|model:model\|comet:2.2.7\|version:.*", actual.signature
    )


def test_what_comet_lacks_is_told(text, comet, tmp_path):
    failing = type(text)(text.systems, text.references, "r", ["fail"] * len(text.references), "s")
    for model, of, code, named in (
        (CometModel(tmp_path, comet.python), text, "no_model", tmp_path),
        (CometModel(comet.path), text, "missing_package", "pip install unbabel-comet"),
        (CometModel(comet.path, "/nowhere"), text, "other_program_failed", "/nowhere"),
        (comet, failing, "other_program_failed", "ValueError: the encoder is missing."),
    ):
        with refused(code, named):
            score_systems(of, ["bleu"], significance=Significance(samples=9), comet=model)
