import re

import pytest
from refusals import refused

from t2t_keras.parsing.score import score_parses

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


def rows(score):
    """Numbers of words, with F1 and the number of sentences, as they are printed."""
    return re.findall(r"(\d+-\d+) ([\d.]+) \((\d+)\)", str(score))


@pytest.mark.parametrize("references", [SYMBOLS, TREES])
def test_perfect_parses(references):
    score = score_parses(SYMBOLS, references, SOURCES)
    assert (score.f1, score.repaired, score.main) == (100, 0, ("f1", 100.0))
    assert re.findall(r"(?:F1 =|recall|precision) ([\d.]+)", str(score)) == ["100.00"] * 3
    assert rows(score) == [("1-10", "100.00", "2"), ("11-20", "100.00", "1")]
    assert "repaired: 0.00% (0 of 3 " in str(score)


def test_rows_of_lengths_end_at_tens():
    lengths = (1, 10, 11, 20, 21, 30, 31, 40, 41)
    parses = [f"(S {'(NN) ' * length}/S)" for length in lengths]
    actual = score_parses(parses, parses, [" ".join("w" * length) for length in lengths])
    counts = [score.sentences for score in actual.by_length.values()]
    assert list(actual.by_length) == ["1-10", "11-20", "21-30", "31-40", "41 and more"]
    assert counts == [2, 2, 2, 2, 1]


def test_faults_and_repairs():
    parses = [
        # NP lost, VP relabelled, S not closed: of 3 brackets S matches; the parse has 2.
        "(S (DT) (NN) (PP (VBZ) /PP) (.)",
        "",
        SYMBOLS[2] + " /S)",
    ]
    score = score_parses(parses, SYMBOLS, SOURCES)
    # Gold has 3 + 1 + 1, the parses 2 + 0 + 1, matched are 1 + 0 + 1.
    assert (score.brackets.gold, score.brackets.test, score.brackets.matched) == (5, 3, 2)
    assert score.f1 == pytest.approx(100 * 4 / 8)
    assert rows(score) == [("1-10", f"{200 / 6:.2f}", "2"), ("11-20", "100.00", "1")]
    faults = ("constituent not closed", "empty output", "word without a tag")
    assert score.repairs == dict.fromkeys((*faults, "closed but never opened"), 1)
    assert "repaired: 100.00% (3 of 3 " in str(score)


def test_no_sentence_is_left_out_for_its_tags():
    """evalb itself would refuse the first two: other words count there."""
    replacements = [("(.)", "(NN)"), ("(UH)", "(,)"), ("(RB)", "(JJ)")]
    parses = [line.replace(*tags, 1) for line, tags in zip(SYMBOLS, replacements, strict=True)]
    parses[0] = parses[0].replace("(DT)", "(:)")
    score = score_parses(parses, SYMBOLS, SOURCES)
    assert (score.f1, score.repaired) == (100, 0)
    # Of 17 words four have a wrong tag.
    assert (score.right_tags, score.punctuation_errors) == (13, 2)
    assert f"tags {100 * 13 / 17:.2f}" in str(score)


def test_only_references_may_have_a_label_outside_the_vocabulary():
    known = {"(S", "/S)", "(NN)"}
    for label, repaired in (("S", 0), ("Sdog", 1)):
        lines = [f"({label} (NN) /{label})"]
        score = score_parses(lines, ["(Sdog (NN) /Sdog)"], ["no"], known)
        assert (score.repaired, score.f1) == (repaired, 0)
    assert score.repairs == {"unknown symbol": 2}
    # The most frequent first.
    score = score_parses(["(S (NN) (NN) (NN)"], ["(S (NN) /S)"], ["no"])
    assert str(score).split("outputs): ")[1].startswith("2 tag without a word; 1 constituent not")


@pytest.mark.parametrize(
    ("references", "line"),
    [
        (["x", *SYMBOLS[1:]], 1),
        ([TREES[0], "no", TREES[2]], 2),
        (["(S (NN the)) (S (NN dog))", *SYMBOLS[1:]], 1),
        (["(S (NP (-NONE- *)))", *SYMBOLS[1:]], 1),
    ],
)
def test_references_that_are_no_trees(references, line):
    number = line - 1
    with refused("bad_tree", f" {line} ", references[number], SOURCES[number]):
        score_parses(SYMBOLS, references, SOURCES)


@pytest.mark.parametrize("counts", [(0, 0, 0), (3, 2, 3)])
def test_counts_that_do_not_fit(counts):
    with refused("unequal_counts", ", ".join(map(str, counts))):
        score_parses(SYMBOLS[: counts[0]], SYMBOLS[: counts[1]], SOURCES[: counts[2]])
