"""Chunks of parallel text -> shards: the work of one t2t-datagen worker process.

What becomes of a chunk depends on the chunk alone, so the data is the same for any number of
workers.
"""

import dataclasses
import itertools
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from t2t_keras.data.shards import write_shard
from t2t_keras.data.text_files import read_lines
from t2t_keras.data.tokenizer import Tokenizer

# So many places (file:line) of each reason for leaving out are told.
PLACES_TOLD = 5


@dataclasses.dataclass(frozen=True)
class FileChunk:
    """Some lines of two parallel files; `first_line` counts from 1, offsets are in bytes."""

    source: Path
    target: Path
    source_offset: int
    target_offset: int
    first_line: int
    count: int

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines, from the pair `skip` on each `every`-th."""
        sources = read_lines(self.source, self.source_offset, self.count)
        targets = read_lines(self.target, self.target_offset, self.count)
        return itertools.islice(zip(sources, targets, strict=True), skip, None, every)

    def place(self, index: int, side: int) -> str:
        """Returns "file:line" of the pair with this index in the chunk."""
        return f"{(self.source, self.target)[side].name}:{self.first_line + index}"


@dataclasses.dataclass(frozen=True)
class ExampleChunk:
    """Some pairs that a problem made; `first_line` counts from 1."""

    examples: tuple[tuple[str, str], ...]
    first_line: int

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


class Chunk(Protocol):
    """Some pairs, as a `FileChunk` and an `ExampleChunk` are."""

    count: int

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target lines, from the pair `skip` on each `every`-th."""

    def place(self, index: int, side: int) -> str:
        """Returns "file:line" of the pair with this index in the chunk."""


@dataclasses.dataclass
class LeftOut:
    """Pairs left out for one reason: how many, and where the first ones are."""

    count: int = 0
    first: list[str] = dataclasses.field(default_factory=list)

    def add(self, count: int, places: list[str]) -> None:
        """Adds more of them."""
        self.count += count
        self.first += places[: PLACES_TOLD - len(self.first)]


@dataclasses.dataclass
class Shard:
    """What a worker tells about the shard that it wrote.

    `lines` are the sources and the targets of the shard, kept for dev and test only.
    """

    stem: str
    files: dict[str, dict]
    examples: int
    tokens: tuple[int, int]
    left_out: dict[str, LeftOut]
    lines: tuple[list[str], list[str]] = ((), ())


@dataclasses.dataclass(frozen=True)
class ShardEncoder:
    """Turns chunks into shards.

    Attributes:
      tokenizer: the vocabulary.
      directory: where the shards go.
      max_pair_length: training pairs with a longer side, in tokens, are left out.
    """

    tokenizer: Tokenizer
    directory: Path
    max_pair_length: int

    def __call__(self, chunk: Chunk, split: str, number: int) -> Shard:
        """Encodes a chunk, writes it as shard `number` of `split`, and tells what was left out."""
        left_out: dict[str, LeftOut] = {}
        places, lines = self._usable(chunk, left_out)
        ids = tuple(self.tokenizer.encode(side) for side in lines)
        if split == "train":
            # Only here: a dev or test set without its long sentences would be another test.
            ids = self._without_long(chunk, places, ids, left_out)
        stem = f"{split}-{number:05d}"
        files = write_shard(self.directory, stem, *ids, self.tokenizer.vocab_size)
        return Shard(
            stem=stem,
            files=files,
            examples=len(ids[0]),
            tokens=tuple(sum(map(len, side)) for side in ids),
            left_out=left_out,
            lines=((), ()) if split == "train" else lines,
        )

    def _usable(
        self, chunk: Chunk, left_out: dict[str, LeftOut]
    ) -> tuple[list[int], tuple[list[str], list[str]]]:
        """Returns the index in the chunk and the text of each pair that is text on both sides."""
        indices, sources, targets = [], [], []
        for index, pair in enumerate(chunk.pairs()):
            texts = [_decoded(line) for line in pair]
            fault = _fault(texts)
            if fault is None:
                indices.append(index)
                sources.append(texts[0])
                targets.append(texts[1])
            else:
                reason, side = fault
                left_out.setdefault(reason, LeftOut()).add(1, [chunk.place(index, side)])
        return indices, (sources, targets)

    def _without_long(
        self,
        chunk: Chunk,
        indices: list[int],
        ids: tuple[list[np.ndarray], list[np.ndarray]],
        left_out: dict[str, LeftOut],
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        kept = []
        for row, (index, *pair) in enumerate(zip(indices, *ids, strict=True)):
            long = [len(side) > self.max_pair_length for side in pair]
            if any(long):
                reason = f"longer than max_pair_length={self.max_pair_length} tokens"
                entry = left_out.setdefault(reason, LeftOut())
                entry.add(1, [chunk.place(index, long.index(True))])
            else:
                kept.append(row)
        return tuple([side[row] for row in kept] for side in ids)


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _fault(texts: list[str | None]) -> tuple[str, int] | None:
    """Returns why a pair cannot be used and the side at fault (0 source, 1 target), if it is."""
    if None in texts:
        return "with invalid UTF-8", texts.index(None)
    for side, text in enumerate(texts):
        if not text.strip():
            return "with an empty line", side
        if "\n" in text:
            return "with a line break inside", side
    return None


_encoder: ShardEncoder | None = None


def start_worker(encoder: ShardEncoder) -> None:
    """Prepares a worker process, which ends with its parent even when that one is killed."""
    global _encoder
    _encoder = encoder
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def encode_in_worker(chunk: Chunk, split: str, number: int) -> Shard:
    """Calls the encoder of this worker process."""
    return _encoder(chunk, split, number)
