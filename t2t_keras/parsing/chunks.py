"""Chunks of treebanks for t2t-datagen, which workers read: sentences as sources, trees as targets.

So that millions of trees are never in memory together, a chunk says only where its trees begin.
"""

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.parsing.symbols import symbols, symbols_in
from t2t_keras.parsing.tree import words
from t2t_keras.parsing.treebank import TreeText, cleaned, tree_texts, trees_of
from t2t_keras.text.files import line_name
from t2t_keras.text.sources import OfCorpus


class Span(NamedTuple):
    """Some trees of a file: the byte and the line (from 1) where they begin, and their number."""

    path: Path
    offset: int
    line: int
    count: int


@dataclasses.dataclass(frozen=True)
class TreeChunk(OfCorpus):
    """Some trees, of one file or of several."""

    spans: tuple[Span, ...]
    symbols: frozenset[str]  # What they are written in.

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

        Of the trees from `skip` on it takes every `every`-th.
        """
        for path, text in itertools.islice(self._texts(), skip, None, every):
            for tree in trees_of(text, path):
                clean = cleaned(tree)
                pair = (" ".join(words(clean)), " ".join(symbols(clean))) if clean else ("", "")
                yield tuple(side.encode("utf-8") for side in pair)

    def location(self, index: int, side: int) -> str:
        """Returns "folder/file:line" of the pair with this index in the chunk."""
        return self._locations[index]

    def _texts(self) -> Iterator[tuple[Path, TreeText]]:
        for path, offset, line, count in self.spans:
            for text in itertools.islice(tree_texts(path, offset, line), count):
                yield path, text

    @functools.cached_property
    def _locations(self) -> list[str]:
        return [
            line_name(path, text.line) for path, text in self._texts() for _ in trees_of(text, path)
        ]


def tree_chunks(paths: Iterable[Path], chunk_trees: int) -> list[TreeChunk]:
    """Divides the trees of some files into chunks of at most so many; raises as `tree_texts`."""
    chunks = []
    texts = ((path, text) for path in paths for text in tree_texts(path))
    while chunk := list(itertools.islice(texts, chunk_trees)):
        spans = []
        for path, group in itertools.groupby(chunk, key=operator.itemgetter(0)):
            (_, first), *rest = group
            spans.append(Span(path, first.offset, first.line, 1 + len(rest)))
        written_in = symbols_in(b"".join(text.text for _, text in chunk))
        chunks.append(TreeChunk(tuple(spans), written_in))
    return chunks
