import random
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.evalb import PARAMETERS, SentenceScore, Totals, compare, evalb
from t2t_keras.trees.tree import bracketed
from t2t_keras.trees.treebank import parsed

COLLINS, NEW = PARAMETERS["COLLINS"], PARAMETERS["new"]


def score(gold, test, parameters=COLLINS):
    return compare(parsed(gold), parsed(test), parameters)


@pytest.mark.parametrize("name", ["COLLINS", "new"])
def test_line_by_line_as_the_c_program(shared_data, name):
    folder = shared_data / "evalb_fixtures"
    gold, system, expected = (
        (folder / file).read_text(encoding="utf-8").split("\n")[:-1]
        for file in ("gold.trees", "system.trees", f"expected.{name}.txt")
    )
    errors = []
    assert list(evalb(gold, system, PARAMETERS[name], errors.append)) == expected
    assert "".join(f"{error}\n" for error in errors) == (
        folder / "expected.COLLINS.stderr"
    ).read_text(encoding="utf-8")


# What the C program prints for these pairs.
PAIRS = [
    ("(TOP (S (NP (NN a)) (VP (VB b))))", "(TOP (S (NP (NN a)) (VP (NN b))))"),
    ("(TOP (S (NN a)))", "(TOP (S (NN b)))"),
    ("(TOP (S (NN a)))", ""),
    ("(TOP (S (NN a)))", "(TOP (S (NN a) (NN b)))"),
    ("(TOP (S (NP (DT a) (NN b)) (NN c)))", "(TOP (S (DT a) (X (NN b) (NN c))))"),
]
PRINTED = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    2    0  100.00 100.00     3      3    3      0      2     1    50.00
   2    1    1    0.00   0.00     0      0    0      0      0     0     0.00
   3    1    2    0.00   0.00     0      0    0      0      0     0     0.00
   4    1    1    0.00   0.00     0      0    0      0      0     0     0.00
   5    3    0   50.00  50.00     1      2    2      1      3     3   100.00
============================================================================
                 80.00  80.00      4     5     5      1      5     4    80.00
=== Summary ===

