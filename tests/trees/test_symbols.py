import random

import pytest

from t2t_keras.trees import symbols as kinds
from t2t_keras.trees.symbols import (
    rebuilt,
    symbols,
    symbols_among,
    symbols_of,
    vocabulary_symbols,
    words_of,
)
from t2t_keras.trees.tree import bracketed, words
from t2t_keras.trees.treebank import labels, parsed

WORDS = ["the", "dog", "sleeps"]
RIGHT = "(S (NP (DT) (NN) /NP) (VP (VBZ) /VP) /S)"
TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps))))"


def test_symbols_are_the_lineage_s_in_brackets():
    [tree] = parsed("(TOP (S (NP (NNP John)) (VP (VBZ /NP))))")
    found = symbols(tree)
    assert " ".join(found) == "(S (NP (NNP) /NP) (VP (VBZ) /VP) /S)"
    assert " ".join(found).replace("(", "").replace(")", "") == "S NP NNP /NP VP VBZ /VP /S"
    assert rebuilt(found, words(tree)) == (tree, {})
    assert vocabulary_symbols(["TOP", "S"], ["NN", "S"]) == ["(NN)", "(S", "(S)", "/S)"]


@pytest.mark.parametrize(
    ("output", "expected", "repairs"),
    [
        (RIGHT, TREE, {}),
        ("(S (NP (DT) (NN) /NP) (VP (VBZ)", TREE, {kinds.MISSING_CLOSING: 2}),
        ("(S (NP (DT) (NN) (VP (VBZ) /VP) /S)",
         "(TOP (S (NP (DT the) (NN dog) (VP (VBZ sleeps)))))", {kinds.MISSING_CLOSING: 1}),
        (RIGHT + " /S) /NP)", TREE, {kinds.EXTRA_CLOSING: 2}),
        ("/NP) " + RIGHT, TREE, {kinds.EXTRA_CLOSING: 1}),
        ("(S (NP (DT) (NN) /PP) (VP (VBZ) /VP) /S)", TREE, {kinds.OTHER_CLOSING: 1}),
        (RIGHT.replace("(NN)", "(NN) (NN)"),
         "(TOP (S (NP (DT the) (NN dog) (NN sleeps))))",
         {kinds.EXTRA_TAG: 1, kinds.EMPTY_BRACKET: 1}),
        ("(S (NP (DT) (NN) /NP) /S)",
         "(TOP (S (NP (DT the) (NN dog) (XX sleeps))))", {kinds.MISSING_TAG: 1}),
        ("(S (NP (DT) (NN) /NP)",
         "(TOP (S (NP (DT the) (NN dog) (XX sleeps))))",
         {kinds.MISSING_TAG: 1, kinds.MISSING_CLOSING: 1}),
        ("", "(TOP (XX the) (XX dog) (XX sleeps))", {kinds.EMPTY_OUTPUT: 1, kinds.MISSING_TAG: 3}),
        (RIGHT.replace("(NN)", "dog (NN) (NP( NP"), TREE, {kinds.UNKNOWN_SYMBOL: 3}),
        (RIGHT.replace("/S)", "(PP (NP /NP) /PP) /S)"), TREE, {kinds.EMPTY_BRACKET: 2}),
        # Several roots, and words right below the root, are no fault.
        ("(NP (DT) (NN) /NP) (VBZ)", "(TOP (NP (DT the) (NN dog)) (VBZ sleeps))", {}),
    ],
)  # fmt: skip
def test_every_repair_is_counted(output, expected, repairs):
    tree, found = rebuilt(output.split(), WORDS)
    assert bracketed(tree) == expected
    assert {kind: count for kind, count in found.items() if count} == repairs


