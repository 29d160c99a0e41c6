"""Chunks of parallel text -> shards: the work of one t2t-datagen worker process.

What becomes of a chunk depends on the chunk alone, so the data is the same for any number of
workers.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from t2t_keras.data.chunks import Chunk
from t2t_keras.data.filters import Languages
from t2t_keras.data.shards import write_shard
from t2t_keras.data.tokenizer import Tokenizer

# So many places (file:line) of each reason for leaving out are told.
PLACES_TOLD = 5


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
      filters: names of the filters that training pairs pass.
      max_length_ratio: of the filter `length_ratio`.
      languages: codes of source and target, for the filter `language`.
    """

    tokenizer: Tokenizer
    directory: Path
    max_pair_length: int
    filters: tuple[str, ...] = ()
    max_length_ratio: float = 3.0
    languages: tuple[str, str] = ("", "")

    def __call__(self, chunk: Chunk, split: str, number: int) -> Shard:
        """Encodes a chunk, writes it as shard `number` of `split`, and tells what was left out."""
        pairs = _Pairs(chunk)
        # Only there: a dev or test set without some of its sentences would be another test.
        if split == "train":
            self._filter_text(pairs)
        ids = tuple(self.tokenizer.encode(side) for side in pairs.sides)
        if split == "train":
            ids = self._filter_lengths(pairs, ids)
        stem = shard_stem(split, number)
        files = write_shard(self.directory, stem, *ids, self.tokenizer.vocab_size)
        return Shard(
            stem=stem,
            files=files,
            examples=len(ids[0]),
            tokens=tuple(sum(map(len, side)) for side in ids),
            left_out=pairs.left_out,
            lines=((), ()) if split == "train" else pairs.sides,
        )

    def _filter_text(self, pairs: "_Pairs") -> None:
        if "duplicates" in self.filters:
            repeated = pairs.chunk.repeated()[pairs.indices]
            pairs.leave_out("that came before", repeated)
        if "identical" in self.filters:
            stripped = ([text.strip() for text in side] for side in pairs.sides)
            same = list(map(str.__eq__, *stripped))
            pairs.leave_out("with identical sides", same)
        if "language" in self.filters:
            others = Languages(self.languages).other(*pairs.sides)
            pairs.leave_out("in another language", others)

    def _filter_lengths(self, pairs: "_Pairs", ids: tuple[list, list]) -> tuple[list, list]:
        lengths = np.array([list(map(len, side)) for side in ids], np.int64).reshape(2, -1)
        longer = lengths[1] > lengths[0]
        reason = f"longer than max_pair_length={self.max_pair_length} tokens"
        kept = pairs.leave_out(
            reason, lengths.max(axis=0) > self.max_pair_length, lengths[0] <= self.max_pair_length
        )
        if "length_ratio" in self.filters:
            # Without EOS.
            shortest, longest = np.sort(lengths[:, kept] - 1, axis=0)
            uneven = longest > self.max_length_ratio * shortest
            reason = f"with a side over {self.max_length_ratio:g} times as long as the other"
            kept = kept[pairs.leave_out(reason, uneven, longer[kept])]
        if len(kept) == len(ids[0]):
            return ids
        return tuple([side[row] for row in kept] for side in ids)


def shard_stem(split: str, number: int) -> str:
    """Returns the name of a shard."""
    return f"{split}-{number:05d}"


class _Pairs:
    """The pairs of a chunk that are not left out.

    Attributes:
      chunk: where they come from.
      indices: of each pair in the chunk.
      sides: their sources and targets.
      left_out: how many were left out, by reason.
    """

    def __init__(self, chunk: Chunk):
        self.chunk = chunk
        self.left_out: dict[str, LeftOut] = {}
        indices, sources, targets = [], [], []
        for index, (source, target) in enumerate(chunk.pairs()):
            try:
                pair = source.decode("utf-8"), target.decode("utf-8")
            except UnicodeDecodeError:
                pair = _decoded(source), _decoded(target)
            fault = _fault(pair)
            if fault is None:
                indices.append(index)
                sources.append(pair[0])
                targets.append(pair[1])
            else:
                reason, side = fault
                self.left_out.setdefault(reason, LeftOut()).add(1, [chunk.place(index, side)])
        self.indices = np.array(indices, np.int64)
        self.sides = (sources, targets)

    def leave_out(
        self, reason: str, faulty: Sequence[bool], at_target: Sequence[bool] | None = None
    ) -> np.ndarray:
        """Leaves out the faulty pairs and counts them.

        Args:
          reason: what is told.
          faulty: for each pair that is there still, whether it is left out.
          at_target: for each pair, whether its fault is told as that of its target.

        Returns:
          The rows that stay.
        """
        faulty = np.asarray(faulty, bool)
        rows = np.flatnonzero(faulty)
        kept = np.flatnonzero(~faulty)
        if len(rows):
            sides = np.zeros(len(faulty), int) if at_target is None else at_target
            places = [
                self.chunk.place(int(self.indices[row]), int(sides[row]))
                for row in rows[:PLACES_TOLD]
            ]
            self.left_out.setdefault(reason, LeftOut()).add(len(rows), places)
            self.indices = self.indices[kept]
            self.sides = tuple(list(itertools.compress(side, ~faulty)) for side in self.sides)
        return kept


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _fault(pair: tuple[str | None, str | None]) -> tuple[str, int] | None:
    """Returns why a pair cannot be used and the side at fault (0 source, 1 target), if it is."""
    if None in pair:
        return "with invalid UTF-8", pair.index(None)
    for side, text in enumerate(pair):
        if not text or text.isspace():
            return "with an empty side", side
        if "\n" in text:
            return "with a line break inside", side
    return None
