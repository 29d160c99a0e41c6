"""Token batches of pairs of similar length (section 5.1), as a pure function of (seed, epoch).

A step's examples do not depend on replicas or microbatches, so the number of steps done is all
that a run needs to continue.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from t2t_keras.data.dataset import SIDES, ExampleStore
from t2t_keras.data.mixing import Mixture
from t2t_keras.errors import UserError

# Lengths for fixed shapes: 8, 12, 16, 24, 32 ... There are few, as every new shape is compiled.
_FIXED_LENGTHS = [length << power for power in range(27) for length in (8, 12)]


class TokenBatchSampler:
    """The examples of every optimizer step.

    Each epoch holds every example once, or is a round of a `Mixture`. The examples are shuffled,
    sorted by the length of the longer side, and cut into batches where the next pair would exceed
    `batch_tokens` on either side; the batches are shuffled. Pairs with a side over `max_length`
    tokens are left out.

    Args:
      lengths: [examples, 2], tokens of source and target; EOS counts, padding does not.
      batch_tokens: maximum tokens of a step on either side, without padding.
      max_length: maximum tokens of an example on either side.
      seed: seed of the shuffling.
      mix: `Problem.mix`, the shares of the corpora; () = all pairs of all corpora.
      until: `Problem.mix_until`.
      corpora: number of examples of each corpus, in the order of the examples, for `mix`.

    Raises:
      UserError: no example is short enough, an example does not fit a batch, or `mix` is wrong.

    Attributes:
      left_out: number of pairs that are left out.
      max_side: tokens of the longest side among the remaining pairs.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_tokens: int,
        max_length: int,
        seed: int,
        mix: Sequence[Mapping[str, float]] = (),
        until: Sequence[Mapping[str, float]] = (),
        corpora: Mapping[str, int] = {},
    ):
        max_sides = lengths.max(axis=1) if len(lengths) else np.zeros(0, np.int32)
        self._usable = np.flatnonzero(max_sides <= max_length)
        self.left_out = len(lengths) - len(self._usable)
        if not len(self._usable):
            raise UserError(
                f"None of the {len(lengths)} pairs has at most max_length={max_length} "
                f"tokens per side. Raise max_length.",
                code="nothing_left",
            )
        self.max_side = int(max_sides[self._usable].max())
        if self.max_side > batch_tokens:
            raise UserError(
                f"A pair has {self.max_side} tokens on a side, more than batch_tokens="
                f"{batch_tokens}. Raise batch_tokens or lower max_length.",
                code="too_long",
            )
        self._lengths, self._mixture = lengths, None
        if mix:
            ends = np.cumsum(list(corpora.values()))[:-1]
            usable = np.split(self._usable, np.searchsorted(self._usable, ends))
            self._mixture = Mixture(mix, until, dict(zip(corpora, usable, strict=True)), seed)
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._first_steps = [0]  # The first step of each planned epoch and of the next epoch.
        self._planned: tuple[int, list[np.ndarray]] = (-1, [])

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """Returns the example numbers of each batch of an epoch, in the order of training."""
        if self._planned[0] != epoch:
            random = np.random.default_rng([self._seed, epoch])
            examples = self._mixture.round(epoch) if self._mixture else self._usable
            order = random.permutation(examples)
            # NumPy sorts 16 bits in linear time.
            max_sides = self._lengths[order].max(axis=1).astype(np.uint16)
            batches = self._cut(order[np.argsort(max_sides, kind="stable")])
            self._planned = epoch, [batches[i] for i in random.permutation(len(batches))]
        return self._planned[1]

    def at(self, step: int) -> np.ndarray:
        """Returns the numbers of a step's examples; steps count from 0 over all epochs."""
        epoch = self._epoch_of(step)
        return self.epoch(epoch)[step - self._first_steps[epoch]]

    def step_group(self, step: int, size: int) -> range:
        """Returns the group of `size` steps around `step`; an epoch's last one may be smaller."""
        epoch = self._epoch_of(step)
        first, next_first = self._first_steps[epoch : epoch + 2]
        start = step - (step - first) % size
        return range(start, min(start + size, next_first))

    def _epoch_of(self, step: int) -> int:
        while step >= self._first_steps[-1]:
            epoch = len(self._first_steps) - 1
            self._first_steps.append(self._first_steps[-1] + len(self.epoch(epoch)))
        return int(np.searchsorted(self._first_steps, step, side="right")) - 1

    def fill_ratio(self) -> tuple[float, float]:
        """Returns the average source and target tokens of a step as shares of `batch_tokens`."""
        batches = self.epoch(0)
        tokens = self._lengths[np.concatenate(batches)].sum(axis=0, dtype=np.int64)
        source, target = tokens / (len(batches) * self._batch_tokens)
        return float(source), float(target)

    def max_padded_tokens(self, replicas: int, fixed_shapes: bool) -> int:
        """Returns the smallest `microbatch_tokens` at which each step of epoch 0 is one microbatch.

        That is the maximum number of padded tokens per side that a replica gets in a step.
        """
        max_tokens = 0
        for batch in self.epoch(0):
            lengths = np.sort(self._lengths[batch].max(axis=1))
            if fixed_shapes:
                lengths = _fixed_lengths(lengths)
            for start, end in split_by_tokens(lengths, replicas):
                max_tokens = max(max_tokens, (end - start) * int(lengths[end - 1]))
        return max_tokens

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        totals = np.cumsum(self._lengths[order], axis=0, dtype=np.int64)
        start, tokens_before, batches = 0, np.zeros(2, np.int64), []
        while start < len(order):
            ends = [
                np.searchsorted(
                    totals[:, side], tokens_before[side] + self._batch_tokens, side="right"
                )
                for side in (0, 1)
            ]
            end = int(min(ends))
            batches.append(order[start:end])
            start, tokens_before = end, totals[end - 1]
        return batches


