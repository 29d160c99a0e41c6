"""Batches of sequences of similar length, several of them in parallel."""

import collections
import concurrent.futures
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.environment import usable_cores
from t2t_keras.special_ids import PADDING_ID

# Functions that are compiled for each shape get lengths that are multiples of this.
_MULTIPLE = 16

# Each parallel batch needs memory of its own, and gains less than the one before.
_MOST_IN_PARALLEL = 8

# Source tokens below which a batch is not made smaller so that each core has one: every batch
# reads all weights once a position.
_FEWEST_TOKENS = 128


def padded(rows: Sequence[np.ndarray], count: int = 0, multiple: int = 1) -> np.ndarray:
    """Returns int32 [at least `count`, longest], the longest rounded up to a multiple."""
    longest = _rounded_up(max(map(len, rows)), multiple)
    filled = np.full([max(count, len(rows)), longest], PADDING_ID, np.int32)
    for filled_row, row in zip(filled, rows, strict=False):
        filled_row[: len(row)] = row
    return filled


def few_shapes(rows: Sequence[np.ndarray], batch_tokens: int) -> tuple[int, int]:
    """Returns the count and the multiple by which `padded` gives batches one of few shapes.

    There is one shape for full batches of each multiple of 16 tokens, and one for each power of 2
    rows of smaller batches.
    """
    full = _most_rows(_rounded_up(max(map(len, rows)), _MULTIPLE), batch_tokens)
    return min(1 << (len(rows) - 1).bit_length(), max(full, len(rows))), _MULTIPLE


def _rounded_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def _most_rows(longest: int, batch_tokens: int) -> int:
    return max(1, batch_tokens // max(longest, 1))


def batches_at_once(config: DecodeConfig) -> int:
    """Returns the number of batches to translate in parallel on a CPU."""
    if config.batches_at_once:
        return config.batches_at_once
    return 1 if config.xla else min(usable_cores(), _MOST_IN_PARALLEL)


def shared_batches(lengths: Mapping[Any, int], config: DecodeConfig, at_once: int) -> list[list]:
    """Returns keys in batches of similar length.

    The longest come first, so that a lack of memory shows at the start. A batch has at most
    `batch_tokens` with padding, but for a longer sequence, which is alone. Each of those `at_once`
    gets one if possible.
    """
    max_tokens = config.batch_tokens
    longest_first = sorted(lengths, key=lambda key: -lengths[key])
    if at_once > 1 and lengths:
        share = -(-len(lengths) // at_once) * lengths[longest_first[0]]
        max_tokens = min(max_tokens, max(share, _FEWEST_TOKENS))
    found = []
    while longest_first:
        longest = lengths[longest_first[0]]
        length = _rounded_up(longest, _MULTIPLE) if config.xla else longest
        rows = _most_rows(length, max_tokens)
        found.append(longest_first[:rows])
        longest_first = longest_first[rows:]
    return found


def parallel_batches(
    function: Callable[[Any], Any], items: Sequence, at_once: int
) -> Iterator[tuple]:
    """Yields each item with the function's result for it, in order, so many computed in parallel.

    It runs only a few items ahead of the consumer, so results do not pile up.
    """
    if at_once == 1 or len(items) == 1:
        yield from ((item, function(item)) for item in items)
        return
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = (pool.submit(function, item) for item in items)
        try:
            started = collections.deque(itertools.islice(results, 2 * at_once - 1))
            for item in items:
                started.extend(itertools.islice(results, 1))
                yield item, started.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
