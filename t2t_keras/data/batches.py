"""Token batches, by length (section 5.1) or by rows, as a pure function of (seed, epoch).

A step's examples do not depend on replicas or microbatches, so the number of steps done is all
that a run needs to continue.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from t2t_keras.data.dataset import SIDES, ExampleStore
from t2t_keras.data.mixing import Mixture
from t2t_keras.errors import UserError

# A row is full if this many further pairs, besides the first that does not fit, do not fit either.
_LOOK_AHEAD = 50
# Rows that fit into the batches of an epoch, relative to the rows of epoch 0.
_SPARE_ROWS = 1.005
# Rows are not lengthened beyond this to fill them better, as attention costs n².
_MAX_FILLED_LENGTH = 256


class TokenBatchSampler:
    """The examples of every optimizer step.

    Each epoch holds every example once, or is a round of a `Mixture`. Pairs with a side over
    `max_length` tokens are left out. The others are shuffled and cut into batches:

    - "length" (section 5.1): they are sorted by the length of the longer side, and cut where the
      next pair would exceed `batch_tokens` on either side; the batches are shuffled.
    - "rows": in random order, they are packed into rows of several pairs; a batch is a number of
      rows.

    Args:
      lengths: [examples, 2], tokens of source and target; EOS counts, padding does not.
      batch_tokens: maximum tokens of a step on either side, without padding.
      max_length: maximum tokens of an example on either side.
      seed: seed of the shuffling.
      mix: `Problem.mix`, the shares of the corpora; () = all pairs of all corpora.
      until: `Problem.mix_until`.
      corpora: number of examples of each corpus, in the order of the examples, for `mix`.
      batching: "length" or "rows".

    Raises:
      UserError: no example is short enough, an example does not fit a batch, or `mix` is wrong.

    Attributes:
      left_out: number of pairs that are left out.
      max_side: tokens of the longest side among the remaining pairs.
      row_length: positions of a row that holds several pairs, on either side.
      by_rows: whether batches are cut by rows.
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
        batching: str = "length",
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
        self.row_length, self.by_rows = _row_length(self.max_side, batch_tokens), batching == "rows"
        self._seed = seed
        self._first_steps = [0]  # The first step of each planned epoch and of the next epoch.
        self._planned: tuple[int, list[np.ndarray]] = (-1, [])
        self._num_rows: int | None = None  # Of epoch 0; None = not known yet.
        self._counted_rows: dict[int | None, list[int]] = {}

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """Returns the example numbers of each batch of an epoch, in the order of training."""
        if self._planned[0] != epoch:
            random, order = self._shuffled(epoch)
            if self.by_rows:
                batches = self._cut_by_rows(epoch, order)
            else:
                batches = self._cut_by_length(order)
            self._planned = epoch, [batches[i] for i in random.permutation(len(batches))]
        return self._planned[1]

    def _shuffled(self, epoch: int) -> tuple[np.random.Generator, np.ndarray]:
        """Returns the generator of an epoch, and its examples in random order."""
        random = np.random.default_rng([self._seed, epoch])
        examples = self._mixture.round(epoch) if self._mixture else self._usable
        return random, random.permutation(examples)

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

    def max_padded_tokens(self, replicas: int, fixed_shapes: bool, packs_rows: bool = True) -> int:
        """Returns the smallest `microbatch_tokens` at which each step of epoch 0 is one microbatch.

        That is the maximum number of padded tokens per side that a replica gets in a step. For
        `fixed_shapes` and `packs_rows` see `Replicas`.
        """
        if fixed_shapes:
            rows = self.rows(2**62, replicas, packs_rows)
            return rows.count * rows.length
        max_tokens = 0
        for batch in self.epoch(0):
            lengths = np.sort(self._lengths[batch].max(axis=1))
            for start, end in split_by_tokens(lengths, replicas):
                max_tokens = max(max_tokens, (end - start) * int(lengths[end - 1]))
        return max_tokens

    def worst_case_shape(
        self, tokens: int, fixed_shapes: bool, packs_rows: bool = True
    ) -> tuple[int, int]:
        """Returns rows and length of a side of the microbatch that takes the most memory.

        It has up to `tokens` tokens per side. All sentences are as long as the longest, since the
        memory of attention grows with the square of the length.
        """
        if fixed_shapes and packs_rows:
            return max(tokens // self.row_length, 1), self.row_length
        return -(-tokens // self.max_side), self.max_side

    def rows(
        self,
        microbatch_tokens: int,
        replicas: int,
        packs_rows: bool = True,
        expansion: float = 1.0,
    ) -> "Rows":
        """Returns the one shape of all microbatches, for replicas with fixed shapes.

        A microbatch is a whole step if it fits, else the steps are divided evenly.

        Args:
          microbatch_tokens: maximum positions of a replica's microbatch on either side; at least
            one row is computed.
          replicas: number of replicas.
          packs_rows: see `Replicas`.
          expansion: factor by which augmentation increases the number of rows.
        """
        length = self.row_length if packs_rows else self.max_side
        # Batches that were cut by rows have the same rows again if no pair moves forward.
        look_ahead = 0 if self.by_rows else _LOOK_AHEAD
        rows = Rows(length, 1, look_ahead, None if packs_rows else 1)
        step_rows = math.ceil(expansion * max(self._row_counts(rows)) / replicas)
        microbatches = -(-step_rows // max(microbatch_tokens // length, 1))
        return dataclasses.replace(rows, count=-(-step_rows // microbatches))

    def rows_for(
        self, replicas: "Replicas", microbatch_tokens: int, expansion: float = 1.0
    ) -> "Rows | None":
        """Returns `rows` for these replicas; None if their shapes need not be fixed."""
        if not replicas.fixed_shapes:
            return None
        return self.rows(microbatch_tokens, replicas.num_replicas, replicas.packs_rows, expansion)

    def token_share(self, rows: "Rows", replicas: int) -> float:
        """Returns the tokens of epoch 0 as a share of the positions that its steps compute."""
        count = replicas * rows.count
        computed = sum(-(-step_rows // count) for step_rows in self._row_counts(rows))
        tokens = self._lengths[np.concatenate(self.epoch(0))].sum(dtype=np.int64)
        return float(tokens / (2 * computed * count * rows.length))

    def _row_counts(self, rows: "Rows") -> list[int]:
        """Returns the number of rows of each batch of epoch 0, in any order."""
        if self.by_rows and rows.max_pairs is None:
            full_batches, rest = divmod(self._first_epoch_rows(), self._step_rows())
            return [self._step_rows()] * full_batches + [rest] * bool(rest)
        if rows.max_pairs not in self._counted_rows:
            counts = [len(rows.pack(self._lengths[batch])) for batch in self.epoch(0)]
            self._counted_rows[rows.max_pairs] = counts
        return self._counted_rows[rows.max_pairs]

    def divide_by_rows(
        self, lengths: np.ndarray, order: np.ndarray, count: int
    ) -> list[np.ndarray]:
        """Divides examples into `count` batches of about equally many rows, in the rows' order.

        Args:
          lengths: the lengths of all examples, [examples, 2].
          order: the examples in random order.
          count: number of batches, at most the number of examples.
        """
        rows = self._filled_rows(lengths[order])
        if len(rows) < count:
            return np.array_split(order, count)
        order = order[list(itertools.chain(*rows))]
        last_rows = [part[-1] for part in np.array_split(np.arange(len(rows)), count)]
        return np.split(order, np.cumsum(list(map(len, rows)))[last_rows[:-1]])

    def _cut_by_rows(self, epoch: int, order: np.ndarray) -> list[np.ndarray]:
        rows = self._filled_rows(self._lengths[order])
        if epoch == 0:
            self._num_rows = len(rows)
        count = self._step_rows()
        return [
            order[list(itertools.chain(*rows[first : first + count]))]
            for first in range(0, len(rows), count)
        ]

    def _step_rows(self) -> int:
        """Returns the rows of a batch: what `batch_tokens` allows, or fewer, in equal batches.

        There is some spare room, since the number of rows varies between epochs.
        """
        rows, max_rows = self._first_epoch_rows(), self._batch_tokens // self.row_length
        return min(max_rows, math.ceil(_SPARE_ROWS * rows / math.ceil(rows / max_rows)))

    def _first_epoch_rows(self) -> int:
        """Returns the number of rows of epoch 0; fills them if that epoch was not planned."""
        if self._num_rows is None:
            self._num_rows = len(self._filled_rows(self._lengths[self._shuffled(0)[1]]))
        return self._num_rows

    def _filled_rows(self, lengths: np.ndarray) -> list[list[int]]:
        return Rows(self.row_length, 1, _LOOK_AHEAD).pack(lengths)

    def _cut_by_length(self, order: np.ndarray) -> list[np.ndarray]:
        # NumPy sorts 16 bits in linear time.
        max_sides = self._lengths[order].max(axis=1).astype(np.uint16)
        order = order[np.argsort(max_sides, kind="stable")]
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


def _row_length(max_side: int, batch_tokens: int) -> int:
    """Returns the row length for pairs of up to `max_side` tokens a side.

    The power of two that holds the longest pair, doubled if it then is at most 256; adjusted so
    that whole rows fill `batch_tokens`.
    """
    length = 1 << (max_side - 1).bit_length()
    length = min(max(min(2 * length, _MAX_FILLED_LENGTH), length), batch_tokens)
    whole_rows = batch_tokens // (batch_tokens // length)
    return max(whole_rows // 8 * 8, length)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The shape of all microbatches: rows of several pairs, one after another, on both sides.

    Attributes:
      length: positions of a row.
      count: rows of a replica's microbatch.
      look_ahead: number of pairs, besides the first that does not fit, after which a row is full.
      max_pairs: maximum number of pairs in a row; None = as many as fit.
    """

    length: int
    count: int
    look_ahead: int
    max_pairs: int | None = None

    def pack(self, lengths: np.ndarray) -> list[list[int]]:
        """Packs pairs into rows in their order; returns the indices of each row's pairs.

        A pair that does not fit waits for the next row, and later pairs may move forward. A pair
        that is longer than a row is alone.

        Args:
          lengths: [pairs, 2], tokens of source and target.
        """
        pairs, rows = collections.deque(enumerate(lengths.tolist())), []
        while pairs:
            row: list[int] = []
            waiting: list[tuple[int, list[int]]] = []
            source_room = target_room = self.length
            while pairs and len(waiting) <= self.look_ahead and len(row) != self.max_pairs:
                index, (source, target) = pair = pairs.popleft()
                fits = source <= source_room and target <= target_room
                if fits or (not row and max(source, target) > self.length):
                    row.append(index)
                    source_room, target_room = source_room - source, target_room - target
                else:
                    waiting.append(pair)
            pairs.extendleft(reversed(waiting))
            rows.append(row)
        return rows

    def split(
        self, lengths: np.ndarray, indices: np.ndarray, replicas: int
    ) -> Iterator[tuple["Rows", list[list[np.ndarray]]]]:
        """Divides a step's examples; yields each microbatch's shape, and the replicas' rows.

        The shape is this one. Examples that augmentation made longer than a row get rows of
        twice the length, and so on.

        Args:
          lengths: the lengths of all examples, [examples, 2].
          indices: the step's examples.
          replicas: number of replicas.
        """
        fits = lengths[indices].max(axis=1) <= self.length
        rows = [indices[fits][row] for row in self.pack(lengths[indices[fits]])]
        for first in range(0, len(rows), self.count * replicas):
            microbatch = rows[first : first + self.count * replicas]
            yield self, [microbatch[replica::replicas] for replica in range(replicas)]
        if not fits.all():
            longer = dataclasses.replace(
                self, length=2 * self.length, count=max(self.count // 2, 1)
            )
            yield from longer.split(lengths, indices[~fits], replicas)

    def batch(self, store: ExampleStore, rows: Sequence[np.ndarray]) -> "Batch":
        """Reads the examples of a replica's rows; missing rows are padding."""
        ids = np.zeros((2, self.count, self.length), np.int32)
        sentences = np.zeros_like(ids)
        for row, examples in enumerate(rows):
            for side, name in enumerate(SIDES):
                tokens = store.rows(examples, name)
                sizes = list(map(len, tokens))
                ids[side, row, : sum(sizes)] = np.concatenate(tokens)
                sentences[side, row, : sum(sizes)] = np.repeat(np.arange(len(sizes)) + 1, sizes)
        return Batch(*ids, *sentences) if self.max_pairs is None else Batch(*ids)


def split_batch(
    lengths: np.ndarray, indices: np.ndarray, microbatch_tokens: int, replicas: int
) -> list[list[np.ndarray]]:
    """Divides a step's examples by length; returns a part per microbatch and replica.

    Args:
      lengths: the lengths of all examples, [examples, 2].
      indices: the step's examples.
      microbatch_tokens: maximum tokens of a part on either side, padding included.
      replicas: number of replicas.
    """
    max_sides = lengths[indices].max(axis=1)
    order = np.argsort(max_sides, kind="stable")
    indices, max_sides = indices[order], max_sides[order]
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
    """The examples that one replica holds at once.

    Attributes:
      source: ids padded with 0, int32 [rows, length].
      target: likewise.
      source_sentences: if rows hold several pairs, the number of each token's pair in its row, from
        1, and 0 for padding, int32 [rows, length]; None = each row is a pair.
      target_sentences: likewise.
    """

    source: np.ndarray
    target: np.ndarray
    source_sentences: np.ndarray | None = None
    target_sentences: np.ndarray | None = None

    @property
    def target_tokens(self) -> int:
        """Number of target tokens, without padding."""
        return int(np.count_nonzero(self.target))

    def inputs(self) -> dict[str, np.ndarray]:
        """Returns the inputs of the model."""
        inputs = {"source": self.source, "target": self.target}
        if self.source_sentences is not None and self.target_sentences is not None:
            inputs["source_sentences"] = self.source_sentences
            inputs["target_sentences"] = self.target_sentences
        return inputs


@dataclasses.dataclass(frozen=True)
class RemoteBatch:
    """The batch of another worker's replica; only its number of target tokens is needed."""

    target_tokens: int


class Replicas(Protocol):
    """The replicas of a training run; a backend's `Step` has these attributes.

    Attributes:
      num_replicas: number of replicas of all workers together.
      local_replicas: numbers of this process's replicas.
      fixed_shapes: whether every new shape is compiled, so that there should be only one.
      packs_rows: whether the model can compute rows that hold several sentences.
    """

    num_replicas: int
    local_replicas: range
    fixed_shapes: bool
    packs_rows: bool


def replica_batches(
    store: ExampleStore,
    indices: np.ndarray,
    microbatch_tokens: int,
    replicas: Replicas,
    rows: Rows | None = None,
) -> Iterator[list[Batch | RemoteBatch]]:
    """Yields, for each microbatch of a step, the batches of all replicas.

    Only the lengths of other workers' examples are read. With `rows`, all microbatches have this
    shape; without, they have up to `microbatch_tokens`.
    """
    lengths, count = store.lengths, replicas.num_replicas

    def batches(
        make: Callable[[ExampleStore, Any], Batch], parts: Sequence[Any]
    ) -> list[Batch | RemoteBatch]:
        return [
            make(store, part)
            if replica in replicas.local_replicas
            else RemoteBatch(int(lengths[np.hstack(part), 1].sum()) if len(part) else 0)
            for replica, part in enumerate(parts)
        ]

    if rows:
        for shape, parts in rows.split(lengths, indices, count):
            yield batches(shape.batch, parts)
    else:
        for examples in split_batch(lengths, indices, microbatch_tokens, count):
            yield batches(make_batch, examples)


def make_batch(store: ExampleStore, indices: np.ndarray) -> Batch:
    """Reads and pads examples; without examples, the batch is one row of padding."""
    if not len(indices):
        return Batch(*[np.zeros((1, 1), np.int32)] * 2)
    return Batch(*(store.padded(indices, side) for side in SIDES))
