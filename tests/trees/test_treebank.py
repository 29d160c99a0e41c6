import random

import pytest

from t2t_keras.errors import UserError
from t2t_keras.trees import treebank
from t2t_keras.trees.tree import bracketed, words
from t2t_keras.trees.treebank import category, cleaned, labels, parsed, read_trees, tree_texts

# Traces, functions and indices, quotes, a gap's index, escaped brackets: as the treebank has them.
MRG = r"""
( (S
    (`` ``)
    (S-TPC-1
      (NP-SBJ (-NONE- *) )
      (VP (VB Read)
        (NP=2 (DT the) (NN and\/or)
          (PRN (-LRB- -LRB-) (NN note) (-RRB- -RRB-) ))))
    (, ,) ('' '')
    (NP-SBJ (PRP$ his) (NN boss) )
    (VP (VBD said)
      (SBAR (-NONE- 0)
        (S (-NONE- *T*-1) )))
    (. .) ))
( (FRAG (NP (NN Yes))) (. !) )

(S1 (NP-LOC-1=3
(NNP Rome)))
(TOP (NN one)) ((NN two))
"""
READ = r"(S (VP (VB Read) (NP (DT the) (NN and\/or) (PRN (-LRB- -LRB-) (NN note) (-RRB- -RRB-)))))"
CLEAN = [
    f"(TOP (S (`` ``) {READ} (, ,) ('' '') (NP (PRP$ his) (NN boss)) (VP (VBD said)) (. .)))",
    "(TOP (FRAG (NP (NN Yes))) (. !))",
    "(TOP (NP (NNP Rome)))",
    "(TOP (NN one))",
    "(TOP (NN two))",
]


def test_the_penn_treebank_s_form(tmp_path):
    path = tmp_path / "wsj_0001.mrg"
    path.write_bytes(b"\xef\xbb\xbf" + MRG.encode())
    trees = list(read_trees(path))
    assert [bracketed(cleaned(tree)) for tree in trees] == CLEAN
    # Nothing is lost before the cleaning.
    assert [word for tree in trees for word in words(tree)][1] == "*"
    places = [(text.line, text.text.lstrip()[:7]) for text in tree_texts(path)]
    assert places == [(2, b"( (S\n  "), (15, b"( (FRAG"), (17, b"(S1 (NP"), (19, b"(TOP (N")]
    # Windows' line ends change nothing, and one may begin at any of them.
    path.write_bytes(MRG.replace("\n", "\r\n").encode())
    assert list(read_trees(path)) == trees
    second = list(tree_texts(path))[1]
    assert next(tree_texts(path, second.offset, second.line)) == second


def test_trees_without_words_are_none():
    for text in ("(())", "( (S (NP-SBJ (-NONE- *)) (VP )))", "()"):
        [tree] = parsed(text, labelled=True)
        assert cleaned(tree) is None


def test_words_may_hold_any_space_but_ascii_s():
    [tree] = parsed("(NP (CD 10\u00a0000) (NN a\u2028b))")
    assert words(tree) == ["10\u00a0000", "a\u2028b"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("NP-LOC=1", "NP"), ("-LRB-", "-LRB-"),
        ("-RRB-", "-RRB-"), ("PRP$", "PRP$"), ("``", "``"), ("ADVP|PRT", "ADVP|PRT"),
    ],
)  # fmt: skip
def test_functions_and_indices_are_cut(label, expected):
    assert category(label) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a))\n\n(S (NN b)))\n", "bad.mrg:3: a bracket is closed here that was never"),
        ("(S (NN a))\n(S\n (NP (NN b)\n", "bad.mrg:2: .*2 brackets are still open in line 3"),
        ("(S (NN a))\n(S\n (NP (NN b c)))", "bad.mrg:3: the word 'b' stands in a bracket of more"),
        ("\n(S (NN a)) word", "bad.mrg:2: the word 'word' stands outside a tree"),
        ("(S\n (NN a)\n ( (NN b)))", "bad.mrg:3: a bracket inside a tree has no label"),
        ("(S\n (NP loose (NN b)))", "bad.mrg:2: the word 'loose' stands in a bracket of more"),
        (")(S (NN a)(", "bad.mrg:1: "),
        (b"(S\n (NN \xff))", "bad.mrg:2 is not UTF-8"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    path = tmp_path / "bad.mrg"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=message):
        list(read_trees(path))
    with pytest.raises(UserError, match=r"nowhere\.mrg cannot be read"):
        list(read_trees(tmp_path / "nowhere.mrg"))


def test_a_tree_without_end_does_not_take_the_file_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(treebank, "MAX_TREE_BYTES", 1000)
    path = tmp_path / "long.trees"
    path.write_text("(S (NN a))\n(S (NN b)\n" + "(S (NN c))\n" * 1000)
    with pytest.raises(UserError, match=r"long.trees:2: .* 1 bracket is still open in line 9\d"):
        list(read_trees(path))


def test_random_trees_over_several_lines(tmp_path, toy_treebank):
    generator = random.Random(1)
    trees = [toy_treebank.random_tree(generator) for _ in range(50)]
    path = tmp_path / "toy.mrg"
    path.write_text("".join(map(toy_treebank.as_mrg, trees)))
    assert [cleaned(tree) for tree in read_trees(path)] == trees
    constituents, tags = labels(path.read_bytes())
    assert constituents == set(toy_treebank.LABELS)
    assert tags == {*toy_treebank.TAGS, ","}


def test_depth_is_not_bounded_by_recursion():
    deep = "(S " * 5000 + "(NN a)" + ")" * 5000
    [tree] = parsed(deep)
    assert bracketed(cleaned(tree)) == f"(TOP {deep})"
