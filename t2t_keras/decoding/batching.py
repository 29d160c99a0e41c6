"""Sequences of similar length side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.data.tokenizer import PADDING_ID


def batches(lengths: Mapping[Any, int], batch_tokens: int) -> Iterator[list]:
    """Yields keys of similar length, the longest first: memory is tested at once.

    Args:
      lengths: tokens of each sequence, by its key.
      batch_tokens: the most tokens of a batch, padding counted; a longer sequence is alone.
    """
    longest_first = sorted(lengths, key=lambda key: -lengths[key])
    start = 0
    while start < len(longest_first):
        rows = max(1, batch_tokens // lengths[longest_first[start]])
        yield longest_first[start : start + rows]
        start += rows


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Returns int32 [rows, longest]."""
    padded = np.full([len(rows), max(map(len, rows))], PADDING_ID, np.int32)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return padded
