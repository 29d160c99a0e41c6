"""The interface of engines, which compute with ids only, and the batches that they compute."""

import abc
import collections
import concurrent.futures
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from t2t_keras.decoding.config import DecodeConfig, length_penalty
from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError
from t2t_keras.special_ids import PADDING_ID

if TYPE_CHECKING:
    from t2t_keras.decoding.search import Grammar

Ids = Sequence[np.ndarray]  # int32 [length] each
Key = TypeVar("Key")
Item = TypeVar("Item")
Result = TypeVar("Result")

KERAS = "keras"


class Output(NamedTuple):
    """An output of a search.

    Attributes:
      ids: its symbols; an end of sentence and padding may follow.
      score: log-probability / length penalty ((5 + length) / 6)^alpha, less a coverage penalty.
    """

    ids: Sequence[int]
    score: float


class Engine(abc.ABC):
    """A model or an ensemble, with the search that the settings request.

    Ids are int32 arrays of any length, each with its end of sentence. Generators yield
    pairs (index of an input, result), in any order.

    Attributes:
      config: the settings.
      name: name of the engine, for the provenance of translations.
      models: its Keras models; () for other programs.
      batches_at_once: number of batches searched in parallel.
    """

    config: DecodeConfig
    name: str = KERAS
    models: tuple = ()
    batches_at_once: int = 1

    @abc.abstractmethod
    def outputs(self, sources: Ids, prefixes: Ids, numbers: Sequence[int]) -> list[list[Output]]:
        """Returns the outputs for each source of a batch, best first.

        Args:
          sources: ids.
          prefixes: the required beginnings of the outputs, without an end of sentence.
          numbers: numbers of the sources, which the draws of sampling depend on.

        Raises:
          UserError: no output is possible, or the model computes NaN.
        """

    def with_all_hypotheses(self) -> "Engine":
        """Returns an engine that returns the whole beam; this one if it does, or samples."""
        return self

    def with_grammar(self, grammar: "Grammar") -> "Engine":
        """Returns an engine that obeys one more grammar; raises `UserError` if it obeys none."""
        raise UserError(
            f"The engine {self.name} cannot restrict outputs to a grammar. Choose keras.",
            code="not_supported",
        )

    @abc.abstractmethod
    def log_probs(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, np.ndarray]]:
        """Yields log-probabilities of the symbols of each target, float32 [target length]."""

    def scores(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, float]]:
        """Yields the score of each target, see `Output`."""
        for number, log_probs in self.log_probs(sources, targets):
            penalty = length_penalty(len(targets[number]), self.config.alpha)
            yield number, float(log_probs.sum(dtype=np.float64)) / penalty

    @abc.abstractmethod
    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """Returns the likeliest symbols after a prefix, the likeliest first.

        The end of sentence and padding are excluded.

        Args:
          source: ids with an end of sentence.
          prefix: ids without an end of sentence.
          count: maximum number of symbols to return.
        """

    @abc.abstractmethod
    def cross_attention(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the attention for alignment, float32 [target, source].

        It is the mean over the heads of `alignment_layer`, and over models. It may lack the ends
        of sentence, and the last tokens of a target that is too long for the engine.
        """

    @abc.abstractmethod
    def check_attention(self) -> None:
        """Raises `UserError` if the engine does not support `attention`."""

    @abc.abstractmethod
    def attention(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields "encoder", "decoder" and "cross" of `AttentionWeights`."""


# Lengths are multiples of this for functions that are compiled for each shape.
_LENGTH_STEP = 16

# More parallel batches need more memory, and save little time.
_MAX_BATCHES_AT_ONCE = 8

# If batches are made smaller to use all cores, they keep at least this number of source tokens:
# every batch reads all weights at each position.
_MIN_SPLIT_TOKENS = 128


def batches_at_once(config: DecodeConfig, on_gpu: bool = False) -> int:
    """Returns the number of batches to translate in parallel."""
    if config.batches_at_once:
        return config.batches_at_once
    return 1 if config.xla or on_gpu else min(usable_cores(), _MAX_BATCHES_AT_ONCE)


def batches_by_length(
    lengths: Mapping[Key, int], config: DecodeConfig, at_once: int
) -> list[list[Key]]:
    """Divides the keys of `lengths` into batches of similar length.

    The longest come first, so that a lack of memory shows at the start. A batch has at most
    `batch_tokens` with padding; a longer sequence has its own batch. There are at least `at_once`
    batches if possible.
    """
    max_tokens = config.batch_tokens
    longest_first = sorted(lengths, key=lambda key: -lengths[key])
    if at_once > 1 and lengths:
        core_tokens = -(-len(lengths) // at_once) * lengths[longest_first[0]]
        max_tokens = min(max_tokens, max(core_tokens, _MIN_SPLIT_TOKENS))
    batches = []
    while longest_first:
        longest = max(lengths[longest_first[0]], 1)
        longest += -longest % _LENGTH_STEP if config.xla else 0
        count = max(max_tokens // longest, 1)
        batches.append(longest_first[:count])
        longest_first = longest_first[count:]
    return batches


def parallel_batches(
    compute: Callable[[Item], Result], batches: Sequence[Item], at_once: int
) -> Iterator[tuple[Item, Result]]:
    """Yields each batch with its result, in order; computes `at_once` batches in parallel.

    Runs only a few batches ahead of the consumer, so that results do not pile up.
    """
    if at_once == 1 or len(batches) == 1:
        yield from ((batch, compute(batch)) for batch in batches)
        return
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        futures = (pool.submit(compute, batch) for batch in batches)
        try:
            futures_ahead = collections.deque(itertools.islice(futures, 2 * at_once - 1))
            for batch in batches:
                futures_ahead.extend(itertools.islice(futures, 1))
                yield batch, futures_ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def pad_rows(rows: Ids, count: int = 0, multiple: int = 1) -> np.ndarray:
    """Pads rows into one array: at least `count` rows, and a length divisible by `multiple`."""
    length = max(map(len, rows))
    length += -length % multiple
    ids = np.full([max(count, len(rows)), length], PADDING_ID, np.int32)
    for padded_row, row in zip(ids, rows, strict=False):
        padded_row[: len(row)] = row
    return ids


def xla_padding(rows: Ids, batch_tokens: int) -> tuple[int, int]:
    """Returns the count and multiple for `pad_rows` that give batches few shapes, for XLA.

    Lengths are multiples of 16. For each length, full batches have one shape, and smaller
    batches get rows of padding up to a power of 2.
    """
    longest = max(map(len, rows))
    longest += -longest % _LENGTH_STEP
    full_batch = max(batch_tokens // max(longest, 1), len(rows))
    return min(1 << (len(rows) - 1).bit_length(), full_batch), _LENGTH_STEP
