"""Trees as sequences of symbols, as tensor2tensor's parsers wrote them, and back.

(S (NP (NNP John)) (VP (VBZ runs))) becomes S NP NNP /NP VP VBZ /VP /S: words are left out, and
each leaves its tag. Here the symbols have brackets, (S (NP (NNP) /NP) (VP (VBZ) /VP) /S), which no
word of a tree can hold: a word "NP" or "/NP" in the text is never taken for a symbol, nor a tag
for a constituent. The root, TOP, is left out.
"""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from t2t_keras.trees.tree import ROOT, Step, Tree, TreeBuilder, walk

# The tag of a word that the model gave none, as the Penn Treebank's guidelines have it.
UNKNOWN_TAG = "XX"

# The kinds of repairs.
EMPTY_OUTPUT = "empty output"
UNKNOWN_SYMBOL = "symbol that is none"
EXTRA_TAG = "tag without a word"
MISSING_TAG = "word without a tag"
EXTRA_CLOSING = "closed but never opened"
MISSING_CLOSING = "opened but not closed"
OTHER_CLOSING = "closed by another label"
EMPTY_BRACKET = "bracket without words"

_SYMBOL = re.compile(r"\((?P<label>[^\s()]+)(?P<tag>\))?|/(?P<closed>[^\s()]+)\)", re.ASCII)
_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def opening(label: str) -> str:
    """Returns the symbol that begins a constituent."""
    return f"({label}"


def closing(label: str) -> str:
    """Returns the symbol that ends a constituent."""
    return f"/{label})"


def tag(label: str) -> str:
    """Returns the symbol of a word's tag."""
    return f"({label})"


def symbols(tree: Tree) -> list[str]:
    """Returns a tree as symbols, its root left out if that is TOP."""
    spelled = {Step.OPEN: opening, Step.WORD: tag, Step.CLOSE: closing}
    found = [spelled[step](node.label) for step, node in walk(tree)]
    return found[1:-1] if tree.label == ROOT and not tree.word else found


def is_tag(symbol: str, known: Collection[str] = ()) -> bool:
    """Returns whether a symbol is that of a word's tag; `known` as for `rebuilt`."""
    return _kind(symbol, known)[0] is Step.WORD


def vocabulary_symbols(constituents: Iterable[str], tags: Iterable[str]) -> list[str]:
    """Returns all symbols of some labels, sorted."""
    labels = set(constituents) - {ROOT}
    return sorted({*map(opening, labels), *map(closing, labels), *map(tag, tags)})


def symbols_among(pieces: Iterable[str]) -> frozenset[str]:
    """Returns the symbols among the pieces of a vocabulary, which begin with its sign for a space.

    Words have no brackets, so no learned piece looks like a symbol.
    """
    return frozenset(piece[1:] for piece in pieces if _SYMBOL.fullmatch(piece[1:]))


def words_of(line: str) -> list[str]:
    """Returns the words of a line, divided by ASCII white space, brackets as -LRB- and -RRB-."""
    return symbols_of(line.translate(_ESCAPES))


def symbols_of(output: str) -> list[str]:
    """Returns what a model wrote, divided as `words_of`: alignments count both sides alike."""
    return re.findall(r"\S+", output, re.ASCII)


def rebuilt(
    output: Sequence[str],
    words: Sequence[str],
    known: Collection[str] = (),
    alignment: Sequence[tuple[int, int]] | None = None,
) -> tuple[Tree, Counter]:
    """Returns the tree over some words that symbols describe, whatever the symbols are.

    Where they describe none, they are repaired: what closes an outer constituent closes the inner
    ones as well; what closes a label that is not open closes the innermost one; words without a
    tag get XX, and stand behind the word before, at the start before the first one with a tag; tags
    without a word and constituents without words go.

    Args:
      output: the symbols.
      words: the words, in their order.
      known: the symbols that there are; () = all that are spelled as one. A model can write a piece
        of a word right behind a bracket, and make up the label "NPdog".
      alignment: pairs (word, symbol), both rising: which word each tag is of. A tag that is in none
        has no word. None: the tags are those of one word after the other.

    Returns:
      The tree, its root TOP, with exactly these words; and the number of repairs of each kind.
    """
    builder = TreeBuilder()
    builder.open(ROOT)
    repairs: Counter = Counter()
    if alignment is None:
        tags = (number for number, symbol in enumerate(output) if is_tag(symbol, known))
        alignment = list(enumerate(tags))
    places = _places(alignment, len(words))
    if not output and words:
        repairs[EMPTY_OUTPUT] += 1
    for number, symbol in enumerate(output):
        kind, label = _kind(symbol, known)
        if kind is Step.OPEN:
            builder.open(label)
        elif kind is Step.CLOSE:
            _close(builder, label, repairs)
        elif kind is None:
            repairs[UNKNOWN_SYMBOL] += 1
        elif number in places:
            first, tagged, end = places[number]
            for place in range(first, end):
                word_tag = label if place == tagged else UNKNOWN_TAG
                builder.add(Tree(word_tag, (), words[place]))
        else:
            repairs[EXTRA_TAG] += 1
    if not places:
        for word in words:
            builder.add(Tree(UNKNOWN_TAG, (), word))
    if untagged := len(words) - len(places):
        repairs[MISSING_TAG] += untagged
    while builder.depth > 1:
        _end(builder, repairs)
        repairs[MISSING_CLOSING] += 1
    return builder.discard(), repairs


def _places(alignment: Sequence[tuple[int, int]], words: int) -> dict[int, tuple[int, int, int]]:
    """Returns, for each tag, the words to put at its place: the first, the tag's own, the end."""
    alignment = [pair for pair in alignment if pair[0] < words]
    ends = [*(word for word, _ in alignment[1:]), words]
    firsts = [0, *ends]
    return {
        symbol: (first, word, end)
        for (word, symbol), first, end in zip(alignment, firsts, ends, strict=False)
    }


def _kind(symbol: str, known: Collection[str]) -> tuple[Step | None, str]:
    """Returns what a symbol says, with the label; None where it is none."""
    return (None, "") if known and symbol not in known else _read(symbol)


@functools.lru_cache(maxsize=4096)
def _read(symbol: str) -> tuple[Step | None, str]:
    """Returns what a symbol says, with the label; None where it is no symbol."""
    match = _SYMBOL.fullmatch(symbol)
    if match is None:
        return None, ""
    if match["closed"]:
        return Step.CLOSE, match["closed"]
    return Step.WORD if match["tag"] else Step.OPEN, match["label"]


def _close(builder: TreeBuilder, label: str, repairs: Counter) -> None:
    """Ends the constituent that a closing symbol means."""
    if builder.depth == 1:
        # The root, which has no symbol.
        repairs[EXTRA_CLOSING] += 1
        return
    if label == builder.open_labels[-1]:
        _end(builder, repairs)
        return
    labels = builder.open_labels[1:]
    if label not in labels:
        repairs[OTHER_CLOSING] += 1
        _end(builder, repairs)
        return
    for inner in reversed(labels):
        _end(builder, repairs)
        if inner == label:
            return
        repairs[MISSING_CLOSING] += 1


def _end(builder: TreeBuilder, repairs: Counter) -> None:
    if builder.close_or_drop():
        repairs[EMPTY_BRACKET] += 1
