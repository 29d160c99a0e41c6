"""Chunks of parallel text: what one worker turns into one shard."""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from t2t_keras.data.text_files import line_name, read_lines


class Chunk(Protocol):
    """Some pairs, as a `FileChunk` and an `ExampleChunk` are.

    Attributes:
      count: number of pairs, about.
      paths: the files that they come from; none where they are held in memory.
    """

    count: int
    paths: tuple[Path, ...]

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines, from the pair `skip` on each `every`-th."""

    def place(self, index: int, side: int) -> str:
        """Returns "folder/file:line" of the pair with this index in the chunk."""


@dataclasses.dataclass(frozen=True)
class FileChunk:
    """Some lines of two parallel files; `first_line` counts from 1, offsets are in bytes."""

    source: Path
    target: Path
    source_offset: int
    target_offset: int
    first_line: int
    count: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """Both files."""
        return self.source, self.target

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines, from the pair `skip` on each `every`-th."""
        sources = read_lines(self.source, self.source_offset, self.count)
        targets = read_lines(self.target, self.target_offset, self.count)
        return itertools.islice(zip(sources, targets, strict=True), skip, None, every)

    def place(self, index: int, side: int) -> str:
        """Returns "folder/file:line" of the pair with this index in the chunk."""
        return line_name((self.source, self.target)[side], self.first_line + index)


@dataclasses.dataclass(frozen=True)
class ExampleChunk:
    """Some pairs that a problem made; `first_line` counts from 1."""

    examples: tuple[tuple[str, str], ...]
    first_line: int
    paths: tuple[Path, ...] = ()

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.examples)

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines, from the pair `skip` on each `every`-th."""
        for source, target in self.examples[skip::every]:
            # A lone surrogate must be counted as invalid UTF-8 like any, not end the program.
            yield source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")

    def place(self, index: int, side: int) -> str:
        """Returns the name of the example with this index in the chunk."""
        return f"example:{self.first_line + index}"


class ChunkWithRepeats:
    """A chunk, told which of its pairs came before.

    Args:
      chunk: any chunk.
      repeated: for each of its pairs, bool [pairs].
    """

    def __init__(self, chunk: Chunk, repeated: np.ndarray):
        self._chunk = chunk
        # A bit each: all chunks wait in memory for their workers.
        self._bits = np.packbits(repeated).tobytes()
        self._pairs = len(repeated)
        self.count, self.paths = chunk.count, chunk.paths
        self.pairs, self.place = chunk.pairs, chunk.place

    def repeated(self) -> np.ndarray:
        """Returns which pairs came before, bool [pairs]."""
        bits = np.unpackbits(np.frombuffer(self._bits, np.uint8), count=self._pairs)
        return bits.astype(bool)
