"""Chunks of parallel text -> shards: the work of one t2t-datagen worker process.

A shard depends on its chunk alone, so the data is the same for any number of workers.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.chunks import Chunk
from t2t_keras.data.filters import in_other_language
from t2t_keras.data.shards import write_shard
from t2t_keras.io.state import write_json
from t2t_keras.text.tokenizer import Tokenizer

# Number of locations (file:line) that are shown for each reason to leave out pairs.
_LOCATIONS = 5

# A shard's record, and for dev and test its sources and targets.
Encoded = tuple[dict[str, Any], list[list[str]]]


@dataclasses.dataclass(frozen=True)
class ShardEncoder:
    """Turns chunks into shards.

    Attributes:
      tokenizer: the vocabulary.
      directory: of the shards.
      max_pair_length: training pairs with a longer side, in tokens, are left out.
      filters: names of the filters of training pairs.
      max_length_ratio: of the filter `length_ratio`.
      languages: codes of source and target.
    """

    tokenizer: Tokenizer
    directory: Path
    max_pair_length: int
    filters: tuple[str, ...]
    max_length_ratio: float
    languages: tuple[str, str]

    def __call__(self, chunk: Chunk, split: str, number: int, duplicates: bytes = b"") -> Encoded:
        """Encodes a chunk and writes it as a shard.

        Args:
          chunk: the text.
          split: only training pairs are filtered, as a dev or test set without some of its
            sentences would be another one.
          number: of the shard.
          duplicates: for the filter `duplicates`, a bit for each pair of the chunk.

        Returns:
          The shard's record, which is also written to `<stem>.json`, and for dev and test the
          sources and targets.
        """
        pairs = _Pairs(chunk)
        train = split == "train"
        if train:
            self._filter_text(pairs, duplicates)
        pairs.columns += [self.tokenizer.encode(side) for side in pairs.columns]
        if train:
            self._filter_lengths(pairs)
        *text, sources, targets = pairs.columns
        stem = shard_stem(split, number)
        record = {
            "stem": stem,
            "files": write_shard(self.directory, stem, sources, targets, self.tokenizer.vocab_size),
            "examples": len(sources),
            "source_tokens": sum(map(len, sources)),
            "target_tokens": sum(map(len, targets)),
            "left_out": pairs.left_out,
        }
        write_json(self.directory / f"{stem}.json", record)
        return record, ([[], []] if train else text)

    def _filter_text(self, pairs: "_Pairs", duplicates: bytes) -> None:
        if "duplicates" in self.filters:
            repeated = np.unpackbits(np.frombuffer(duplicates, np.uint8))
            pairs.leave_out("that came before", repeated[pairs.indices])
        if "identical" in self.filters:
            stripped = ([text.strip() for text in side] for side in pairs.columns)
            pairs.leave_out("with identical sides", list(map(str.__eq__, *stripped)))
        if "language" in self.filters:
            sides = map(in_other_language, pairs.columns, self.languages)
            pairs.leave_out("in another language", np.logical_or(*sides))

    def _filter_lengths(self, pairs: "_Pairs") -> None:
        lengths = np.array([list(map(len, side)) for side in pairs.columns[2:]], np.int64)
        reason = f"longer than max_pair_length={self.max_pair_length} tokens"
        longest = lengths.max(axis=0)
        at_target = lengths[0] <= self.max_pair_length
        lengths = lengths[:, pairs.leave_out(reason, longest > self.max_pair_length, at_target)]
        if "length_ratio" in self.filters:
            # Without EOS.
            shortest, longest = np.sort(lengths - 1, axis=0)
            uneven = longest > self.max_length_ratio * shortest
            reason = f"with a side over {self.max_length_ratio:g} times as long as the other"
            pairs.leave_out(reason, uneven, lengths[1] > lengths[0])


def shard_stem(split: str, number: int) -> str:
    """Returns the name of a shard."""
    return f"{split}-{number:05d}"


def add_left_out(total: dict[str, Any], reason: str, count: int, first: Sequence[str]) -> None:
    """Counts pairs that are left out for a reason, and keeps where the first of all are."""
    entry = total.setdefault(reason, {"count": 0, "first": []})
    entry["count"] += count
    entry["first"] += first[: _LOCATIONS - len(entry["first"])]


class _Pairs:
    """The pairs of a chunk that are not left out.

    Attributes:
      indices: of each pair in the chunk, int64 [pairs].
      columns: lists of a value for each pair: sources, targets, and what is added.
      left_out: {reason: {"count": pairs, "first": locations}}.
    """

    def __init__(self, chunk: Chunk):
        self._chunk = chunk
        self.left_out: dict[str, Any] = {}
        indices, sources, targets = [], [], []
        for index, (source, target) in enumerate(chunk.pairs()):
            try:
                pair = source.decode("utf-8"), target.decode("utf-8")
                fault = _fault(pair)
            except UnicodeDecodeError as error:
                fault = "with invalid UTF-8", int(error.object != source)
            if fault is None:
                indices.append(index)
                sources.append(pair[0])
                targets.append(pair[1])
            else:
                reason, side = fault
                add_left_out(self.left_out, reason, 1, [chunk.location(index, side)])
        self.indices = np.array(indices, np.int64)
        self.columns = [sources, targets]

    def leave_out(
        self, reason: str, faulty: Sequence[bool], at_target: Sequence[bool] | None = None
    ) -> np.ndarray:
        """Leaves out pairs and counts them.

        Args:
          reason: as printed.
          faulty: for each pair that is left so far, whether it is left out.
          at_target: for each of them, whether the location of its target is shown.

        Returns:
          For each of them whether it stays: bool [pairs].
        """
        faulty = np.asarray(faulty, bool)
        rows = np.flatnonzero(faulty)
        if len(rows):
            sides = np.zeros(len(faulty), int) if at_target is None else at_target
            first = [
                self._chunk.location(int(self.indices[row]), int(sides[row]))
                for row in rows[:_LOCATIONS]
            ]
            add_left_out(self.left_out, reason, len(rows), first)
            self.indices = self.indices[~faulty]
            self.columns = [list(itertools.compress(side, ~faulty)) for side in self.columns]
        return ~faulty


def _fault(pair: tuple[str, str]) -> tuple[str, int] | None:
    """Returns why a pair cannot be used and the side at fault (0 source, 1 target), if it is."""
    for side, text in enumerate(pair):
        if not text or text.isspace():
            return "with an empty side", side
        if "\n" in text:
            return "with a line break inside", side
        if "\0" in text:
            return "with a NUL byte", side
    return None
