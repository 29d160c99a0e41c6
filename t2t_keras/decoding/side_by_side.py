"""Batches that are computed at the same time, each by its share of a CPU's cores.

The products of decoding are small: a row for each hypothesis. All cores on one of them wait for
each other more than they compute; with a batch each, they need not wait. On two cores a model of
4 + 4 layers, d_model 128, translated 1.6 times as many lines a second, the base model 1.2 times
(README, "Decoding speed").
"""

import collections
import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.batching import batches
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.processor_cores import usable_cores

# Each batch at once needs memory of its own, and gives less with each.
_MOST_AT_ONCE = 8

# Source tokens below which a batch is not made smaller so that each core has one: every batch
# reads all weights once a position.
_FEWEST_TOKENS = 128


def batches_at_once(config: DecodeConfig) -> int:
    """Returns how many batches to translate at the same time."""
    if config.batches_at_once:
        return config.batches_at_once
    if config.xla or tf.config.get_visible_devices("GPU"):
        return 1
    return min(usable_cores(), _MOST_AT_ONCE)


def share_cores(config: DecodeConfig) -> None:
    """Has each product use only the cores that are left to its batch.

    It holds for the whole process: for a command, not for a library's user. Without effect once
    TensorFlow computes, as then its threads are there.
    """
    at_once = batches_at_once(config)
    if at_once > 1 and config.lines_at_once > 1:
        with contextlib.suppress(RuntimeError):
            cores = max(usable_cores() // at_once, 1)
            tf.config.threading.set_intra_op_parallelism_threads(cores)


def shared_batches(lengths: Mapping[Any, int], config: DecodeConfig) -> list[list]:
    """Returns keys of similar length, so that there is a batch for each share of the cores.

    Args:
      lengths: tokens of each source, by its key.
      config: how to translate.
    """
    at_once, most = batches_at_once(config), config.batch_tokens
    if at_once > 1 and lengths:
        share = -(-len(lengths) // at_once) * max(lengths.values())
        most = min(most, max(share, _FEWEST_TOKENS))
    return list(batches(lengths, most, few_shapes=config.xla))


def side_by_side(
    function: Callable[[Any], Any], items: Sequence, config: DecodeConfig
) -> Iterator[tuple]:
    """Yields each item with what a function returns for it, in order, several at the same time.

    It runs ahead of what is taken by a few items, so what it returns does not pile up.
    """
    at_once = batches_at_once(config)
    if at_once == 1 or len(items) == 1:
        yield from ((item, function(item)) for item in items)
        return
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        started = collections.deque()
        try:
            for item in items:
                if len(started) == 2 * at_once:
                    first, result = started.popleft()
                    yield first, result.result()
                started.append((item, pool.submit(function, item)))
            while started:
                first, result = started.popleft()
                yield first, result.result()
        finally:
            for _, result in started:
                result.cancel()
