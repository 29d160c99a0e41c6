import random

import pytest
from toy_treebank import random_tree

from t2t_keras.parsing.trees import (
    bracketed,
    parsed,
    rebuilt,
    symbols,
    symbols_among,
    symbols_in,
    symbols_of,
    words,
    words_of,
)

WORDS = ["the", "dog", "sleeps"]
RIGHT = "(S (NP (DT) (NN) /NP) (VP (VBZ) /VP) /S)"
TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps))))"
UNTAGGED = "(TOP (XX the) (XX dog) (XX sleeps))"


def test_symbols_are_tensor2tensor_s_in_brackets():
    [tree] = parsed("(TOP (S (NP (NNP John)) (VP (VBZ /NP))))")
    actual = symbols(tree)
    assert " ".join(actual) == "(S (NP (NNP) /NP) (VP (VBZ) /VP) /S)"
    assert " ".join(actual).replace("(", "").replace(")", "") == "S NP NNP /NP VP VBZ /VP /S"
    # Of an unparsed text, as they are after its cleaning.
    text = b"(TOP (S-1 \n(NP=2 (NN a)(-NONE- *)) (S b)))"
    assert symbols_in(text) == {"(S", "/S)", "(NP", "/NP)", "(NN)", "(S)"}


@pytest.mark.parametrize(
    ("output", "expected", "repairs"),
    [
        (RIGHT, TREE, []),
        ("(S (NP (DT) (NN) /NP) (VP (VBZ)", TREE, ["constituent not closed"] * 2),
        ("(S (NP (DT) (NN) (VP (VBZ) /VP) /S)",
         "(TOP (S (NP (DT the) (NN dog) (VP (VBZ sleeps)))))", ["constituent not closed"]),
        (RIGHT + " /S) /NP)", TREE, ["closed but never opened"] * 2),
        ("(S (NP (DT) (NN) /PP) (VP (VBZ) /VP) /S)", TREE, ["closed by another label"]),
        (RIGHT.replace("(NN)", "(NN) (NN)"), "(TOP (S (NP (DT the) (NN dog) (NN sleeps))))",
         ["tag without a word", "constituent without words"]),
        ("(S (NP (DT) (NN) /NP)", "(TOP (S (NP (DT the) (NN dog) (XX sleeps))))",
         ["word without a tag", "constituent not closed"]),
        ("", UNTAGGED, ["empty output", *["word without a tag"] * 3]),
        (RIGHT.replace("(NN)", "dog (NN) (NP( NP"), TREE, ["unknown symbol"] * 3),
        (RIGHT.replace("/S)", "(PP (NP /NP) /PP) /S)"), TREE, ["constituent without words"] * 2),
        # Several roots, and words right below the root, are no fault.
        ("(NP (DT) (NN) /NP) (VBZ)", "(TOP (NP (DT the) (NN dog)) (VBZ sleeps))", []),
        ("(S " * 5000 + RIGHT, "(TOP " + "(S " * 5000 + TREE[5:-1] + ")" * 5001,
         ["constituent not closed"] * 5000),
    ],
)  # fmt: skip
def test_every_repair_is_counted(output, expected, repairs):
    tree, actual = rebuilt(output.split(), WORDS)
    assert bracketed(tree) == expected
    assert sorted(actual.elements()) == sorted(repairs)


@pytest.mark.parametrize(
    ("output", "alignment", "expected", "extra", "missing"),
    [
        # The first word has no tag, nor the last; both go where their neighbour is.
        ("(S (NP (NN) /NP) /S)", [(1, 2)],
         "(TOP (S (NP (XX the) (NN dog) (XX sleeps))))", 0, 2),
        # Between two words with tags, the one without goes to the first.
        ("(NP (DT) /NP) (VP (VBZ) /VP)", [(0, 1), (2, 4)],
         "(TOP (NP (DT the) (XX dog)) (VP (VBZ sleeps)))", 0, 1),
        # As many tags as words, but one of them is no word's.
        ("(DT) (JJ) (VBZ)", [(0, 0), (2, 2)], "(TOP (DT the) (XX dog) (VBZ sleeps))", 1, 1),
        ("(NN)", [], UNTAGGED, 1, 3),
        # The last word does not exist.
        ("(DT) (NN) (VBZ) (.)", [(0, 0), (1, 1), (2, 2), (3, 3)],
         "(TOP (DT the) (NN dog) (VBZ sleeps))", 1, 0),
    ],
)  # fmt: skip
def test_tags_stand_with_the_words_they_are_aligned_with(
    output, alignment, expected, extra, missing
):
    tree, actual = rebuilt(output.split(), WORDS, alignment=alignment)
    assert bracketed(tree) == expected
    assert (actual["tag without a word"], actual["word without a tag"]) == (extra, missing)
    assert actual.total() == extra + missing


def test_a_label_outside_the_vocabulary_is_a_repair():
    pieces = ["\u2581(S", "\u2581/S)", "\u2581(NN)", "\u2581the", "dog", "\u2581", "<0x28>", "</s>"]
    known = symbols_among(pieces)
    assert known == {"(S", "/S)", "(NN)"}
    output = "(Sdog (NN) (NN) /Sdog) (S (NNdog) (NN) /S)".split()
    tree, repairs = rebuilt(output, WORDS, known)
    assert bracketed(tree) == "(TOP (NN the) (NN dog) (S (NN sleeps)))"
    assert repairs == {"unknown symbol": 3}
    # Without a vocabulary nobody can tell.
    tree, repairs = rebuilt(output, WORDS)
    assert bracketed(tree) == "(TOP (Sdog (NN the) (NN dog)) (S (NNdog sleeps)))"
    assert repairs == {"tag without a word": 1}


def test_any_output_becomes_a_tree_over_the_words():
    generator = random.Random(2)
    for _ in range(500):
        tree = random_tree(generator)
        right, sentence = symbols(tree), words(tree)
        assert rebuilt(right, sentence) == (tree, {})
        spoiled = right[:]
        for _ in range(generator.randint(1, 4)):
            index = generator.randrange(len(spoiled) + 1)
            if generator.random() < 0.5:
                spoiled.insert(index, generator.choice([*right, "(ZZ", "/ZZ)", "?"]))
            else:
                del spoiled[index : index + generator.randint(1, 5)]
        rough, repairs = rebuilt(spoiled, sentence)
        assert parsed(bracketed(rough)) == [rough]
        assert words(rough) == sentence
        # A tree that needed no repair says exactly what was written.
        assert repairs or symbols(rough) == spoiled


def test_words_and_symbols_of_a_line():
    assert words_of(" he  (it)\tsays\u00a0no \r\n") == ["he", "-LRB-it-RRB-", "says\u00a0no"]
    # As the reader of trees in brackets splits words.
    assert words_of("a\x0bb\x0cc") == ["a", "b", "c"]
    assert symbols_of(" (NP\u00a0x\t(NN)\n") == ["(NP\u00a0x", "(NN)"]


def test_round_trip_of_craft_trees(shared_data):
    content = (shared_data / "craft/dev.trees").read_bytes()
    lines, used = content.decode("utf-8").split("\n")[:-1], set()
    assert len(lines) == 2778
    for line in lines:
        [tree] = parsed(line)
        actual = symbols(tree)
        assert rebuilt(actual, words(tree)) == (tree, {})
        assert bracketed(tree) == line
        used |= set(actual)
    assert symbols_in(content) == used
