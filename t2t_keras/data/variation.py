"""Training examples drawn anew each time they are read: sampled subwords, and disturbed text.

What a step reads of an example is a pure function of (seed, step, example), so that a training that
was interrupted goes on as if it had not been. Dev and test sets are never varied.
"""

import numpy as np

from t2t_keras.data.augmentation import Augmentation
from t2t_keras.data.shards import SIDES, ExampleStore
from t2t_keras.text.lexicon import Lexicon
from t2t_keras.text.tokenizer import UNKNOWN_ID, Tokenizer


class Variation:
    """Draws the examples of each step.

    Args:
      tokenizer: the vocabulary.
      seed: of what is drawn.
      sampling: `HParams.subword_sampling`; 0 = text is divided as ever.
      nbest: `HParams.subword_nbest`.
      augment: `Problem.augment`; "" = text stays as it is.
      lexicon: of the data, for `augment=terms`.

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
        lexicon: Lexicon | None = None,
    ):
        self._tokenizers, self._seed = (tokenizer.source, tokenizer), seed
        self._augmentation = Augmentation(augment, lexicon)
        self._samplers = [each.sampler(sampling, nbest) for each in self._tokenizers if sampling]

    def __bool__(self) -> bool:
        return bool(self._samplers or self._augmentation)

    def examples(self, store: ExampleStore, numbers: np.ndarray, step: int) -> ExampleStore:
        """Returns the examples with these numbers as a step reads them, in this order."""
        padded = [store.padded(numbers, side) for side in SIDES]
        lengths = zip(padded, store.lengths[numbers].T, strict=True)
        sides = [[row[:size] for row, size in zip(*side, strict=True)] for side in lengths]
        seeds = [f"{self._seed} {step} {number}" for number in numbers.tolist()]
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