-- All --
Number of sentence        =      5
Number of Error sentence  =      2
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  80.00
Bracketing Precision      =  80.00
Bracketing FMeasure       =  80.00
Complete match            =  50.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  80.00
"""


def test_errors_and_sentences_left_out():
    errors = []
    printed = list(evalb(*zip(*PAIRS, strict=True), COLLINS, errors.append))
    assert printed[: PRINTED.count("\n")] == PRINTED.split("\n")[:-1]
    assert printed[-13:] == ["-- len<=40 --", *printed[-27 + 1 : -14]]
    assert errors == ["2 : Words unmatch (a|b)", "4 : Length unmatch (1|2)"]


@pytest.mark.parametrize(
    ("gold", "test", "matched", "of_gold", "of_test", "crossing"),
    [
        # Functions are cut, adverb phrases are particles, punctuation does not count.
        ("(S (NP-SBJ-1 (NN a)))", "(S (NP=2 (NN a)))", 2, 2, 2, 0),
        ("(S (ADVP (RB a)))", "(S (PRT (RP a)))", 2, 2, 2, 0),
        ("(S (NP (NN a) (, ,)) (NN b))", "(S (NP (NN a)) (, ,) (NN b))", 2, 2, 2, 0),
        ("(S (NP (, ,)) (NN a))", "(S (, ,) (NN a))", 1, 1, 1, 0),
        ("(S (NP (-NONE- *)) (NN a))", "(S (NN a))", 1, 1, 1, 0),
        ("(TOP (S (NN a)))", "(S (NN a))", 1, 1, 1, 0),
        ("( (S (NN a)))", "(S (NN a))", 1, 2, 1, 0),
        # A bracket matches once.
        ("(NP (NP (NN a)))", "(NP (NN a))", 1, 2, 1, 0),
        ("(NP (NN a))", "(NP (NP (NN a)))", 1, 1, 2, 0),
        ("(S (A (NN a) (NN b)) (NN c))", "(S (NN a) (A (NN b) (NN c)))", 1, 2, 2, 1),
    ],
)  # fmt: skip
def test_what_counts(gold, test, matched, of_gold, of_test, crossing):
    found, error = score(gold, test)
    assert not error
    assert (found.matched, found.gold, found.test) == (matched, of_gold, of_test)
    assert found.crossing == crossing


def test_new_parameters_delete_more_and_mend_quotes():
    found, _ = score("(S1 (S (NN a) (! !)))", "(S (NN a) (! !))", NEW)
    assert (found.matched, found.gold, found.test, found.words) == (1, 1, 1, 1)
    gold = "(S (NP (NN a) (POS ')) (VP (VB b)))"
    test = "(S (NP (NN a)) ('' ') (VP (VB b)))"
    assert score(gold, test, COLLINS)[1] == "Length unmatch (3|2)"
    for pair in ((gold, test), (test, gold)):
        found, error = score(*pair, NEW)
        assert (error, found.words, found.tags) == ("", 3, 2)
        assert (found.matched, found.gold, found.test) == (2, 3, 3)


def test_it_gives_up_after_as_many_errors_as_the_c_program():
    trees = ["(S (NN a))"] * 13, ["(S (NN b))"] * 13
    errors, lines = [], []
    with pytest.raises(UserError, match="12 sentences cannot be scored"):
        lines.extend(evalb(*trees, COLLINS, errors.append))
    assert len(errors) == 12
    assert len(list(evalb(*trees, COLLINS, errors.append, max_errors=12))) == 3 + 13 + 31


@pytest.mark.parametrize(("gold", "test", "longer"), [(2, 1, "gold"), (1, 3, "test")])
def test_different_numbers_of_lines(gold, test, longer):
    errors = []
    lines = list(evalb(["(S (NN a))"] * gold, ["(S (NN a))"] * test, COLLINS, errors.append))
    assert errors == [f"2 : Number of lines unmatch (too many lines in {longer} file)"]
    assert len(lines) == 3 + 1 + 31


def test_a_line_that_is_no_tree_is_an_error_of_its_sentence():
    errors = []
    lines = list(evalb(["(S (NN a))"] * 2, ["(S (NN a)", "(S (NN a))"], COLLINS, errors.append))
    assert errors == ["1 : The test line is no tree: 1 brackets are not closed"]
    assert lines[3].split()[:3] == ["1", "1", "1"]
    assert lines[4].split()[:4] == ["2", "1", "0", "100.00"]


class Perturbed:
    """A tree that can be changed, with what each change does to its score."""

    def __init__(self, generator, tree):
        self.generator = generator
        self.constituents, self.words = [], []
        self.root = self._changeable(tree)
        self.constituents.remove(self.root)
        self.score = dict.fromkeys(("matched", "gold", "test"), len(self.constituents))
        self.score["tags"] = self.score["words"] = sum(word[0] != "," for word in self.words)

    def _changeable(self, tree):
        node = [tree.label, tree.word or [self._changeable(child) for child in tree.children]]
        (self.words if tree.word else self.constituents).append(node)
        return node

    def add_bracket(self):
        """A label that gold does not have, around neighbours: one more bracket in the test."""
        children = self.generator.choice(self.constituents)[1]
        first = self.generator.randrange(len(children))
        last = self.generator.randrange(first, len(children))
        if any(
            not isinstance(each[1], str) or each[0] != "," for each in children[first : last + 1]
        ):
            children[first : last + 1] = [["ZZ", children[first : last + 1]]]
            self.score["test"] += 1

    def relabel(self):
        """A label that gold does not have: one bracket less matches."""
        node = self.generator.choice(self.constituents)
        if node[0] != "YY":
            node[0] = "YY"
            self.score["matched"] -= 1

    def drop_bracket(self):
        """One bracket less in the test, and it no longer matches."""
        node = self.generator.choice(self.constituents)
        for parent in self._all(self.root):
            for place, child in enumerate(parent[1]):
                if child is node:
                    parent[1][place : place + 1] = node[1]
                    self.constituents.remove(node)
                    self.score["matched"] -= node[0] != "YY"
                    self.score["test"] -= 1
                    return

    def retag(self):
        """One tag less is right."""
        word = self.generator.choice(self.words)
        if word[0] not in (",", "QQ"):
            word[0] = "QQ"
            self.score["tags"] -= 1

    def _all(self, node):
        if not isinstance(node[1], str):
            yield node
            for child in list(node[1]):
                yield from self._all(child)

    def text(self, node=None):
        label, below = node or self.root
        return f"({label} {below if isinstance(below, str) else ' '.join(map(self.text, below))})"


def test_2000_perturbed_trees(load_module):
    toy_treebank = load_module(Path(__file__).parents[1] / "trees" / "toy_treebank.py")
    generator = random.Random(4)
    expected, sums = Totals(), dict.fromkeys(("matched", "gold", "test", "words", "tags"), 0)
    wrong = 0
    for number in range(2000):
        gold = toy_treebank.random_tree(generator)
        changed = Perturbed(generator, gold)
        length = len(changed.words)
        kinds = ["add_bracket", "relabel", "drop_bracket", "retag"]
        changes = generator.choices(kinds, k=generator.randrange(5))
        # Brackets are added within those of the gold tree, so that nothing crosses.
        for change in sorted(changes, key=lambda change: change != "add_bracket"):
            if len(changed.constituents) > 1:
                getattr(changed, change)()
        known = SentenceScore(length=length, **changed.score)
        if number % 20 == 0:
            # A wrong word takes its whole sentence out of the sums.
            word = next(word for word in changed.words if word[0] != ",")
            word[1] += "X"
            known = SentenceScore(length=length, status=1)
            wrong += 1
        found, error = compare([gold], parsed(changed.text()), COLLINS)
        assert found == known, (bracketed(gold), changed.text())
        assert bool(error) == (known.status == 1)
        expected.add(found)
        for name in sums:
            sums[name] += getattr(known, name)
    assert expected.errors == wrong == 100
    assert sums == {name: expected.sums[name] for name in sums}
    assert expected.recall == pytest.approx(100 * sums["matched"] / sums["gold"])
    assert expected.precision == pytest.approx(100 * sums["matched"] / sums["test"])
    assert expected.f1 == pytest.approx(200 * sums["matched"] / (sums["gold"] + sums["test"]))


def test_moved_brackets_cross():
    """k words after a pair (a b): a test pair (b c) crosses it, whatever stands around."""
    for k in range(1, 40):
        rest = " ".join(f"(NN w{i})" for i in range(k))
        found, _ = score(
            f"(TOP (S (NP (NN a) (NN b)) {rest}))", f"(TOP (S (NN a) (NP (NN b) {rest})))"
        )
        assert found == SentenceScore(k + 2, 0, 1, 2, 2, 1, k + 2, k + 2)
