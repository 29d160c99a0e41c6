"""Online augmentation: training reads sampled subwords and disturbed text, new at each step.

`augment={upper: 0.05, typos: 0.1}` capitalises five of a hundred training pairs, puts typing errors
into ten others, and does not change the rest. The changes, by name:

| name | source | target |
|---|---|---|
| `upper` | IN CAPITALS | likewise |
| `title` | Every Word With A Capital | likewise |
| `typos` | letters swapped, doubled, left out or added in some words | unchanged |
| `diacritics` | a for ä, c for ç | unchanged |
| `punctuation` | without punctuation at its end | likewise |
| `noise` | a number, a code or an emoji at its beginning or end | the same in the same place |

`registry.register_augmentation` adds others, and so does a `PairTransform`.

A step's examples are a pure function of seed and step, so an interrupted training continues with
the same examples. Dev and test sets are never augmented.
"""

import functools
import itertools
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from t2t_keras.data.batches import TokenBatchSampler, split_by_tokens
from t2t_keras.data.dataset import SIDES, ExampleStore
from t2t_keras.data.problem import Change, Pair
from t2t_keras.errors import UserError
from t2t_keras.registry import AUGMENTATIONS, register_augmentation
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.sentences import PRIVATE_USE
from t2t_keras.text.tokenizer import Tokenizer

# Share of words with three or more letters that get a typing error.
_TYPO_SHARE = 0.15
# Control tokens in front of a source, as <2de> and <BT>.
_CONTROL_TOKENS = re.compile(r"(<[^\s<>]+>\s)+")
_EMOJIS = "😀😂😊😍🤔😭👍🙏🎉🔥❤⭐✅🚀"


# Steps that are divided into batches together: groups of 16 have 15 % padding (Multi30k), single
# steps 45 %.
_STEPS_IN_GROUP = 16


