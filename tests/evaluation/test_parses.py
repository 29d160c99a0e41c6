import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.parses import score_parses

SOURCES = ["the dog sleeps .", "no", " ".join(["very"] * 12)]
SYMBOLS = [
    "(S (NP (DT) (NN) /NP) (VP (VBZ) /VP) (.) /S)",
    "(INTJ (UH) /INTJ)",
    "(ADVP " + "(RB) " * 12 + "/ADVP)",
]
TREES = [
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))",
    "( (INTJ-1 (UH no) (NP (-NONE- *))) )",
    "(ADVP" + " (RB very)" * 12 + ")",
]


@pytest.mark.parametrize("references", [SYMBOLS, TREES])
def test_perfect_parses(references):
    score = score_parses(SYMBOLS, references, SOURCES)
    assert (score.f1, score.recall, score.precision, score.repaired) == (100, 100, 100, 0)
    assert score.f1_by_length == {"1-10": (100.0, 2), "11-20": (100.0, 1)}
    assert score.main == ("f1", 100.0)
    shares = "recall 100.00, precision 100.00"
    how = "evalb's COLLINS, punctuation as in the references"
    assert f"F1 = 100.00 ({shares}; {how}, 3 sentences)" in str(score)
    assert "F1 by words: 1-10 100.00 (2), 11-20 100.00 (1)" in str(score)
    assert "repaired: 0.00% (0 of 3 outputs)" in str(score)


def test_faults_and_repairs():
    parses = [
        # NP lost, VP relabelled, S not closed: of 3 brackets S matches; the parse has 2.
        "(S (DT) (NN) (PP (VBZ) /PP) (.)",
        "",
        SYMBOLS[2] + " /S)",
    ]
    score = score_parses(parses, SYMBOLS, SOURCES)
    # Gold has 3 + 1 + 1, the parses 2 + 0 + 1, matched are 1 + 0 + 1.
    assert score.recall == pytest.approx(100 * 2 / 5)
    assert score.precision == pytest.approx(100 * 2 / 3)
    assert score.f1 == pytest.approx(100 * 4 / 8)
    assert score.f1_by_length == {"1-10": (pytest.approx(200 / 6), 2), "11-20": (100.0, 1)}
    assert score.repaired == 100
    assert score.repairs == {
        "opened but not closed": 1, "empty output": 1, "word without a tag": 1,
        "closed but never opened": 1,
    }  # fmt: skip
    assert "repaired: 100.00% (3 of 3 outputs): 1 " in score.report


def test_no_sentence_is_left_out_for_its_tags():
    """evalb itself would refuse the first two: other words count there."""
    parses = [
        SYMBOLS[0].replace("(.)", "(NN)"), "(INTJ (,) /INTJ)", SYMBOLS[2].replace("(RB)", "(JJ)", 1)
    ]  # fmt: skip
    score = score_parses(parses, SYMBOLS, SOURCES)
    assert (score.f1, score.repaired) == (100, 0)
    # Of 17 words three have a wrong tag.
    assert f"tags {100 * 14 / 17:.2f}" in score.report
    assert "2 of the sentences evalb itself would leave out" in score.report


def test_only_references_may_have_a_label_that_the_model_has_not():
    known = {"(S", "/S)", "(NN)"}
    for label, repaired in (("S", 0), ("Sdog", 100)):
        lines = [f"({label} (NN) /{label})"]
        score = score_parses(lines, ["(Sdog (NN) /Sdog)"], ["no"], known)
        assert (score.repaired, score.f1) == (repaired, 0)
    assert score.repairs == {"symbol that is none": 2}


def test_nothing_matches():
    score = score_parses(["(X (X (UH) /X) /X)"], ["(INTJ (UH) /INTJ)"], ["no"])
    assert (score.f1, score.recall, score.precision) == (0, 0, 0)


@pytest.mark.parametrize(
    ("references", "sources", "message"),
    [
        (SYMBOLS[:2], SOURCES, "3 parses, 2 references and 3 sentences"),
        (SYMBOLS, ["x", *SOURCES[1:]], "reference in line 1 is no tree over the words"),
        ([SYMBOLS[0], "no", SYMBOLS[2]], SOURCES, "reference in line 2 is no tree over the words"),
        (["(S (NN the)) (S (NN dog))", *SYMBOLS[1:]], SOURCES, "reference in line 1"),
    ],
)
def test_what_cannot_be_scored(references, sources, message):
    with pytest.raises(UserError, match=message):
        score_parses(SYMBOLS, references, sources)


def test_no_lines():
    with pytest.raises(UserError, match="no lines"):
        score_parses([], [], [])
