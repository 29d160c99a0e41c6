"""Finds the placeholders of a text, and compares those of a translation with them."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from t2t_keras.text.scripts import KATAKANA, UNSPACED
from t2t_keras.workbench.placeholders.syntaxes import ADDRESSES, KINDS, SIGNS, SPACE, SYMBOLS

# A literal symbol in a text is a placeholder, too.
_SYNTAXES = re.compile(
    f"[{SYMBOLS[0]}-{SYMBOLS[-1]}]|(?P<address>{'|'.join(ADDRESSES)})|{'|'.join(KINDS)}"
)
_CLOSING_TAG = re.compile(r"</([A-Za-z][\w.\-]*+)\s*+>")
# What ends a sentence around an address is not of it.
_TRAILING = ".,;:!?'*_"
_CLOSING = {")": "(", "]": "[", "}": "{"}
_UNNUMBERED = re.compile(
    r"%[#0\-+'I]*+(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGaAcsCSp]"
)
_LETTER = re.compile(r"[^\W\d_]")
_NUMBERED = re.compile(r"%\d+\$.*")
# Each character stands alone.
ALONE = UNSPACED + KATAKANA
# Characters that continue a word: Latin only after Latin, because other scripts attach particles.
_WORDS = (r"[^\W\u0250-\u1dff\u1f00-\U0010ffff]", rf"[^\W{ALONE}]")
_WORD_SIGNS = tuple(map(re.compile, _WORDS))


class Placeholder(NamedTuple):
    """A placeholder: `text` is that from `start` to `end`."""

    start: int
    end: int
    text: str


class Part(str):
    """A placeholder even inside a word, such as `int` in `<code>int</code>s`."""

    __slots__ = ()


def find(text: str, verbatim: Sequence[str] = ()) -> list[Placeholder]:
    r"""Returns the placeholders of a text, in order; none overlap.

    They are those of printf, Python, Ruby, Qt, KDE, the shell and templates (`%s`, `%(name)s`,
    `%1`, `{0}`, `${x}`), entities as `&nbsp;`, tags, escapes as `\n`, addresses of the web and of
    mail, and numbers with units as "5 MB" and "50 %". What looks like one of a syntax that is not
    known, as `%name%` and `:name`, is one as a whole.

    Args:
      text: any.
      verbatim: more pieces of text that are placeholders wherever they stand; within words only if
        they are a `Part`.
    """
    closed = set(_CLOSING_TAG.findall(text)) if "</" in text else ()
    pieces = _verbatim_places(text, [*verbatim, *(Part(f"<{name}>") for name in closed)])
    if not pieces and not SIGNS.search(text):
        return []
    placed, position = [], 0
    match, pieces = _SYNTAXES.search(text), pieces[::-1]
    while match or pieces:
        while pieces and pieces[-1][0] < position:
            pieces.pop()
        if match and match.start() < position:
            match = _SYNTAXES.search(text, position)
        if pieces and (not match or pieces[-1][0] <= match.start()):
            start, position = pieces.pop()
            placed.append(Placeholder(start, position, text[start:position]))
        elif match:
            piece = match[0]
            if match.lastgroup == "address":
                piece = _without_trailing(piece)
            position = match.start() + len(piece)
            placed.append(Placeholder(match.start(), position, piece))
    return placed


def _verbatim_places(text: str, verbatim: Sequence[str]) -> list[tuple[int, int]]:
    """Returns (start, end) of pieces of text, the longest at each place, in one pass."""
    kinds: dict[str, bool] = {}  # Whether a piece may be part of a word.
    for piece in filter(None, verbatim):
        kinds[str(piece)] = kinds.get(piece, False) or isinstance(piece, Part)
    lengths: dict[str, set[int]] = {}
    for piece in kinds:
        lengths.setdefault(piece[0], set()).add(len(piece))
    by_length = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
    places = []
    for start, first in enumerate(text) if kinds else ():
        for size in by_length.get(first, ()):
            piece = text[start : start + size]
            end = start + len(piece)
            if piece in kinds and (kinds[piece] or _is_whole(text, start, end)):
                places.append((start, end))
                break
    return places


def _is_whole(text: str, start: int, end: int) -> bool:
    """Returns whether the text from `start` to `end` is not part of a longer word."""
    first = next((word for word in _WORD_SIGNS if word.match(text, start)), None)
    last = next((word for word in _WORD_SIGNS if word.match(text, end - 1)), None)
    begins = not first or not start or not first.match(text, start - 1)
    return begins and (not last or not last.match(text, end))


def as_word(text: str, pattern: str) -> str:
    """Returns a pattern for a text that does not match inside longer words."""
    first = next((f"(?<!{word})" for word in _WORDS if re.match(word, text)), "")
    last = next((f"(?!{word})" for word in _WORDS if re.match(word, text[-1:])), "")
    return f"{first}{pattern}{last}"


def piece_at(text: str, start: int, end: int) -> str:
    """Returns the text from `start` to `end`; a `Part` if it is part of a longer word there."""
    piece = text[start:end]
    return piece if _is_whole(text, start, end) else Part(piece)


def _without_trailing(address: str) -> str:
    counts, end = Counter(address), len(address)
    while end > 1:
        last = address[end - 1]
        unopened = last in _CLOSING and counts[_CLOSING[last]] < counts[last]
        if last not in _TRAILING and not unopened:
            break
        counts[last] -= 1
        end -= 1
    return address[:end]


def has_words(text: str) -> bool:
    """Returns whether there is anything to translate: a letter outside of placeholders."""
    plain, position = [], 0
    for start, end, _ in find(text):
        plain.append(text[position:start])
        position = end
    return bool(_LETTER.search("".join([*plain, text[position:]])))


def missing(source: str, target: str, verbatim: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Returns the placeholders of a source that its translation lacks, and those that it has added.

    A number with a unit is the same in the spelling of another language: "1.5 GB", "1,5 GB".

    Args:
      source: text.
      target: its translation.
      verbatim: as of `find`.
    """
    lost, added = unmatched(find(source, verbatim), find(target, verbatim))
    return [placeholder.text for placeholder in lost], [placeholder.text for placeholder in added]


