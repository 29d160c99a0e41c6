"""Files of bracketed trees, as the Penn Treebank has them, and what is left out of its trees.

NLTK would read the brackets, but it takes `(NN two words)` for a tree, its errors know no file and
no line, and it is 23 MB and four more packages for what is a page here.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.trees.tree import ROOT, Step, Tree, TreeBuilder, walk

# Longer than any sentence: a tree that is not closed must not take the rest of a file into memory.
MAX_TREE_BYTES = 1_000_000

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A tagged word in one piece, since most of a tree is that; an opening; a closing; anything else.
# ASCII: a word may hold a non-breaking space.
_TOKEN = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\s*\)|\(([^\s()]*)|(\))|([^\s()]+)", re.ASCII)
_WORD, _OPENING, _CLOSING = 2, 3, 4
_EMPTY_ELEMENT = "-NONE-"
# What may stand for the root; some parsers write one of the named ones.
_ROOT_LABELS = {"", ROOT, "ROOT", "S1"}
# With what follows it, without taking that away: a bracket makes it a constituent's.
_LABEL = re.compile(rb"\(([^\s()]*)\s*(?=(\()?)")


class TreeText(NamedTuple):
    """Some lines of a file that hold whole trees, nearly always one.

    Attributes:
      line: number of the first line, from 1.
      offset: byte position of that line.
      text: the lines.
    """

    line: int
    offset: int
    text: bytes


def tree_texts(path: Path, offset: int = 0, line: int = 1) -> Iterator[TreeText]:
    """Yields the trees of a file as they stand in it; blank lines between them are left out.

    Args:
      path: the file.
      offset: byte position to begin at, where a `TreeText` begins.
      line: number of the line there.

    Raises:
      UserError: the file cannot be read, or brackets do not pair, with file and line.
    """
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            yield from _balanced(file, path, offset, line)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def _balanced(file, path: Path, offset: int, line: int) -> Iterator[TreeText]:
    held: list[bytes] = []
    depth = size = 0
    begin = offset
    first = line
    for number, text in enumerate(file, line):
        if not held:
            begin, first, size = offset, number, 0
        offset += len(text)
        if begin == 0 and not held:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        if not held and not text.strip():
            continue
        depth += text.count(b"(") - text.count(b")")
        held.append(text)
        size += len(text)
        if depth < 0:
            raise UserError(
                f"{path}:{number}: a bracket is closed here that was never opened. Repair the tree."
            )
        if not depth:
            yield TreeText(first, begin, b"".join(held))
            held = []
        elif size > MAX_TREE_BYTES:
            break
    if held:
        missing = "1 bracket is" if depth == 1 else f"{depth} brackets are"
        raise UserError(
            f"{path}:{first}: the tree that begins here does not end: {missing} still open in "
            f"line {first + len(held) - 1}. Repair the tree."
        )


def trees_of(text: TreeText, path: Path | str) -> list[Tree]:
    """Returns the trees in some lines of a file, as they stand there.

    The outermost bracket may have no label, and any may be empty.

    Raises:
      UserError: the lines are not UTF-8, or no trees, with file and line.
    """
    try:
        decoded = text.text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.line + text.text.count(b"\n", 0, error.start)
        raise UserError(f"{path}:{line} is not UTF-8. Convert the file to UTF-8.") from error
    try:
        return parsed(decoded, labelled=True)
    except TreeError as error:
        line = text.line + decoded.count("\n", 0, error.position)
        raise UserError(f"{path}:{line}: {error}. Repair the tree.") from error


class TreeError(Exception):
    """A text that holds no trees.

    Attributes:
      position: the character at which that shows.
    """

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


def parsed(text: str, labelled: bool = False) -> list[Tree]:
    """Returns the trees in a text.

    Args:
      text: any text.
      labelled: whether brackets inside a tree need a label, if anything is in them.

    Raises:
      TreeError: brackets do not pair, or what stands in them is no tree.
    """
    builder = TreeBuilder()
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind == _WORD:
            builder.add(Tree(match[1], (), match[2]))
        elif kind == _OPENING:
            builder.open(match[3])
        elif kind == _CLOSING:
            if not builder.depth:
                raise TreeError("a bracket is closed that was never opened", match.start())
            tree = builder.close()
            if labelled and tree.children and not tree.label and builder.depth:
                raise TreeError("a bracket inside a tree has no label", match.start())
        else:
            where = "in a bracket of more than a tag and it" if builder.depth else "outside a tree"
            raise TreeError(f"the word '{match[0]}' stands {where}", match.start())
    if builder.depth:
        raise TreeError(f"{builder.depth} brackets are not closed", len(text))
    return builder.roots


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yields all trees of a file as they stand there, one at a time.

    Raises:
      UserError: the file cannot be read, or holds what is no tree, with file and line.
    """
    for text in tree_texts(Path(path)):
        yield from trees_of(text, path)


def cleaned(tree: Tree) -> Tree | None:
    """Returns a treebank's tree as parsers are trained on it, below `TOP`.

    Traces and other empty elements go, with every constituent that has no other words; functions
    and indices are cut from labels (NP-SBJ-1 and NP=2 become NP). A constituent that is the only
    one in another of the same label stays, since the score counts both.

    Returns:
      The tree, or None if it has no words.
    """
    builder = TreeBuilder()
    builder.open(ROOT)
    rooted = not tree.word and tree.label in _ROOT_LABELS
    for step, node in walk(tree):
        if rooted and node is tree:
            continue
        if step is Step.OPEN:
            builder.open(category(node.label))
        elif step is Step.CLOSE:
            builder.close_or_drop()
        elif node.label != _EMPTY_ELEMENT:
            builder.add(Tree(category(node.label), (), node.word))
    root = builder.discard()
    return root if root.children else None


@functools.lru_cache(maxsize=4096)
def category(label: str) -> str:
    """Returns a label without functions and indices; those like -LRB- are labels as a whole."""
    return label if label[:1] in "-=" else label.partition("-")[0].partition("=")[0]


def labels(text: bytes) -> tuple[set[str], set[str]]:
    """Returns the categories of constituents and the tags of words in trees, read quickly."""
    constituents, tags = set(), set()
    for label, bracket in set(_LABEL.findall(text)):
        found = label.decode("utf-8", "replace")
        if found and found != _EMPTY_ELEMENT:
            (constituents if bracket else tags).add(category(found))
    return constituents, tags
