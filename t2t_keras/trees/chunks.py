"""Chunks of treebanks for t2t-datagen: sentences as sources, their trees as targets.

Files are gone through once to find where trees begin and which labels there are, and read again by
the workers, so that millions of trees are never in memory together.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.data.text_files import line_name
from t2t_keras.trees.symbols import symbols, vocabulary_symbols
from t2t_keras.trees.tree import words
from t2t_keras.trees.treebank import TreeText, cleaned, labels, tree_texts, trees_of


class Span(NamedTuple):
    """Some trees of a file: where they begin, in bytes and in lines from 1, and how many."""

    path: Path
    offset: int
    line: int
    count: int


@dataclasses.dataclass(frozen=True)
class TreeChunk:
    """Some trees, of one file or of several.

    Attributes:
      spans: where they are.
      constituents: the labels of their constituents.
      tags: the tags of their words.
    """

    spans: tuple[Span, ...]
    constituents: frozenset[str]
    tags: frozenset[str]

    @property
    def count(self) -> int:
        """Number of trees; two on one line count as one."""
        return sum(span.count for span in self.spans)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return tuple(span.path for span in self.spans)

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields sentences and their trees as symbols; both are empty where a tree has no words.

        Args:
          skip: so many trees are left out first.
          every: then all trees but each `every`-th.

        Raises:
          UserError: a tree that is none, with file and line.
        """
        for path, text in itertools.islice(self._texts(), skip, None, every):
            for tree in trees_of(text, path):
                clean = cleaned(tree)
                pair = (" ".join(words(clean)), " ".join(symbols(clean))) if clean else ("", "")
                yield tuple(side.encode("utf-8") for side in pair)

    def place(self, index: int, side: int) -> str:
        """Returns "folder/file:line" of the pair with this index in the chunk."""
        return self._places[index]

    def _texts(self) -> Iterator[tuple[Path, TreeText]]:
        for span in self.spans:
            texts = tree_texts(span.path, span.offset, span.line)
            for _, text in zip(range(span.count), texts, strict=False):
                yield span.path, text

    @functools.cached_property
    def _places(self) -> list[str]:
        return [
            line_name(path, text.line) for path, text in self._texts() for _ in trees_of(text, path)
        ]


def tree_chunks(paths: Iterable[Path], chunk_trees: int) -> list[TreeChunk]:
    """Divides the trees of some files into chunks of at most so many.

    Raises:
      UserError: a file cannot be read, or its brackets do not pair, with file and line.
    """
    chunks: list[TreeChunk] = []
    spans: list[Span] = []
    found: tuple[set[str], set[str]] = (set(), set())

    def finish() -> None:
        if spans:
            chunks.append(TreeChunk(tuple(spans), frozenset(found[0]), frozenset(found[1])))
        spans.clear()
        for each in found:
            each.clear()

    room = chunk_trees
    for path in paths:
        begin: TreeText | None = None
        count = 0
        for text in tree_texts(path):
            if not room:
                spans.extend([Span(path, begin.offset, begin.line, count)] if begin else [])
                finish()
                begin, count, room = None, 0, chunk_trees
            begin = begin or text
            count += 1
            room -= 1
            for known, more in zip(found, labels(text.text), strict=True):
                known |= more
        if begin:
            spans.append(Span(path, begin.offset, begin.line, count))
    finish()
    return chunks


def chunk_symbols(chunks: Iterable[TreeChunk]) -> list[str]:
    """Returns the symbols that the trees of some chunks are written in, sorted."""
    chunks = list(chunks)
    return vocabulary_symbols(
        frozenset().union(*(chunk.constituents for chunk in chunks)),
        frozenset().union(*(chunk.tags for chunk in chunks)),
    )
