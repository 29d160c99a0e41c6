"""The toy translation problem: English to German, made by a small grammar of our own."""

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import ClassVar

from t2t_keras.data.problem import Problem
from t2t_keras.problems.toy_grammar import Grammar
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting


@register_problem
@dataclasses.dataclass(frozen=True)
class TranslateEndeToy(Problem):
    """English to German, about 80,000 made sentences: a model learns it in minutes on a CPU.

    The text has what makes German hard for a word-by-word translation: gender and case, verbs at
    the end, separable verbs. No sentence is in two splits, neither as source nor as target, as the
    hash of the German sentence decides its split (and the English one decides the German one).
    """

    source_language: str = setting("en", "language code of the source")
    target_language: str = setting("de", "language code of the target")
    vocab_size: int = setting(1200, "ids of the shared vocabulary (section 5.1)", minimum=400)

    # Pairs of each split, and the seed of the grammar that makes them.
    sizes: ClassVar[dict[str, int]] = {"train": 80_000, "dev": 500, "test": 500}
    seeds: ClassVar[dict[str, int]] = {"train": 1, "dev": 2, "test": 3}

    def examples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the distinct pairs of a split."""
        grammar = Grammar(self.seeds[split])
        seen = set()
        while len(seen) < self.sizes[split]:
            english, german = grammar.sentence()
            if english not in seen and split_of(german) == split:
                seen.add(english)
                yield english, german


def split_of(german: str) -> str:
    """Returns the split that a sentence belongs to: 5 % are dev, 5 % test, the rest train."""
    bucket = hashlib.sha256(german.encode()).digest()[0]
    return "dev" if bucket < 13 else "test" if bucket < 26 else "train"
