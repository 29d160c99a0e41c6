"""Training examples drawn anew each time they are read: sampled subwords, and disturbed text.

What a step reads of an example is a pure function of (seed, step, example), so that a training that
was interrupted goes on as if it had not been. Dev and test sets are never varied.
"""

import random
from collections.abc import Sequence

import numpy as np

from t2t_keras.data.augmentation import Augmentation, changed
from t2t_keras.data.shards import SIDES, ExampleStore
from t2t_keras.text.tokenizer import UNKNOWN_ID, Tokenizer


class Variation:
    """Draws the examples of each step.

    Args:
      tokenizer: the vocabulary.
      seed: of what is drawn.
      sampling: `HParams.subword_sampling`; 0 = text is divided as ever.
      nbest: `HParams.subword_nbest`.
      augment: `Problem.augment`; "" = text stays as it is.

    Raises:
      UserError: the vocabulary cannot sample, or `augment` is wrong.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        seed: int,
        sampling: float = 0.0,
        nbest: int = 0,
        augment: str = "",
    ):
        self._tokenizers, self._seed = (tokenizer.source, tokenizer), seed
        self._sampling, self._nbest = sampling, nbest
        self._augmentation = Augmentation(augment)
        if sampling:
            for each in self._tokenizers:
                each.check_sampling()

    def __bool__(self) -> bool:
        return bool(self._sampling or self._augmentation)

    def examples(self, store: ExampleStore, numbers: np.ndarray, step: int) -> ExampleStore:
        """Returns the examples with these numbers as a step reads them, in this order."""
        sides = [_rows(store, numbers, side) for side in SIDES]
        seeds = _seeds(self._seed, step, numbers)
        # Of what became the unknown id, the text is lost.
        known = [all(UNKNOWN_ID not in ids for ids in pair) for pair in zip(*sides, strict=True)]
        changes = [self._augmentation.drawn(int(seed)) for seed in seeds]
        varied = [i for i, change in enumerate(changes) if known[i] and (change or self._sampling)]
        decoders = zip(self._tokenizers, sides, strict=True)
        texts = [each.decode([rows[i] for i in varied]) for each, rows in decoders]
        pairs = list(zip(*texts, strict=True))
        for row, i in enumerate(varied):
            if changes[i]:
                drawn = random.Random(int(seeds[i]))
                pairs[row] = changed(changes[i], *pairs[row], drawn)
        for number, (tokenizer, rows) in enumerate(zip(self._tokenizers, sides, strict=True)):
            encoded = self._encode(
                tokenizer, [pair[number] for pair in pairs], seeds[varied] + number
            )
            for i, ids in zip(varied, encoded, strict=True):
                rows[i] = ids
        lengths = np.array([list(map(len, pair)) for pair in zip(*sides, strict=True)], np.int32)
        tokens = [ids for pair in zip(*sides, strict=True) for ids in pair]
        return ExampleStore([np.concatenate(tokens)], [lengths])

    def _encode(
        self, tokenizer: Tokenizer, lines: Sequence[str], seeds: np.ndarray
    ) -> list[np.ndarray]:
        if not self._sampling:
            return tokenizer.encode(lines)
        return tokenizer.sample(lines, self._sampling, self._nbest, seeds.tolist())


def _rows(store: ExampleStore, numbers: np.ndarray, side: str) -> list[np.ndarray]:
    lengths = store.lengths[numbers, SIDES.index(side)]
    padded = store.padded(numbers, side)
    return [row[:length] for row, length in zip(padded, lengths, strict=True)]


def _seeds(seed: int, step: int, numbers: np.ndarray) -> np.ndarray:
    """Returns a seed below 2^32 - 1 for each example of a step, by the mixer of splitmix64."""
    mixed = np.uint64(seed % (1 << 64))
    for value in (np.uint64(step), np.asarray(numbers, np.uint64)):
        with np.errstate(over="ignore"):
            mixed = (mixed ^ value) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64((1 << 32) - 1)).astype(np.int64)
