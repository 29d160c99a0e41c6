"""Disturbed text: what users write, and training text lacks.

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
"""

import itertools
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from t2t_keras.data.transforms import Change, Pair
from t2t_keras.errors import UserError
from t2t_keras.registry import AUGMENTATIONS, register_augmentation
from t2t_keras.text.scripts import PRIVATE

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
