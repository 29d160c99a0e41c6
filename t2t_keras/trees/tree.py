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
      open_labels: of the open constituents, the innermost last.
    """

    def __init__(self):
        self.roots: list[Tree] = []
        self.open_labels: list[str] = []
        # The children of each open constituent, below all of them the complete trees.
        self._children: list[list[Tree]] = [self.roots]

    @property
    def depth(self) -> int:
        """How many constituents are open."""
        return len(self.open_labels)

    def open(self, label: str) -> None:
        """Begins a constituent below the innermost open one."""
        self.open_labels.append(label)
        self._children.append([])

    def add(self, tree: Tree) -> None:
        """Adds a word or a whole tree to the innermost open constituent."""
        self._children[-1].append(tree)

    def close(self) -> Tree:
        """Ends the innermost open constituent, adds it to the one above, and returns it."""
        tree = self.discard()
        self._children[-1].append(tree)
        return tree

    def discard(self) -> Tree:
        """Ends the innermost open constituent, and returns it without adding it anywhere."""
        return Tree(self.open_labels.pop(), tuple(self._children.pop()))

    def close_or_drop(self) -> bool:
        """Ends the innermost open constituent, and drops it if it is empty; returns whether."""
        tree = self.discard()
        if tree.children:
            self._children[-1].append(tree)
        return not tree.children
