import pytest
from refusals import refused
from toy_treebank import read_trees

from t2t_keras.parsing.trees import bracketed, cleaned, parsed, tree_texts, words

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
(NNP Rome) (= =)))
(TOP (NN one)) ((NN two))
"""
READ = r"(S (VP (VB Read) (NP (DT the) (NN and\/or) (PRN (-LRB- -LRB-) (NN note) (-RRB- -RRB-)))))"
CLEAN = [
    f"(TOP (S (`` ``) {READ} (, ,) ('' '') (NP (PRP$ his) (NN boss)) (VP (VBD said)) (. .)))",
    "(TOP (FRAG (NP (NN Yes))) (. !))",
    "(TOP (NP (NNP Rome) (= =)))",
    "(TOP (NN one))",
    "(TOP (NN two))",
]


def test_the_penn_treebank_s_form(tmp_path):
    path = tmp_path / "wsj_0001.mrg"
    path.write_bytes(b"\xef\xbb\xbf" + MRG.encode())
    trees = read_trees(path)
    assert [bracketed(cleaned(tree)) for tree in trees] == CLEAN
    # Nothing is lost before the cleaning.
    assert [word for tree in trees for word in words(tree)][1] == "*"
    starts = [(text.line, text.text.lstrip()[:7]) for text in tree_texts(path)]
    assert starts == [(2, b"( (S\n  "), (15, b"( (FRAG"), (17, b"(S1 (NP"), (19, b"(TOP (N")]
    # Windows' line ends change nothing, and reading may begin at any tree.
    path.write_bytes(MRG.replace("\n", "\r\n").encode())
    assert read_trees(path) == trees
    second = list(tree_texts(path))[1]
    assert next(tree_texts(path, second.offset, second.line)) == second


def test_words_may_hold_any_space_but_ascii_s():
    [tree] = parsed("(NP (CD 10\u00a0000) (NN a\u2028b))")
    assert words(tree) == ["10\u00a0000", "a\u2028b"]


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        ("(S (NN a))\n\n(S (NN b)))\n", "bad_tree", "bad.mrg:3"),
        # With two open brackets in the last line.
        ("(S (NN a))\n(S\n (NP (NN b)\n", "bad_tree", "bad.mrg:2 2 3."),
        ("(S (NN a))\n(S\n (NP (NN b c)))", "bad_tree", "bad.mrg:3 'b'"),
        ("\n(S (NN a)) word", "bad_tree", "bad.mrg:2 'word'"),
        ("(S\n (NN a)\n ( (NN b)))", "bad_tree", "bad.mrg:3"),
        ("(S\n (NP loose (NN b)))", "bad_tree", "bad.mrg:2 'loose'"),
        (")(S (NN a)(", "bad_tree", "bad.mrg:1"),
        (b"(S\n (NN \xff))", "not_utf8", "bad.mrg:2"),
        # A tree without an end must not take the rest of the file into memory.
        ("(S (NN a))\n(S (NN b)\n" + "(S (NN c))\n" * 1000, "bad_tree", "bad.mrg:2 911."),
        (" " * 10_001 + "(S (NN a))", "bad_tree", "bad.mrg:1 10,000"),
        (None, "not_read", "bad.mrg"),
    ],
)
def test_errors_name_file_and_line(tmp_path, monkeypatch, text, code, names):
    monkeypatch.setattr("t2t_keras.parsing.trees.MAX_TREE_BYTES", 10_000)
    path = tmp_path / "bad.mrg"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(code, *names.split()):
        read_trees(path)


def test_depth_is_not_bounded_by_recursion():
    deep = "(S " * 5000 + "(NN a)" + ")" * 5000
    [tree] = parsed(deep)
    assert bracketed(cleaned(tree)) == f"(TOP {deep})"
