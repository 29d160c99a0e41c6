"""Mixtures of corpora, in stages: what a training reads, as a pure function of its seed.

`mix` is one stage or several, with semicolons between them:

    clean until 2 epochs of clean; clean:0.8+web:0.2

First only pairs of `clean`, each twice; from then on four of `clean` for each of `web`. Whatever
its share, a corpus is read in epochs: none of its pairs comes again before all others have come,
also across stages. `temperature:5` takes all corpora, by the fifth root of their sizes.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping

import numpy as np

from t2t_keras.errors import UserError, nearest

# Most pairs that are sorted by length at once.
_MOST_IN_ROUND = 1 << 20
_STAGE = re.compile(r"(.+?)(?:\s+until\s+(\S+)\s+epochs?\s+of\s+(\S+))?", re.S)
_TEMPERATURE = "temperature"
# Below, nothing but the largest corpus would be read, and powers of sizes exceed floats.
_LEAST_TEMPERATURE = 0.1


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a training.

    Attributes:
      shares: of the pairs, by corpus; their sum is 1.
      pairs: how many it reads; math.inf = it goes on to the end.
    """

    shares: Mapping[str, float]
    pairs: float = math.inf


def parse_mix(mix: str, sizes: Mapping[str, int]) -> list[Stage]:
    """Returns the stages of a mixture.

    Args:
      mix: as in the module's docstring.
      sizes: the pairs of each corpus.

    Raises:
      UserError: a corpus that is not there or is empty, a share that is not positive, or a stage
        that has no end before another.
    """
    texts = [text.strip() for text in mix.split(";")]
    stages = []
    for number, text in enumerate(texts, start=1):
        match = _STAGE.fullmatch(text)
        if not match:
            raise UserError(
                f"mix={mix}: expected a stage, got nothing before or after a ';'.", code="bad_value"
            )
        parts, epochs, until = match.groups()
        shares = _shares(parts, sizes, mix)
        if (number < len(texts)) != bool(epochs):
            raise UserError(
                f"mix={mix}: expected 'until N epochs of CORPUS' at the end of each stage but the "
                f"last, which goes on; got '{text}' as stage {number} of {len(texts)}.",
                code="bad_value",
            )
        pairs = math.inf
        if epochs:
            if until not in shares:
                raise UserError(
                    f"mix={mix}: '{until}' is no corpus of the stage '{text}'.", code="unknown_name"
                )
            pairs = max(round(_positive(epochs, mix) * sizes[until] / shares[until]), 1)
        stages.append(Stage(shares, pairs))
    return stages


def _shares(text: str, sizes: Mapping[str, int], mix: str) -> dict[str, float]:
    names = [part.strip().rpartition(":") for part in text.split("+")]
    if len(names) == 1 and names[0][0].strip() == _TEMPERATURE:
        temperature = _positive(names[0][2], mix)
        if temperature < _LEAST_TEMPERATURE:
            raise UserError(
                f"mix={mix}: expected a temperature of at least {_LEAST_TEMPERATURE}, got "
                f"{temperature:g}. 1 reads corpora by their sizes, more evens them out.",
                code="bad_value",
            )
        weights = {name: size ** (1 / temperature) for name, size in sizes.items()}
    else:
        given = [(name.strip(), weight) if name else (weight, "1") for name, _, weight in names]
        if len(dict(given)) < len(given):
            raise UserError(f"mix={mix}: a corpus is given twice in '{text}'.", code="given_twice")
        weights = {name: _positive(weight, mix) for name, weight in given}
    for name in weights:
        if not sizes.get(name):
            known = ", ".join(f"{each} ({size:,} pairs)" for each, size in sizes.items())
            raise UserError(
                f"mix={mix}: there is no corpus '{name}' with pairs that are short enough."
                f"{nearest(name, sizes)} The corpora are {known}.",
                code="unknown_name",
            )
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _positive(text: str, mix: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UserError(f"mix={mix}: expected a positive number, got '{text}'.", code="bad_value")
    return number


class Mixture:
    """The pairs that a training reads, in rounds, which are sorted by length one by one.

    Args:
      mix: see `parse_mix`.
      corpora: the numbers of the pairs of each corpus that can be read.
      seed: of the order in which each is read.

    Raises:
      UserError: see `parse_mix`.
    """

    def __init__(self, mix: str, corpora: Mapping[str, np.ndarray], seed: int):
        self._corpora, self._seed = corpora, seed
        self._stages = parse_mix(mix, {name: len(pairs) for name, pairs in corpora.items()})
        self._order = list(corpora)
        self._planned: list[dict[str, tuple[int, int]]] = []
        self._plans = self._plan()

    def round(self, number: int) -> np.ndarray:
        """Returns the numbers of the pairs of a round, counted from 0."""
        missing = number + 1 - len(self._planned)
        self._planned.extend(itertools.islice(self._plans, max(missing, 0)))
        read = self._planned[number]
        return np.concatenate([self._read(name, *span) for name, span in read.items()])

    def _plan(self) -> Iterator[dict[str, tuple[int, int]]]:
        """Yields what each round reads of each corpus: from where in its epochs, and to where."""
        at = dict.fromkeys(self._corpora, 0)
        for stage in self._stages:
            begin, done = dict(at), 0
            size = min(sum(len(self._corpora[name]) for name in stage.shares), _MOST_IN_ROUND)
            while done < stage.pairs:
                done = min(done + size, stage.pairs)
                # Rounded from the beginning of the stage, lest errors add up.
                ends = {name: begin[name] + round(done * s) for name, s in stage.shares.items()}
                if not any(ends[name] > begin[name] for name in ends):
                    # Not even a stage that is shorter than a pair of each is without any.
                    ends[max(stage.shares, key=stage.shares.__getitem__)] += 1
                yield {name: (at[name], end) for name, end in ends.items()}
                at |= ends

    def _read(self, name: str, start: int, end: int) -> np.ndarray:
        pairs, corpus = self._corpora[name], self._order.index(name)
        size, found = len(pairs), [np.zeros(0, np.int64)]
        for epoch in range(start // size, -(-end // size)):
            random = np.random.default_rng([self._seed, corpus, epoch])
            first = epoch * size
            found.append(pairs[random.permutation(size)][max(start - first, 0) : end - first])
        return np.concatenate(found)
