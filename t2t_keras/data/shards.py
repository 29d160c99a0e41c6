"""Encoded examples on disk: NumPy arrays, memory-mapped and read in any order.

A shard is two files: `<stem>.tokens.npy`, 1-D, for every example its source ids then its target
ids, each ending in EOS; and `<stem>.lengths.npy`, int32 [examples, 2].
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from t2t_keras.io.atomic import write_atomically

SIDES = ("source", "target")


def write_shard(
    directory: Path,
    stem: str,
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    vocab_size: int,
) -> dict[str, dict]:
    """Writes one shard and returns the manifest's records of its two files, by file name.

    Ids include EOS; `vocab_size` decides the width of a token on disk.
    """
    dtype = np.uint16 if vocab_size <= 1 << 16 else np.int32
    ids = [side for pair in zip(sources, targets, strict=True) for side in pair]
    lengths = np.array([len(side) for side in ids], np.int32).reshape(-1, 2)
    tokens = np.concatenate([np.zeros(0, dtype), *ids], dtype=dtype, casting="unsafe")
    records = {}
    for name, array in (("tokens", tokens), ("lengths", lengths)):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        path = directory / f"{stem}.{name}.npy"
        records[path.name] = write_atomically(path, buffer.getvalue())
    return records


class ExampleStore:
    """The examples of one split, read at random from the memory-mapped arrays of its shards.

    Attributes:
      lengths: int32 [examples, 2], tokens of source and target, EOS included.
    """

    def __init__(self, tokens: Sequence[np.ndarray], lengths: Sequence[np.ndarray]):
        self._tokens = tokens
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        # Index of each shard's first example, and each example's first token within its shard.
        self._firsts = np.cumsum([0, *map(len, lengths)])[:-1]
        totals = [shard.sum(axis=1, dtype=np.int64) for shard in lengths]
        starts = [np.cumsum(shard) - shard for shard in totals]
        self._starts = np.concatenate([np.zeros(0, np.int64), *starts])

    @classmethod
    def joined(cls, stores: "Sequence[ExampleStore]") -> "ExampleStore":
        """Returns the examples of several stores, one store behind the other."""
        return cls(
            [each for store in stores for each in store._tokens],
            [store.lengths for store in stores],
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, indices: Sequence[int], side: str) -> np.ndarray:
        """Returns the "source" or "target" of examples, padded with 0: int32 [rows, longest]."""
        indices = np.asarray(indices, np.int64)
        column = SIDES.index(side)
        lengths = self.lengths[indices, column]
        starts = self._starts[indices] + column * self.lengths[indices, 0]
        shards = np.searchsorted(self._firsts, indices, side="right") - 1
        padded = np.zeros((len(indices), lengths.max(initial=0)), np.int32)
        spans = zip(shards.tolist(), starts.tolist(), lengths.tolist(), strict=True)
        for row, (shard, start, length) in enumerate(spans):
            padded[row, :length] = self._tokens[shard][start : start + length]
        return padded
