import math

import pytest
import sacrebleu

from t2t_keras.errors import UserError
from t2t_keras.metrics.bleu import TOKENIZATIONS, bleu

HYPOTHESES = ["The cat sat, on the mat.", "It is raining (again).", "über Straßen", "一只 猫 ."]
REFERENCES = ["The cat is on the mat.", "It rains (again)!", "Über Straßen", "一只 猫 。"]


def test_by_hand():
    """Seven words against eight: 6, 4, 2, 1 of the n-grams are found, and it is too short."""
    hypothesis = "the black cat sat on the mat"
    reference = "the black cat is sitting on the mat"
    precisions = [6 / 7, 4 / 6, 2 / 5, 1 / 4]
    # the black | black cat | on the | the mat; the black cat | on the mat; no 4-gram
    precisions[3] = (1 / 2) / 4  # exponential smoothing: the first zero counts as a half
    expected = math.exp(1 - 8 / 7) * math.prod(precisions) ** (1 / 4)
    score = bleu([hypothesis], [reference], tokenize="none")
    assert score.bleu == pytest.approx(100 * expected, abs=1e-9)


@pytest.mark.parametrize("tokenize", TOKENIZATIONS)
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


def test_only_text_that_should_be_plain_makes_sacrebleu_warn(caplog):
    lines = ["A dog sleeps ."] * 100
    bleu(lines, lines, "none", conventions=["tokenised"], language="en")
    assert not caplog.records
    bleu(lines, lines)
    assert "tokenized" in caplog.text


def test_report_has_scores_and_signatures():
    score = bleu(HYPOTHESES, REFERENCES)
    bleu_line, chrf_line = str(score).splitlines()
    assert bleu_line.startswith(f"BLEU|{score.bleu_signature} = {score.bleu:.2f} ")
    assert chrf_line == f"chrF2|{score.chrf_signature} = {score.chrf:.2f}"
    assert score.main == ("bleu", score.bleu)


@pytest.mark.parametrize(
    ("hypotheses", "references", "tokenize", "named"),
    [
        (["a", "b"], ["a"], "13a", "2 translations .* 1 references"),
        ([], [], "13a", "no lines"),
        (["a"], ["a"], "13b", "'13b'.* '13a'"),
    ],
)
def test_refuses(hypotheses, references, tokenize, named):
    with pytest.raises(UserError, match=named):
        bleu(hypotheses, references, tokenize)
