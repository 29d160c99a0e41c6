"""Constituency trees without recursion: models write deeper brackets than Python allows calls."""

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# The label above a whole sentence, as in (TOP (S ...)).
ROOT = "TOP"


class Tree(NamedTuple):
    """A constituent, or a word with its tag."""

    label: str  # Of the constituent, e.g. "NP"; or the tag of the word, e.g. "NN".
    children: tuple["Tree", ...] = ()  # From left to right; none below a word.
    word: str = ""  # "" for a constituent.


class Step(enum.Enum):
    """A step of a walk through a tree."""

    OPEN = enum.auto()
    WORD = enum.auto()
    CLOSE = enum.auto()


def walk(tree: Tree) -> Iterator[tuple[Step, Tree]]:
    """Yields the nodes in the order of the text: OPEN and CLOSE of constituents, and WORDs."""
    open_step, word_step, close_step = Step
    stack: list[Tree | None] = [tree]
    opened: list[Tree] = []
    while stack:
        node = stack.pop()
        if node is None:
            yield close_step, opened.pop()
        elif node.word:
            yield word_step, node
        else:
            yield open_step, node
            opened.append(node)
            stack.append(None)
            stack.extend(node.children[::-1])


def leaves(tree: Tree) -> list[Tree]:
    """Returns the words with their tags, from left to right."""
    return [node for step, node in walk(tree) if step is Step.WORD]


def words(tree: Tree) -> list[str]:
    """Returns the words, from left to right."""
    return [leaf.word for leaf in leaves(tree)]


def bracketed(tree: Tree) -> str:
    """Returns the tree on one line, as treebanks have it: (TOP (NP (NN Results)))."""
    spelling = {Step.OPEN: " ({0}", Step.WORD: " ({0} {1})", Step.CLOSE: ")"}
    parts = (spelling[step].format(node.label, node.word) for step, node in walk(tree))
    return "".join(parts)[1:]


def retagged(tree: Tree, tags: Iterable[str]) -> Tree:
    """Returns a tree with other tags on its words."""
    builder, remaining = TreeBuilder(), iter(tags)
    for step, node in walk(tree):
        if step is Step.OPEN:
            builder.open(node.label)
        elif step is Step.CLOSE:
            builder.close()
        else:
            builder.add(Tree(next(remaining), (), node.word))
    return builder.roots[0]


class TreeBuilder:
    """Makes trees from left to right."""

    def __init__(self):
        self.roots: list[Tree] = []  # The complete trees.
        self.open_labels: list[str] = []  # Of the open constituents, the innermost last.
        # The children of each open constituent, below all of them the complete trees.
        self._children: list[list[Tree]] = [self.roots]

    def open(self, label: str) -> None:
        """Begins a constituent."""
        self.open_labels.append(label)
        self._children.append([])

    def add(self, tree: Tree) -> None:
        """Adds a word or a whole tree to the innermost open constituent."""
        self._children[-1].append(tree)

    def close(self, keep_empty: bool = True) -> Tree:
        """Ends the innermost open constituent, adds it where it stands, and returns it."""
        tree = Tree(self.open_labels.pop(), tuple(self._children.pop()))
        if tree.children or keep_empty:
            self.add(tree)
        return tree