class OnlineAugmentation:
    """Draws the examples of each step.

    An example depends only on the seed, the step, the pair and its earlier uses in the step.

    Args:
      tokenizer: the vocabulary.
      seed: seed of all draws.
      sampling: `HParams.subword_sampling`; 0 = no sampling.
      nbest: `HParams.subword_nbest`.
      augment: `Problem.augment`; {} = no changes.
      transform_changes: changes that transforms define, by name: `Generated.augmentations`.

    Raises:
      UserError: the vocabulary cannot sample subwords, or does not support `nbest`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        seed: int,
        sampling: float = 0.0,
        nbest: int = 0,
        augment: Mapping[str, float] | None = None,
        transform_changes: Mapping[str, Change] | None = None,
    ):
        self._tokenizers, self._seed = (tokenizer.source, tokenizer), seed
        augment, transform_changes = augment or {}, transform_changes or {}
        names = sorted(augment)  # Sorted: the order of the shares must not change the draws.
        ends = itertools.accumulate(augment[name] for name in names)
        self._changes = [
            (end, transform_changes.get(name) or AUGMENTATIONS[name])
            for end, name in zip(ends, names, strict=True)
        ]
        self._samplers = [side.sampler(sampling, nbest) for side in self._tokenizers if sampling]
        if nbest and self._samplers and all(sampler.is_bpe for sampler in self._samplers):
            raise UserError(
                f"subword_nbest={nbest} has no effect with a bpe vocabulary: set subword_nbest=0.",
                code="conflicting_settings",
            )

    def examples(self, store: ExampleStore, numbers: np.ndarray, step: int) -> ExampleStore:
        """Returns the examples with these numbers, in this order, as a step reads them."""
        sides = [store.rows(numbers, side) for side in SIDES]
        seeds, occurrences = [], Counter[int]()
        for number in numbers.tolist():
            # A mixture may read a pair of a small corpus several times in a step.
            suffix = f" {occurrences[number]}" * (occurrences[number] > 0)
            seeds.append(f"{self._seed} {step} {number}{suffix}")
            occurrences[number] += 1
        changes = [choose_change(self._changes, seed) for seed in seeds]
        # A pair with an unknown id stays as it is: the id's text is lost.
        indices = [
            i
            for i, pair in enumerate(zip(*sides, strict=True))
            if (changes[i] or self._samplers) and not any((ids == UNKNOWN_ID).any() for ids in pair)
        ]
        tokenizers = zip(self._tokenizers, sides, strict=True)
        texts = [tokenizer.decode([rows[i] for i in indices]) for tokenizer, rows in tokenizers]
        pairs: list[Pair] = list(zip(*texts, strict=True))
        for row, i in enumerate(indices):
            if change := changes[i]:
                pairs[row] = change(*pairs[row])
        for side, rows in enumerate(sides):
            lines = [pair[side] for pair in pairs]
            if self._samplers:
                line_seeds = [f"{seeds[i]} {SIDES[side]}" for i in indices]
                encoded = self._samplers[side].sample(lines, line_seeds)
            else:
                encoded = self._tokenizers[side].encode_corpus(lines)
            for i, ids in zip(indices, encoded, strict=True):
                rows[i] = ids
        lengths = np.array([list(map(len, pair)) for pair in zip(*sides, strict=True)], np.int32)
        tokens = [ids for pair in zip(*sides, strict=True) for ids in pair]
        return ExampleStore([np.concatenate(tokens)], [lengths])

    def token_expansion(self, store: ExampleStore) -> float:
        """Returns the factor by which tokens increase, on the side that grows more; at least 1."""
        numbers = np.linspace(0, len(store) - 1, min(1000, len(store))).astype(np.int64)
        drawn_tokens = self.examples(store, numbers, 0).lengths.sum(axis=0)
        return max(1.0, float((drawn_tokens / store.lengths[numbers].sum(axis=0)).max()))


class AugmentedSteps:
    """The augmented examples of each step.

    Augmentation changes the lengths of pairs: a third of a planned batch would be padding. So
    several planned steps are augmented together, and divided again into batches of about equal
    tokens, by length or by rows (see `TokenBatchSampler`), in random order.

    Args:
      store: the examples as they are stored.
      sampler: plans the steps by the stored lengths.
      augmentation: draws the examples.
      seed: seed of the order of the batches in a group.
    """

    def __init__(
        self,
        store: ExampleStore,
        sampler: TokenBatchSampler,
        augmentation: OnlineAugmentation,
        seed: int,
    ):
        self._store, self._sampler, self._seed = store, sampler, seed
        self._augmentation = augmentation
        self._step_examples: dict[int, ExampleStore] = {}  # By planned step.
        self._steps, self._group = range(0), ExampleStore([], [])
        self._batches: list[np.ndarray] = []

    def at(self, step: int) -> tuple[ExampleStore, np.ndarray]:
        """Returns a store with the examples of `step` (from 0), and their numbers in the store."""
        if step not in self._steps:
            self._begin_group(self._sampler.step_group(step, _STEPS_IN_GROUP))
        # Draw one step of the next group ahead, so that no step waits for a whole group.
        self._draw(step + len(self._steps))
        return self._group, self._batches[step - self._steps.start]

    def _draw(self, step: int) -> ExampleStore:
        if step not in self._step_examples:
            numbers = self._sampler.at(step)
            self._step_examples[step] = self._augmentation.examples(self._store, numbers, step)
        return self._step_examples[step]

    def _begin_group(self, steps: range) -> None:
        self._steps, self._group = steps, ExampleStore.concatenate(list(map(self._draw, steps)))
        self._step_examples = {
            step: x for step, x in self._step_examples.items() if step >= steps.stop
        }
        random = np.random.default_rng([self._seed, steps.start])
        if self._sampler.by_rows:
            order = random.permutation(len(self._group))
            self._batches = self._sampler.divide_by_rows(self._group.lengths, order, len(steps))
            return
        max_sides = self._group.lengths.max(axis=1)
        order = np.argsort(max_sides, kind="stable")
        ends = np.array([end for _, end in split_by_tokens(max_sides[order], len(steps))])
        # No batch is empty, even if one pair is longer than all others together.
        numbers = np.arange(1, len(steps) + 1)
        spare = np.maximum.accumulate(ends - numbers).clip(0, len(order) - len(steps))
        batches = np.split(order, (spare + numbers)[:-1])
        self._batches = [batches[i] for i in random.permutation(len(batches))]


def choose_change(
    changes: Sequence[tuple[float, Change]], seed: str
) -> Callable[[str, str], Pair] | None:
    """Returns the change that a seed draws for a pair, or None.

    Args:
      changes: pairs (cumulative share, change).
      seed: seed of the choice and of the change.
    """
    if not changes:
        return None
    # The change continues with this generator: a new one would begin with the same number.
    generator = random.Random(seed)
    number = generator.random()
    change = next((change for end, change in changes if number < end), None)
    return change and functools.partial(apply_change, change, random=generator)


def apply_change(change: Change, source: str, target: str, random: random.Random) -> Pair:
    """Returns a changed pair; control tokens in front of the source stay."""
    tokens = _CONTROL_TOKENS.match(source)
    start = tokens.end() if tokens else 0
    changed_source, target = change(source[start:], target, random)
    return source[:start] + changed_source, target


def disturb(
    kind: str, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns a text with all lines changed, each as a function of kind, line and line number.

    Raises:
      UserError: there is no such kind, or it adds a line break.
    """
    change, pairs = AUGMENTATIONS[kind], []
    for number, pair in enumerate(zip(sources, targets, strict=True), 1):
        pairs.append(apply_change(change, *pair, random.Random(f"{kind} {number}")))
        if "\n" in "".join(pairs[-1]):
            raise UserError(
                f"The augmentation {kind} puts a line break into line {number}.", code="line_break"
            )
    return [source for source, _ in pairs], [target for _, target in pairs]


