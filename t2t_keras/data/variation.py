"""Training examples drawn anew each time they are read: sampled subwords, and disturbed text.

What a step reads is a pure function of seed and step, so that a training that was interrupted goes
on as if it had not been. Dev and test sets are never varied.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_keras.data.augmentation import Augmentation
from t2t_keras.data.batches import TokenBatchSampler, even_parts
from t2t_keras.data.shards import SIDES, ExampleStore
from t2t_keras.data.transforms import Change
from t2t_keras.errors import UserError
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.tokenizer import Tokenizer

# Planned steps that are cut anew together: 16 have 15 % of padding (Multi30k), one has 45 %.
_STEPS_BESIDE = 16


class Variation:
    """Draws the examples of each step: a pure function of (seed, step, example, its occurrence).

    Args:
      tokenizer: the vocabulary.
      seed: of what is drawn.
      sampling: `HParams.subword_sampling`; 0 = text is divided as ever.
      nbest: `HParams.subword_nbest`.
      augment: `Problem.augment`; {} = text stays as it is.
      more: kinds of `augment` that are not registered, as of `Generated.augmentations`.

    Raises:
      UserError: the vocabulary cannot sample, or not of `nbest`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        seed: int,
        sampling: float = 0.0,
        nbest: int = 0,
        augment: Mapping[str, float] | None = None,
        more: Mapping[str, Change] | None = None,
    ):
        self._tokenizers, self._seed = (tokenizer.source, tokenizer), seed
        self._augmentation = Augmentation(augment or {}, more)
        self._samplers = [each.sampler(sampling, nbest) for each in self._tokenizers if sampling]
        if nbest and self._samplers and all(each.is_bpe for each in self._samplers):
            raise UserError(
                f"subword_nbest={nbest} has no effect with a bpe vocabulary: set subword_nbest=0.",
                code="conflicting_settings",
            )

    def __bool__(self) -> bool:
        return bool(self._samplers or self._augmentation)

    def examples(self, store: ExampleStore, numbers: np.ndarray, step: int) -> ExampleStore:
        """Returns the examples with these numbers as a step reads them, in this order."""
        padded = [store.padded(numbers, side) for side in SIDES]
        lengths = zip(padded, store.lengths[numbers].T, strict=True)
        sides = [[row[:size] for row, size in zip(*side, strict=True)] for side in lengths]
        seeds = [f"{self._seed} {step} {example}" for example in _named(numbers.tolist())]
        # Of what became the unknown id, the text is lost.
        known = ~np.logical_or(*((ids == UNKNOWN_ID).any(axis=1) for ids in padded))
        changes = [self._augmentation.drawn(seed) for seed in seeds]
        varied = [i for i, change in enumerate(changes) if known[i] and (change or self._samplers)]
        decoders = zip(self._tokenizers, sides, strict=True)
        texts = [each.decode([rows[i] for i in varied]) for each, rows in decoders]
        pairs = list(zip(*texts, strict=True))
        for row, i in enumerate(varied):
            if changes[i]:
                pairs[row] = changes[i](*pairs[row])
        for side, rows in enumerate(sides):
            lines = [pair[side] for pair in pairs]
            if self._samplers:
                drawn = [f"{seeds[i]} {SIDES[side]}" for i in varied]
                encoded = self._samplers[side].sample(lines, drawn)
            else:
                encoded = self._tokenizers[side].encode(lines)
            for i, ids in zip(varied, encoded, strict=True):
                rows[i] = ids
        lengths = np.array([list(map(len, pair)) for pair in zip(*sides, strict=True)], np.int32)
        tokens = [ids for pair in zip(*sides, strict=True) for ids in pair]
        return ExampleStore([np.concatenate(tokens)], [lengths])

    def growth(self, store: ExampleStore) -> float:
        """Returns how many tokens one becomes, on the side where it is more; never less than 1."""
        if not self:
            return 1.0
        numbers = np.linspace(0, len(store) - 1, min(1000, len(store))).astype(np.int64)
        drawn = self.examples(store, numbers, 0).lengths.sum(axis=0)
        return max(1.0, float((drawn / store.lengths[numbers].sum(axis=0)).max()))


def _named(numbers: Sequence[int]) -> list[str]:
    """Returns a name for each: a mixture has a pair of a small corpus several times in a step."""
    times: Counter[int] = Counter()
    names = []
    for number in numbers:
        names.append(f"{number} {times[number]}" if times[number] else str(number))
        times[number] += 1
    return names


class VariedSteps:
    """The examples of each step as they are drawn.

    Pairs of the same length may differ much once they are drawn, and a planned batch of them would
    hold a third of padding. So a few planned steps are drawn together, sorted by length, and cut
    into as many of about equally many tokens, in random order.

    Args:
      store: the examples as they are stored.
      sampler: plans the steps by their usual lengths.
      variation: draws.
      seed: of the order.
    """

    def __init__(
        self, store: ExampleStore, sampler: TokenBatchSampler, variation: Variation, seed: int
    ):
        self._store, self._sampler, self._variation, self._seed = store, sampler, variation, seed
        self._drawn: dict[int, ExampleStore] = {}  # of planned steps
        self._steps, self._together = range(0), ExampleStore([], [])
        self._parts: list[np.ndarray] = []

    def at(self, step: int) -> tuple[ExampleStore, np.ndarray]:
        """Returns the examples of a step, counted from 0, as a store and their numbers there."""
        if step not in self._steps:
            self._cut(self._sampler.steps_beside(step, _STEPS_BESIDE))
        # A step of those that come next, so that drawing them takes no time at once.
        self._draw(step + len(self._steps))
        return self._together, self._parts[step - self._steps.start]

    def _draw(self, step: int) -> ExampleStore:
        if step not in self._drawn:
            numbers = self._sampler.at(step)
            self._drawn[step] = self._variation.examples(self._store, numbers, step)
        return self._drawn[step]

    def _cut(self, steps: range) -> None:
        self._steps, self._together = steps, ExampleStore.joined(list(map(self._draw, steps)))
        self._drawn = {step: each for step, each in self._drawn.items() if step >= steps.stop}
        longest = self._together.lengths.max(axis=1)
        order = np.argsort(longest, kind="stable")
        ends = np.array([end for _, end in even_parts(longest[order], len(steps))])
        # None is empty, not even beside a pair that is longer than all others together.
        numbers = np.arange(1, len(steps) + 1)
        more = np.maximum.accumulate(ends - numbers).clip(0, len(order) - len(steps))
        parts = np.split(order, (more + numbers)[:-1])
        random = np.random.default_rng([self._seed, steps.start])
        self._parts = [parts[i] for i in random.permutation(len(parts))]
