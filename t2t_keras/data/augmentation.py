"""Training examples drawn anew each time they are read: sampled subwords, and disturbed text.

`augment={upper: 0.05, typos: 0.1}` changes five of a hundred training pairs to capitals, ten others
to what is typed in a hurry, and leaves the rest. The changes, by name:

| name | of the source | of the target |
|---|---|---|
| `upper` | IN CAPITALS | likewise |
| `title` | Every Word With A Capital | likewise |
| `typos` | letters swapped, doubled, left out or added in some words | as it is |
| `diacritics` | a for ä and ç as c | as it is |
| `punctuation` | without punctuation at its end | likewise |
| `noise` | a number, a code or an emoji at its beginning or end | the same one there |

and those that are registered (`registry.register_augmentation`), or that a `PairTransform` adds.

What a step reads is a pure function of seed and step, so that a training that was interrupted goes
on as if it had not been. Dev and test sets are never varied.
"""

import itertools
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from t2t_keras.data.batches import TokenBatchSampler, even_parts
from t2t_keras.data.dataset import SIDES, ExampleStore
from t2t_keras.data.problem import Change, Pair
from t2t_keras.errors import UserError
from t2t_keras.registry import AUGMENTATIONS, register_augmentation
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.sentences import PRIVATE
from t2t_keras.text.tokenizer import Tokenizer

# Of the words with more letters than two; of shorter ones little would be left.
_TYPOS = 0.15
# Words in front that are for the model, as <2de> and <BT>.
_TOKENS = re.compile(r"(<[^\s<>]+>\s)*")
_EMOJIS = "😀😂😊😍🤔😭👍🙏🎉🔥❤⭐✅🚀"


class Augmentation:
    """The changes of some pairs, drawn by seeds.

    Args:
      augment: `Problem.augment`: names with shares of the pairs.
      more: others by name.
    """

    def __init__(self, augment: Mapping[str, float], more: Mapping[str, Change] | None = None):
        names = sorted(augment)  # Another order of the same shares draws the same changes.
        changes = [(more or {}).get(name) or AUGMENTATIONS[name] for name in names]
        ends = itertools.accumulate(augment[name] for name in names)
        self._changes = list(zip(ends, changes, strict=True))

    def __bool__(self) -> bool:
        return bool(self._changes)

    def drawn(self, seed: str) -> Callable[[str, str], Pair] | None:
        """Returns what a seed makes of a source and its target, None for nothing."""
        if not self._changes:
            return None
        # The change draws on: a second generator of this seed would begin with the same number.
        number = (generator := random.Random(seed)).random()
        change = next((change for below, change in self._changes if number < below), None)
        return change and (lambda *pair: changed(change, *pair, generator))


def changed(change: Change, source: str, target: str, random: random.Random) -> Pair:
    """Returns a changed pair; words in front of the source that are for the model stay."""
    tokens = _TOKENS.match(source)[0]
    source, target = change(source.removeprefix(tokens), target, random)
    return tokens + source, target


def disturbed(
    kind: str, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns a text all of whose lines are changed: a function of kind, line and its number.

    Raises:
      UserError: there is no such kind, or it makes two lines of one.
    """
    change, pairs = AUGMENTATIONS[kind], zip(sources, targets, strict=True)
    found = [
        changed(change, *pair, random.Random(f"{kind} {i}")) for i, pair in enumerate(pairs, 1)
    ]
    for i, pair in enumerate(found, 1):
        if "\n" in "".join(pair):
            raise UserError(
                f"The augmentation {kind} puts a line break into line {i}.", code="line_break"
            )
    return [source for source, _ in found], [target for _, target in found]


@register_augmentation
def upper(source: str, target: str, random: random.Random) -> Pair:
    """Both sides in capitals."""
    return source.upper(), target.upper()


@register_augmentation
def title(source: str, target: str, random: random.Random) -> Pair:
    """Both sides with a capital at the beginning of every word."""
    sides = (re.sub(r"(?<!\S)\w", lambda found: found[0].upper(), s) for s in (source, target))
    return tuple(sides)


@register_augmentation
def typos(source: str, target: str, random: random.Random) -> Pair:
    """Letters of the source swapped, doubled, left out or added, in one word at least."""
    words = re.split(r"(\w+)", source)
    long = [i for i, word in enumerate(words) if len(word) > 2 and word.isalpha()]
    wrong = {i for i in long if random.random() < _TYPOS} or {
        *random.sample(long, min(len(long), 1))
    }
    for i in sorted(wrong):
        words[i] = _typo(words[i], random)
    return "".join(words), target


def _typo(word: str, random: random.Random) -> str:
    # People seldom mistype the first letter.
    at = random.randrange(1, len(word))
    before, letter, after = word[:at], word[at], word[at + 1 :]
    other = random.choice(word.lower())
    kinds = [
        f"{before[:-1]}{letter}{before[-1]}{after}"
        if before[1:]
        else f"{before}{letter}{letter}{after}",
        f"{before}{letter}{letter}{after}",
        f"{before}{after}",
        f"{before}{other}{letter}{after}",
    ]
    return random.choice(kinds)


@register_augmentation
def diacritics(source: str, target: str, random: random.Random) -> Pair:
    """The source without marks above and below letters."""
    parts = unicodedata.normalize("NFD", source)
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", parts)), target


@register_augmentation
def punctuation(source: str, target: str, random: random.Random) -> Pair:
    """Both sides without the punctuation at their ends; what is nothing else stays."""
    sides = (re.sub(rf"(?<=\w)[^\w\s{PRIVATE}]+\s*$", "", side) for side in (source, target))
    return tuple(sides)


@register_augmentation
def noise(source: str, target: str, random: random.Random) -> Pair:
    """The same number, code or emoji at the beginning or the end of both sides."""
    digits = str(random.randrange(10 ** random.randint(1, 6)))
    letters = "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3))
    word = random.choice([digits, f"{letters}-{digits}", f"#{digits}", random.choice(_EMOJIS)])
    first = random.random() < 0.5
    sides = (f"{word} {side}" if first else f"{side} {word}" for side in (source, target))
    return tuple(sides)


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
