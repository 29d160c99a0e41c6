"""Sequences of similar length side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.data.tokenizer import PADDING_ID

# Shapes that are few: lengths are multiples of this.
_MULTIPLE = 16


def batches(
    lengths: Mapping[Any, int], batch_tokens: int, few_shapes: bool = False
) -> Iterator[list]:
    """Yields keys of similar length, the longest first: memory is tested at once.

    Args:
      lengths: tokens of each sequence, by its key.
      batch_tokens: the most tokens of a batch, padding counted; a longer sequence is alone.
      few_shapes: whether the batches will be `padded` to few shapes.
    """
    longest_first = sorted(lengths, key=lambda key: -lengths[key])
    start = 0
    while start < len(longest_first):
        longest = lengths[longest_first[start]]
        rows = _most_rows(rounded_up(longest) if few_shapes else longest, batch_tokens)
        yield longest_first[start : start + rows]
        start += rows


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Returns int32 [rows, longest]."""
    return _filled(rows, len(rows), max(map(len, rows)))


def padded_to_few_shapes(rows: Sequence[np.ndarray], batch_tokens: int) -> np.ndarray:
    """Returns int32 [at least rows, at least longest], for what is compiled for each shape.

    There is one shape for full batches of each multiple of 16 tokens, and one for each power of 2
    rows of smaller batches. What is added is padding.
    """
    longest = rounded_up(max(map(len, rows)))
    full = max(_most_rows(longest, batch_tokens), len(rows))
    return _filled(rows, min(1 << (len(rows) - 1).bit_length(), full), longest)


def rounded_up(length: int) -> int:
    """Returns the next multiple of 16."""
    return -(-length // _MULTIPLE) * _MULTIPLE


def _most_rows(longest: int, batch_tokens: int) -> int:
    return max(1, batch_tokens // max(longest, 1))


def _filled(rows: Sequence[np.ndarray], count: int, length: int) -> np.ndarray:
    filled = np.full([count, length], PADDING_ID, np.int32)
    for filled_row, row in zip(filled, rows, strict=False):
        filled_row[: len(row)] = row
    return filled
