"""Chunks of parallel text: what one worker turns into one shard."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from t2t_keras.data.text_files import read_lines


@dataclasses.dataclass(frozen=True)
class FileChunk:
    """Some lines of two parallel files; `first_line` counts from 1, offsets are in bytes.

    `repeated` has a bit for each pair: whether it came before, for the filter `duplicates`.
    """

    source: Path
    target: Path
    source_offset: int
    target_offset: int
    first_line: int
    count: int
    repeated: bytes = b""

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines."""
        sources = read_lines(self.source, self.source_offset, self.count)
        targets = read_lines(self.target, self.target_offset, self.count)
        return zip(sources, targets, strict=True)

    def place(self, index: int, side: int) -> str:
        """Returns "file:line" of the pair with this index in the chunk."""
        return f"{(self.source, self.target)[side].name}:{self.first_line + index}"


@dataclasses.dataclass(frozen=True)
class ExampleChunk:
    """Some pairs that a problem made; `first_line` counts from 1."""

    examples: tuple[tuple[str, str], ...]
    first_line: int
    repeated: bytes = b""

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.examples)

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines."""
        for source, target in self.examples:
            # A lone surrogate must be counted as invalid UTF-8 like any, not end the program.
            yield source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")

    def place(self, index: int, side: int) -> str:
        """Returns the name of the example with this index in the chunk."""
        return f"example:{self.first_line + index}"


Chunk = FileChunk | ExampleChunk


def with_repeated(chunk: Chunk, repeated: np.ndarray) -> Chunk:
    """Returns the chunk, told which of its pairs came before, bool [pairs]."""
    return dataclasses.replace(chunk, repeated=np.packbits(repeated).tobytes())


def repeated_pairs(chunk: Chunk) -> np.ndarray:
    """Returns which pairs of a chunk came before, bool [pairs]."""
    return np.unpackbits(np.frombuffer(chunk.repeated, np.uint8), count=chunk.count).astype(bool)
