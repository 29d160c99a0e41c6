import pytest
import sacrebleu
from refusals import refused

from t2t_keras.metrics import add_metrics, bleu
from t2t_keras.registry import register_metric

HYPOTHESES = ["The cat sat, on the mat.", "It is raining (again).", "über Straßen", "一只 猫 ."]
REFERENCES = ["The cat is on the mat.", "It rains (again)!", "Über Straßen", "一只 猫 。"]
ONE = ["a"], ["a"]


@pytest.mark.parametrize("tokenize", ["13a", "char", "intl", "none", "zh"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_is_sacrebleu(tokenize, lowercase):
    score = bleu(HYPOTHESES, REFERENCES, tokenize, lowercase)
    expected = sacrebleu.corpus_bleu(
        HYPOTHESES, [REFERENCES], tokenize=tokenize, lowercase=lowercase
    )
    assert score.bleu == pytest.approx(expected.score, abs=1e-9)
    case = "lc" if lowercase else "mixed"
    assert score.bleu_signature == (
        f"nrefs:1|case:{case}|eff:no|tok:{tokenize}|smooth:exp|version:{sacrebleu.__version__}"
    )
    metric = sacrebleu.CHRF(lowercase=lowercase)
    assert score.chrf == pytest.approx(metric.corpus_score(HYPOTHESES, [REFERENCES]).score)
    assert score.chrf_signature.startswith(f"nrefs:1|case:{case}|")
    bleu_line, chrf_line = str(score).splitlines()
    assert bleu_line.startswith(f"BLEU|{score.bleu_signature} = {score.bleu:.2f} ")
    assert chrf_line == f"chrF2|{score.chrf_signature} = {score.chrf:.2f}"
    assert score.main == ("bleu", score.bleu)


def test_only_text_that_should_be_plain_makes_sacrebleu_warn(caplog):
    lines = ["A dog sleeps ."] * 100
    bleu(lines, lines, "none", conventions=["tokenised"], language="en")
    assert not caplog.records
    bleu(lines, lines)
    assert "tokenized" in caplog.text


@pytest.mark.parametrize(
    ("lines", "options", "code", "names"),
    [
        ((["a", "b"], ["a"]), {}, "unequal_counts", "2 1"),
        (ONE, dict(more_references=[["a"], ["a", "b"]]), "unequal_counts", "1 2"),
        (([], []), {}, "no_text", ""),
        (ONE, dict(tokenize="13b"), "unknown_name", "'13b' '13a'"),
        (ONE, dict(conventions=["split"]), "unknown_name", "'split' tokenised, compound_split"),
        (ONE, dict(conventions=["tokenised"]), "bad_value", "tokenised ''"),
    ],
)
def test_refuses(lines, options, code, names):
    with refused(code, *names.split()):
        bleu(*lines, **options)


def test_registered_metrics_are_in_the_report(own_registry):
    @register_metric
    def third(hypotheses, references, sources):
        return len(sources) / 3

    score = add_metrics(bleu(*ONE), ["third"], *ONE, ["a", "b"])
    assert score.metrics == {"third": 2 / 3}
    assert str(score).splitlines()[2:] == ["third = 0.6667"]
