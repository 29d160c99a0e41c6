"""Mixtures of corpora, in stages; the seed of a training run determines the order of its pairs.

`mix=[{clean: 0.8, web: 0.2}]` reads four pairs of `clean` for each pair of `web`. Each stage except
the last ends after some epochs of one of its corpora:

    mix=[{clean: 1}, {clean: 0.8, web: 0.2}],mix_until=[{clean: 2}]

reads only `clean` first, each pair twice. A corpus is read in epochs, also across stages: no pair
repeats before all pairs of its corpus have been read. `{temperature: 5}` reads all corpora in
proportion to the fifth root of their sizes.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t_keras.errors import UserError, suggest
from t2t_keras.settings import as_text

# Largest number of pairs that are sorted by length together.
_MAX_PAIRS_IN_ROUND = 1 << 20
_TEMPERATURE = "temperature"
# At lower temperatures only the largest corpus would be read, and size ** (1 / temperature) would
# overflow.
_MIN_TEMPERATURE = 0.1


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of training.

    Attributes:
      shares: share of the pairs by corpus; the sum is 1.
      pairs: number of pairs; math.inf = to the end of training.
    """

    shares: Mapping[str, float]
    pairs: float = math.inf


def stages_of(
    mix: Sequence[Mapping[str, float]],
    until: Sequence[Mapping[str, float]],
    sizes: Mapping[str, int],
) -> list[Stage]:
    """Returns the stages of a mixture.

    Args:
      mix: `Problem.mix`.
      until: `Problem.mix_until`.
      sizes: the pairs of each corpus.

    Raises:
      UserError: a corpus is missing or empty, a number is not positive, or the ends of stages do
        not match the stages.
    """
    if len(until) != len(mix) - 1 or any(len(end) != 1 for end in until):
        raise UserError(
            f"mix_until={as_text(until)}: expected {len(mix) - 1} ends, one for each stage of "
            f"mix={as_text(mix)} except the last. Write the end after two epochs of clean as "
            f"{{clean: 2}}.",
            code="bad_value",
        )
    stages = [Stage(_shares(stage, sizes)) for stage in mix]
    for number, end in enumerate(until):
        [(name, epochs)], shares = end.items(), stages[number].shares
        if name not in shares:
            raise UserError(
                f"mix_until={as_text(until)}: expected a corpus of {as_text(mix[number])}, got "
                f"'{name}'.",
                code="unknown_name",
            )
        _check_positive(end)
        pairs = max(round(epochs * sizes[name] / shares[name]), 1)
        stages[number] = dataclasses.replace(stages[number], pairs=pairs)
    return stages


def _shares(weights: Mapping[str, float], sizes: Mapping[str, int]) -> dict[str, float]:
    _check_positive(weights)
    if list(weights) == [_TEMPERATURE]:
        temperature = weights[_TEMPERATURE]
        if temperature < _MIN_TEMPERATURE:
            raise UserError(
                f"mix: expected a temperature of at least {_MIN_TEMPERATURE}, got "
                f"{temperature:g}. 1 = shares proportional to sizes; higher = more equal shares.",
                code="bad_value",
            )
        weights = {name: size ** (1 / temperature) for name, size in sizes.items()}
    for name in weights:
        if not sizes.get(name):
            corpora = ", ".join(f"{corpus} ({size:,} pairs)" for corpus, size in sizes.items())
            raise UserError(
                f"mix: there is no corpus '{name}' with usable pairs."
                f"{suggest(name, sizes)} The corpora are {corpora}.",
                code="unknown_name",
            )
    # In the order of the corpora, so that the order of the shares does not matter.
    ordered_weights = {name: weights[name] for name in sizes if name in weights}
    return {
        name: weight / sum(ordered_weights.values()) for name, weight in ordered_weights.items()
    }


def _check_positive(numbers: Mapping[str, float]) -> None:
    if not numbers or not all(0 < number < math.inf for number in numbers.values()):
        raise UserError(
            f"mix: expected corpora with positive numbers, such as {{clean: 0.8, web: 0.2}}, got "
            f"{as_text(numbers)}.",
            code="bad_value",
        )


class Mixture:
    """The pairs of a training run, in rounds; the sampler sorts one round at a time by length.

    Args:
      mix: see `stages_of`.
      until: see `stages_of`.
      corpora: for each corpus, the numbers of its usable pairs.
      seed: seed for shuffling each corpus in each of its epochs.

    Raises:
      UserError: see `stages_of`.
    """

    def __init__(
        self,
        mix: Sequence[Mapping[str, float]],
        until: Sequence[Mapping[str, float]],
        corpora: Mapping[str, np.ndarray],
        seed: int,
    ):
        self._corpora, self._seed = corpora, seed
        self._stages = stages_of(mix, until, {name: len(pairs) for name, pairs in corpora.items()})
        self._names = list(corpora)
        self._rounds: list[dict[str, tuple[int, int]]] = []
        self._new_rounds = self._plan_rounds()

    def round(self, number: int) -> np.ndarray:
        """Returns the numbers of the pairs that round `number` (from 0) reads."""
        num_missing = number + 1 - len(self._rounds)
        self._rounds.extend(itertools.islice(self._new_rounds, max(num_missing, 0)))
        spans = self._rounds[number]
        return np.concatenate([self._read(name, *span) for name, span in spans.items()])

    def _plan_rounds(self) -> Iterator[dict[str, tuple[int, int]]]:
        """Yields, for each round, the span to read of each corpus, counted over all epochs."""
        num_drawn = dict.fromkeys(self._corpora, 0)
        for stage in self._stages:
            stage_starts = dict(num_drawn)
            pairs_read: float = 0
            size = min(sum(len(self._corpora[name]) for name in stage.shares), _MAX_PAIRS_IN_ROUND)
            while pairs_read < stage.pairs:
                pairs_read = min(pairs_read + size, stage.pairs)
                # Count from the start of the stage, so that rounding errors do not add up.
                ends = {
                    name: stage_starts[name] + round(pairs_read * share)
                    for name, share in stage.shares.items()
                }
                if not any(ends[name] > stage_starts[name] for name in ends):
                    # Even the shortest stage reads at least one pair.
                    ends[max(stage.shares, key=stage.shares.__getitem__)] += 1
                yield {name: (num_drawn[name], end) for name, end in ends.items()}
                num_drawn |= ends

    def _read(self, name: str, start: int, end: int) -> np.ndarray:
        pairs, corpus_number = self._corpora[name], self._names.index(name)
        size, parts = len(pairs), [np.zeros(0, np.int64)]
        for epoch in range(start // size, -(-end // size)):
            random = np.random.default_rng([self._seed, corpus_number, epoch])
            offset = epoch * size
            parts.append(pairs[random.permutation(size)][max(start - offset, 0) : end - offset])
        return np.concatenate(parts)