@register_augmentation
def upper(source: str, target: str, random: random.Random) -> Pair:
    """Both sides in capitals."""
    return source.upper(), target.upper()


@register_augmentation
def title(source: str, target: str, random: random.Random) -> Pair:
    """Both sides with a capital at the beginning of every word."""

    def capitalised(text: str) -> str:
        return re.sub(r"(?<!\S)\w", lambda letter: letter[0].upper(), text)

    return capitalised(source), capitalised(target)


@register_augmentation
def typos(source: str, target: str, random: random.Random) -> Pair:
    """Letters of the source swapped, doubled, left out or added, in at least one word."""
    words = re.split(r"(\w+)", source)
    long_words = [i for i, word in enumerate(words) if len(word) > 2 and word.isalpha()]
    typo_indices = {i for i in long_words if random.random() < _TYPO_SHARE} or {
        *random.sample(long_words, min(len(long_words), 1))
    }
    for i in sorted(typo_indices):
        words[i] = _with_typo(words[i], random)
    return "".join(words), target


def _with_typo(word: str, random: random.Random) -> str:
    # People seldom mistype the first letter.
    index = random.randrange(1, len(word))
    before, letter, after = word[:index], word[index], word[index + 1 :]
    other_letter = random.choice(word.lower())
    variants = [
        f"{before[:-1]}{letter}{before[-1]}{after}"
        if before[1:]
        else f"{before}{letter}{letter}{after}",
        f"{before}{letter}{letter}{after}",
        f"{before}{after}",
        f"{before}{other_letter}{letter}{after}",
    ]
    return random.choice(variants)


@register_augmentation
def diacritics(source: str, target: str, random: random.Random) -> Pair:
    """The source without marks above and below letters."""
    decomposed = unicodedata.normalize("NFD", source)
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", decomposed)), target


@register_augmentation
def punctuation(source: str, target: str, random: random.Random) -> Pair:
    """Both sides without the punctuation at their ends, unless they have no words."""
    ending = re.compile(rf"(?<=\w)[^\w\s{PRIVATE_USE}]+\s*$")
    return ending.sub("", source), ending.sub("", target)


@register_augmentation
def noise(source: str, target: str, random: random.Random) -> Pair:
    """The same number, code or emoji at the beginning or the end of both sides."""
    digits = str(random.randrange(10 ** random.randint(1, 6)))
    letters = "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3))
    word = random.choice([digits, f"{letters}-{digits}", f"#{digits}", random.choice(_EMOJIS)])
    if random.random() < 0.5:
        return f"{word} {source}", f"{word} {target}"
    return f"{source} {word}", f"{target} {word}"