def split_batch(
    lengths: np.ndarray,
    indices: np.ndarray,
    microbatch_tokens: int,
    replicas: int,
    fixed_shapes: bool = False,
) -> list[list[np.ndarray]]:
    """Divides a step's examples by length; returns a part per microbatch and replica.

    Args:
      lengths: the lengths of all examples, [examples, 2].
      indices: the step's examples.
      microbatch_tokens: maximum tokens of a part on either side, padding included.
      replicas: number of replicas.
      fixed_shapes: whether `make_batch` pads to fixed lengths.
    """
    max_sides = lengths[indices].max(axis=1)
    order = np.argsort(max_sides, kind="stable")
    indices, max_sides = indices[order], max_sides[order]
    if fixed_shapes:
        max_sides = _fixed_lengths(max_sides)
    for num_microbatches in itertools.count(1):
        parts = split_by_tokens(max_sides, num_microbatches * replicas)
        if all(
            end - start <= 1 or (end - start) * max_sides[end - 1] <= microbatch_tokens
            for start, end in parts
        ):
            break
    # Parts of similar length run at the same time, so that no replica waits for a longer part.
    return [
        [indices[slice(*parts[first + replica])] for replica in range(replicas)]
        for first in range(0, num_microbatches * replicas, replicas)
    ]


def split_by_tokens(lengths: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Divides sorted lengths into `count` parts of about equal tokens: (start, end) each."""
    totals = np.cumsum(lengths, dtype=np.int64)
    goals = totals[-1] * np.arange(1, count) / count
    # Cut at the nearest boundary, so that the last part does not collect all remainders.
    cuts = np.searchsorted(totals - lengths / 2, goals)
    bounds = [0, *np.maximum.accumulate(cuts).tolist(), len(lengths)]
    return list(itertools.pairwise(bounds))


@dataclasses.dataclass(frozen=True)
class Batch:
    """The examples that one replica holds at once: ids padded with 0, int32 [rows, length]."""

    source: np.ndarray
    target: np.ndarray

    @property
    def target_tokens(self) -> int:
        """Number of target tokens, without padding."""
        return int(np.count_nonzero(self.target))


@dataclasses.dataclass(frozen=True)
class RemoteBatch:
    """The batch of another worker's replica; only its number of target tokens is needed."""

    target_tokens: int


class Replicas(Protocol):
    """The replicas of a training run; a backend's `Step` has these attributes.

    Attributes:
      num_replicas: number of replicas of all workers together.
      local_replicas: numbers of this process's replicas.
      fixed_shapes: whether every new shape is compiled, so that there should be few shapes.
    """

    num_replicas: int
    local_replicas: range
    fixed_shapes: bool


def replica_batches(
    store: ExampleStore, indices: np.ndarray, microbatch_tokens: int, replicas: Replicas
) -> Iterator[list[Batch | RemoteBatch]]:
    """Yields, for each microbatch of a step, the batches of all replicas.

    Only the lengths of other workers' examples are read.
    """
    fixed_tokens = microbatch_tokens if replicas.fixed_shapes else 0
    for parts in split_batch(
        store.lengths, indices, microbatch_tokens, replicas.num_replicas, replicas.fixed_shapes
    ):
        yield [
            make_batch(store, part, fixed_tokens)
            if replica in replicas.local_replicas
            else RemoteBatch(int(store.lengths[part, 1].sum()))
            for replica, part in enumerate(parts)
        ]


def make_batch(store: ExampleStore, indices: np.ndarray, fixed_tokens: int = 0) -> Batch:
    """Reads and pads examples; without examples, the batch is one row of padding.

    With `fixed_tokens` (per side) there are few shapes: the length is rounded up to one of
    `_FIXED_LENGTHS`, and rows of padding are added up to `fixed_tokens` / length.
    """
    sides = [np.zeros((1, 1), np.int32)] * 2
    if len(indices):
        sides = [store.padded(indices, side) for side in SIDES]
    if fixed_tokens:
        length = int(_fixed_lengths(max(side.shape[1] for side in sides)))
        rows = max(len(sides[0]), fixed_tokens // length)
        sides = [
            np.pad(side, [(0, rows - side.shape[0]), (0, length - side.shape[1])]) for side in sides
        ]
    return Batch(*sides)


def worst_case_shape(tokens: int, max_side: int, fixed_shapes: bool = False) -> tuple[int, int]:
    """Returns rows and length of a side of the microbatch that takes the most memory.

    It has `tokens` tokens per side. All sentences are as long as the longest, since the memory of
    attention grows with the square of the length.
    """
    length = int(_fixed_lengths(max_side)) if fixed_shapes else max_side
    return -(-tokens // length), length


def _fixed_lengths(lengths: np.ndarray | int) -> np.ndarray:
    """Rounds lengths up to the next of `_FIXED_LENGTHS`."""
    return np.take(_FIXED_LENGTHS, np.searchsorted(_FIXED_LENGTHS, lengths))
