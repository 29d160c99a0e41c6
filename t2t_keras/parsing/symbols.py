"""Trees as symbols: (S (NP (NNP John)) (VP (VBZ runs))) is (S (NP (NNP) /NP) (VP (VBZ) /VP) /S).

tensor2tensor's S NP NNP /NP VP VBZ /VP /S, with brackets, which no word of a tree can contain: no
word is taken for a symbol, nor a tag for a constituent. The root, TOP, is left out.
"""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from t2t_keras.parsing.tree import ROOT, Step, Tree, TreeBuilder, walk
from t2t_keras.parsing.treebank import EMPTY_ELEMENT, category

# The tag of a word that the model gave none, from the Penn Treebank's guidelines.
UNKNOWN_TAG = "XX"

_SYMBOL = re.compile(r"\((?P<label>[^\s()]+)(?P<tag>\))?|/(?P<closed>[^\s()]+)\)", re.ASCII)
# With the bracket that follows, if any: then it is the label of a constituent.
_LABEL = re.compile(rb"\(([^\s()]*)\s*(?=(\()?)")
_SPELLING = {Step.OPEN: "({}", Step.WORD: "({})", Step.CLOSE: "/{})"}
_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def symbols(tree: Tree) -> list[str]:
    """Returns a tree as symbols, its root left out if that is TOP."""
    found = [_SPELLING[step].format(node.label) for step, node in walk(tree)]
    return found[1:-1] if tree.label == ROOT and not tree.word else found


def is_tag(symbol: str, known: Collection[str] = ()) -> bool:
    """Returns whether a symbol is a word's tag; `known` as for `rebuilt`."""
    return (not known or symbol in known) and _kind(symbol)[0] is Step.WORD


def symbols_in(text: bytes) -> frozenset[str]:
    """Returns the symbols of the trees in a text in brackets, when cleaned, without parsing it."""
    labels = {
        (category(label.decode("utf-8", "replace")), step)
        for label, bracket in set(_LABEL.findall(text))
        for step in ((Step.OPEN, Step.CLOSE) if bracket else (Step.WORD,))
    }
    labels -= {(ROOT, Step.OPEN), (ROOT, Step.CLOSE)}
    return frozenset(
        _SPELLING[step].format(label) for label, step in labels if label not in ("", EMPTY_ELEMENT)
    )


def symbols_among(pieces: Iterable[str]) -> frozenset[str]:
    """Returns the symbols among the pieces of a vocabulary, each behind its space character."""
    return frozenset(piece[1:] for piece in pieces if _SYMBOL.fullmatch(piece[1:]))


def words_of(line: str) -> list[str]:
    """Returns the words of a line, split at ASCII white space, with brackets as -LRB- and -RRB-."""
    return symbols_of(line.translate(_ESCAPES))


def symbols_of(output: str) -> list[str]:
    """Returns a model's output, split as by `words_of`, since alignments count both sides alike."""
    return re.findall(r"\S+", output, re.ASCII)


def rebuilt(
    output: Sequence[str],
    words: Sequence[str],
    known: Collection[str] = (),
    alignment: Sequence[tuple[int, int]] | None = None,
) -> tuple[Tree, Counter]:
    """Returns the tree over some words that symbols describe, whatever the symbols are.

    Symbols that describe no tree are repaired. Closing an outer constituent closes the inner ones;
    closing a label that is not open closes the innermost constituent. A word without a tag gets XX
    and is put after the word before it, or at the start before the first word with a tag. A tag
    without a word and a constituent without words are dropped.

    `known` are the symbols of the vocabulary; () = whatever is spelled as a symbol. A model can
    write a piece of a word right after a bracket, and make up the label "NPdog". `alignment` has
    pairs (word, symbol), both rising: the word of each tag. A tag that is in no pair has no word.
    None: the tags are those of one word after the other.

    Returns:
      The tree, its root TOP, with exactly these words; and the number of repairs of each kind.
    """
    builder, repairs = TreeBuilder(), Counter()
    builder.open(ROOT)
    kinds = [_kind(each) if not known or each in known else (None, "") for each in output]
    if alignment is None:
        tags = (number for number, (kind, _) in enumerate(kinds) if kind is Step.WORD)
        alignment = list(enumerate(tags))
    spans = _word_spans(alignment, len(words))
    if not output and words:
        repairs["empty output"] += 1
    for number, (kind, label) in enumerate(kinds):
        if kind is Step.OPEN:
            builder.open(label)
        elif kind is Step.CLOSE:
            _close(builder, label, repairs)
        elif kind is None:
            repairs["unknown symbol"] += 1
        elif number in spans:
            first, tagged, end = spans[number]
            for index in range(first, end):
                builder.add(Tree(label if index == tagged else UNKNOWN_TAG, (), words[index]))
        else:
            repairs["tag without a word"] += 1
    if not spans:
        for word in words:
            builder.add(Tree(UNKNOWN_TAG, (), word))
    if len(spans) < len(words):
        repairs["word without a tag"] += len(words) - len(spans)
    while len(builder.open_labels) > 1:
        _end(builder, repairs)
        repairs["constituent not closed"] += 1
    return builder.close(), repairs


def _word_spans(alignment: Iterable[tuple[int, int]], words: int) -> dict[int, tuple]:
    """Returns the words to put at each tag: the first, the tag's own, the one after the last."""
    pairs = [pair for pair in alignment if pair[0] < words]
    ends = [*(word for word, _ in pairs[1:]), words]
    return {
        symbol: (first, word, end)
        for (word, symbol), first, end in zip(pairs, [0, *ends], ends, strict=False)
    }


@functools.lru_cache(maxsize=4096)
def _kind(symbol: str) -> tuple[Step | None, str]:
    """Returns the step and the label that a symbol stands for; None for no symbol."""
    match = _SYMBOL.fullmatch(symbol)
    if match is None:
        return None, ""
    if match["closed"]:
        return Step.CLOSE, match["closed"]
    return Step.WORD if match["tag"] else Step.OPEN, match["label"]


def _close(builder: TreeBuilder, label: str, repairs: Counter) -> None:
    """Ends the constituent that a closing symbol stands for; never the root, which has none."""
    labels = builder.open_labels[1:]
    if not labels:
        repairs["closed but never opened"] += 1
    elif label not in labels:
        repairs["closed by another label"] += 1
        _end(builder, repairs)
    else:
        inner = labels[::-1].index(label)
        for _ in range(inner + 1):
            _end(builder, repairs)
        repairs += Counter({"constituent not closed": inner})


def _end(builder: TreeBuilder, repairs: Counter) -> None:
    """Ends the innermost constituent; without words, it is dropped."""
    if not builder.close(keep_empty=False).children:
        repairs["constituent without words"] += 1