def unmatched(
    source: Sequence[Placeholder], target: Sequence[Placeholder]
) -> tuple[list[Placeholder], list[Placeholder]]:
    """Returns the placeholders of each side that the other lacks: of several alike the last ones.

    `%s` and `%d`, in this order, are the same as `%2$d` and `%1$s`.
    """
    sides = source, target
    numbered = [
        any(_NUMBERED.fullmatch(placeholder.text) for placeholder in side) for side in sides
    ]
    keys = []
    for side, other_is_numbered in zip(sides, reversed(numbered), strict=True):
        places = {placeholder: place for place, placeholder in enumerate(unnumbered(side), 1)}
        keys.append(
            [
                f"%{places[placeholder]}${placeholder.text[1:]}"
                if other_is_numbered and placeholder in places and placeholder.text[0] == "%"
                else key(placeholder.text)
                for placeholder in side
            ]
        )
    return tuple(
        _surplus(side, own_keys, Counter(other_keys))
        for side, own_keys, other_keys in zip(sides, keys, reversed(keys), strict=True)
    )


def _surplus(
    placeholders: Sequence[Placeholder], keys: Sequence[str], other_counts: Counter
) -> list[Placeholder]:
    surplus = []
    for placeholder, name in zip(placeholders, keys, strict=True):
        if other_counts[name]:
            other_counts[name] -= 1
        else:
            surplus.append(placeholder)
    return surplus


def key(placeholder: str) -> str:
    """Returns what is the same for a placeholder, and for a number in another way of writing."""
    if placeholder[0] in string.digits:
        placeholder = re.sub(rf"[.,'\u2019](?=\d{{3}}(?!\d))|{SPACE}", "", placeholder)
        return placeholder.replace(",", ".")
    return placeholder


def is_reordered(source: str, target: str) -> bool:
    """Returns whether conversions without a number, as `%d` and `%s`, have changed places.

    A program gives them their values in the order in which they stand.
    """
    sides = [unnumbered(find(text)) for text in (source, target)]
    texts = [[placeholder.text for placeholder in side] for side in sides]
    return texts[0] != texts[1] and sorted(texts[0]) == sorted(texts[1])


def unnumbered(placeholders: Sequence[Placeholder]) -> list[Placeholder]:
    """Returns those that a program takes by their places."""
    return [
        placeholder
        for placeholder in placeholders
        if _UNNUMBERED.fullmatch(placeholder.text) or placeholder.text == "{}"
    ]
