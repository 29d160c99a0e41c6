"""`Tree`: a constituency tree, and how to go through one and make one without recursion.

A model can write hundreds of brackets inside each other, which a recursive function would not
survive.
"""

import enum
from collections.abc import Iterator
from typing import NamedTuple

# The label above a whole sentence, as in (TOP (S ...)).
ROOT = "TOP"


class Tree(NamedTuple):
    """A constituent, or a word with its tag.

    Attributes:
      label: of the constituent, e.g. "NP"; or the tag of the word, e.g. "NN".
      children: the constituents and words below, in their order; none below a word.
      word: the word; "" for a constituent.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str = ""


class Step(enum.Enum):
    """What happens to a node on the way through a tree."""

    OPEN = enum.auto()
    WORD = enum.auto()
    CLOSE = enum.auto()


def walk(tree: Tree) -> Iterator[tuple[Step, Tree]]:
    """Yields the nodes in the order of the text: OPEN and CLOSE of constituents, and WORDs."""
    stack = [(tree, False)]
    while stack:
        node, closing = stack.pop()
        if closing:
            yield Step.CLOSE, node
        elif node.word:
            yield Step.WORD, node
        else:
            yield Step.OPEN, node
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def leaves(tree: Tree) -> list[Tree]:
    """Returns the words with their tags, from left to right."""
    return [node for step, node in walk(tree) if step is Step.WORD]


def words(tree: Tree) -> list[str]:
    """Returns the words, from left to right."""
    return [leaf.word for leaf in leaves(tree)]


def bracketed(tree: Tree) -> str:
    """Returns the tree on one line, as treebanks have it: (TOP (NP (NN Results)))."""
    parts = []
    for step, node in walk(tree):
        if step is Step.OPEN:
            parts.append(f" ({node.label}")
        elif step is Step.WORD:
            parts.append(f" ({node.label} {node.word})")
        else:
            parts.append(")")
    return "".join(parts)[1:]


class TreeBuilder:
    """Makes trees from left to right.

    Attributes:
      roots: the trees that are complete.
    """

    def __init__(self):
        self.roots: list[Tree] = []
        self._open: list[tuple[str, list[Tree]]] = []

    @property
    def depth(self) -> int:
        """How many constituents are open."""
        return len(self._open)

    def open_labels(self) -> list[str]:
        """Returns the labels of the open constituents, the innermost last."""
        return [label for label, _ in self._open]

    def open(self, label: str) -> None:
        """Begins a constituent below the innermost open one."""
        self._open.append((label, []))

    def add(self, tree: Tree) -> None:
        """Adds a word or a whole tree to the innermost open constituent."""
        (self._open[-1][1] if self._open else self.roots).append(tree)

    def close(self) -> Tree:
        """Ends the innermost open constituent, adds it to the one above, and returns it."""
        tree = self.discard()
        self.add(tree)
        return tree

    def discard(self) -> Tree:
        """Ends the innermost open constituent, and returns it without adding it anywhere."""
        label, children = self._open.pop()
        return Tree(label, tuple(children))

    def close_or_drop(self) -> bool:
        """Ends the innermost open constituent, and drops it if it is empty; returns whether."""
        tree = self.discard()
        if tree.children:
            self.add(tree)
        return not tree.children