@pytest.mark.parametrize(
    ("output", "alignment", "expected", "repairs"),
    [
        # The first word has no tag, nor the last; both go where their neighbour is.
        ("(S (NP (NN) /NP) /S)", [(1, 2)],
         "(TOP (S (NP (XX the) (NN dog) (XX sleeps))))", {kinds.MISSING_TAG: 2}),
        # Between two words with tags, the one without goes to the first.
        ("(NP (DT) /NP) (VP (VBZ) /VP)", [(0, 1), (2, 4)],
         "(TOP (NP (DT the) (XX dog)) (VP (VBZ sleeps)))", {kinds.MISSING_TAG: 1}),
        # As many tags as words, but one of them is no word's.
        ("(DT) (JJ) (VBZ)", [(0, 0), (2, 2)],
         "(TOP (DT the) (XX dog) (VBZ sleeps))", {kinds.EXTRA_TAG: 1, kinds.MISSING_TAG: 1}),
        ("(NN)", [], "(TOP (XX the) (XX dog) (XX sleeps))",
         {kinds.EXTRA_TAG: 1, kinds.MISSING_TAG: 3}),
        # A word that there is not.
        ("(DT) (NN) (VBZ) (.)", [(0, 0), (1, 1), (2, 2), (3, 3)],
         "(TOP (DT the) (NN dog) (VBZ sleeps))", {kinds.EXTRA_TAG: 1}),
    ],
)  # fmt: skip
def test_tags_stand_with_the_words_they_are_aligned_with(output, alignment, expected, repairs):
    tree, found = rebuilt(output.split(), WORDS, alignment=alignment)
    assert bracketed(tree) == expected
    assert found == repairs


def test_a_label_that_there_is_not_is_a_repair():
    """A model can write a piece of a word right behind a bracket."""
    pieces = ["\u2581(S", "\u2581/S)", "\u2581(NN)", "\u2581the", "dog", "\u2581", "<0x28>", "</s>"]
    known = symbols_among(pieces)
    assert known == {"(S", "/S)", "(NN)"}
    output = "(Sdog (NN) (NN) /Sdog) (S (NNdog) (NN) /S)".split()
    tree, repairs = rebuilt(output, WORDS, known)
    assert bracketed(tree) == "(TOP (NN the) (NN dog) (S (NN sleeps)))"
    assert repairs == {kinds.UNKNOWN_SYMBOL: 3}
    # Without a vocabulary nobody can tell.
    tree, repairs = rebuilt(output, WORDS)
    assert bracketed(tree) == "(TOP (Sdog (NN the) (NN dog)) (S (NNdog sleeps)))"
    assert repairs == {kinds.EXTRA_TAG: 1}


def test_whatever_comes_out_is_a_tree_over_the_words(toy_treebank):
    generator = random.Random(2)
    for _ in range(500):
        tree = toy_treebank.random_tree(generator)
        right, sentence = symbols(tree), words(tree)
        assert rebuilt(right, sentence) == (tree, {})
        spoiled = right[:]
        for _ in range(generator.randint(1, 4)):
            place = generator.randrange(len(spoiled) + 1)
            if generator.random() < 0.5:
                spoiled.insert(place, generator.choice([*right, "(ZZ", "/ZZ)", "?"]))
            else:
                del spoiled[place : place + generator.randint(1, 5)]
        rough, repairs = rebuilt(spoiled, sentence)
        [again] = parsed(bracketed(rough))
        assert again == rough
        assert words(rough) == sentence
        # A tree that needed no repair says exactly what was written.
        assert repairs.total() > 0 or symbols(rough) == spoiled


def test_hundreds_of_brackets_inside_each_other():
    tree, repairs = rebuilt(["(S"] * 5000 + ["(NN)"], ["a"])
    assert bracketed(tree).count("(S") == repairs[kinds.MISSING_CLOSING] == 5000


def test_words_of_a_line():
    assert words_of(" he  (it)\tsays\u00a0no \r\n") == ["he", "-LRB-it-RRB-", "says\u00a0no"]
    # What trees in brackets are read by divides words here, too.
    assert words_of("a\x0bb\x0cc") == ["a", "b", "c"]
    assert symbols_of(" (NP\u00a0x\t(NN)\n") == ["(NP\u00a0x", "(NN)"]
    assert words_of("  ") == []


def test_round_trip_of_every_craft_tree(shared_data):
    count = 0
    constituents, tags = set(), set()
    for split in ("train", "dev"):
        content = (shared_data / "craft" / f"{split}.trees").read_bytes()
        for known, more in zip((constituents, tags), labels(content), strict=True):
            known |= more
        for line in content.decode("utf-8").split("\n")[:-1]:
            [tree] = parsed(line)
            again, repairs = rebuilt(symbols(tree), words(tree))
            assert again == tree
            assert not repairs
            if count % 10 == 0:
                assert bracketed(again) == line
            count += 1
    assert count == 21_721
    assert (len(constituents - {"TOP"}), len(tags)) == (30, 45)
