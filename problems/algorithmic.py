"""tensor2tensor's tasks on lines of binary digits: small, exact, and quick to learn.

Dev sequences are up to ten times as long as training sequences; `dev_length=40` makes both equally
long.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

from t2t_keras.data.problem import Problem, Score
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.text.alignment import Alignment


@dataclasses.dataclass(frozen=True)
class _Algorithmic(Problem):
    """Base of the tasks: pairs from a seeded generator, and a vocabulary of characters."""

    vocab_size: int = 16
    vocab_kind: str = "char"
    vocab_file: str = ""
    source_vocab_file: str = ""
    train_length: int = setting(40, "longest training input, in digits", minimum=3, maximum=10**5)
    dev_length: int = setting(400, "longest dev input, in digits", minimum=3, maximum=10**5)
    train_size: int = setting(100_000, "number of training pairs", minimum=1, maximum=10**8)
    dev_size: int = setting(10_000, "number of dev pairs", minimum=1, maximum=10**8)
    seed: int = setting(0, "seed of the random pairs", minimum=0)

    splits: ClassVar[tuple[str, ...]] = ("train", "dev")
    is_plain_text: ClassVar[bool] = False
    hparams_set: ClassVar[str] = "transformer_tiny"

    def examples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split, the same for the same settings."""
        size = self.train_size if split == "train" else self.dev_size
        max_length = self.train_length if split == "train" else self.dev_length
        generator = random.Random(f"{type(self).__name__} {split} {self.seed}")
        for _ in range(size):
            yield self.pair(generator, max_length)

    def pair(self, generator: random.Random, max_length: int) -> tuple[str, str]:
        """Draws an input of at most `max_length` characters, and its output."""
        length = generator.randint(1, max_length)
        digits = f"{generator.getrandbits(length):0{length}b}"
        return digits, self.output(digits)

    def output(self, digits: str) -> str:
        """Returns the correct output for an input; here a copy."""
        return digits

    @property
    def tokenize(self) -> str:
        """SacreBLEU's tokenisation: digits are scored one by one."""
        return "char"

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        sources: Sequence[str] = (),
        alignments: Sequence[Alignment | None] | None = None,
    ) -> Score:
        """Returns BLEU over digits; its report also gives the share of exact outputs."""
        # Imported here, since a machine that only trains may lack sacreBLEU.
        from t2t_keras.metrics import add_metrics, bleu

        score = bleu(hypotheses, references, self.tokenize)
        score = add_metrics(score, self.metrics, hypotheses, references, sources)
        exact = sum(map(str.__eq__, hypotheses, references))
        share = 100 * exact / len(references)
        exact_line = f"exact = {share:.2f} ({exact:,} of {len(references):,})"
        return dataclasses.replace(score, report=f"{exact_line}\n{score.report}")


@register_problem
class AlgorithmicIdentityBinary40(_Algorithmic):
    """Copies binary digits: up to 40 in training, up to 400 in the dev set."""


@register_problem
class AlgorithmicReverseBinary40(_Algorithmic):
    """Reverses binary digits: up to 40 in training, up to 400 in the dev set."""

    def output(self, digits: str) -> str:
        """Returns the digits backwards."""
        return digits[::-1]


@register_problem
class AlgorithmicAdditionBinary40(_Algorithmic):
    """Adds two binary numbers, lowest digit first: "011+1" -> "111"; up to 40 characters."""

    def pair(self, generator: random.Random, max_length: int) -> tuple[str, str]:
        """Draws two numbers, and returns them with their sum, without leading zeros."""
        first_length = generator.randint(1, max_length // 2)
        second_length = generator.randint(1, max_length - first_length - 1)
        numbers = [_number(generator, length) for length in (first_length, second_length)]
        return "+".join(map(_lowest_first, numbers)), _lowest_first(sum(numbers))


def _number(generator: random.Random, length: int) -> int:
    """Draws a number of exactly `length` binary digits; a single digit may be 0."""
    if length == 1:
        return generator.getrandbits(1)
    return 1 << (length - 1) | generator.getrandbits(length - 1)


def _lowest_first(number: int) -> str:
    return f"{number:b}"[::-1]
