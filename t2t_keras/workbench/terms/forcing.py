"""Where in a translation a term that is missing belongs."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from t2t_keras.text.alignment import Alignment, split_words
from t2t_keras.workbench.terms.glossary import Match
from t2t_keras.workbench.terms.uses import aligned_words, words_of

_LEADING, _TRAILING = re.compile(r"\W*+"), re.compile(r"(?<!\W)\W*+$")


class Forced(NamedTuple):
    """Texts with a term that a translation lacked.

    Attributes:
      beginnings: end with the term, and what follows is free; or with the word after it, so that
        the term's last word does not become a longer one.
      wholes: the whole translation, changed in this place only.
    """

    beginnings: list[str]
    wholes: list[str]


def put_term(match: Match, source: str, target: str, alignment: Alignment) -> Forced:
    """Puts a term into a translation that lacks it.

    The term takes the place of the words that are aligned with it, or stands after the translation
    of what is in front of it.

    Args:
      match: of the term in the source.
      source: the text.
      target: its translation.
      alignment: of their words.
    """
    words = split_words(target)
    found = [
        _put_in(words, *place, match.term.target)
        for place in _places(match, source, len(words), alignment)
    ]
    beginnings = [begin for free, closed, _ in found for begin in (free, closed)]
    wholes = [whole for _, _, whole in found]
    return Forced(*(list(dict.fromkeys(map(" ".join, some))) for some in (beginnings, wholes)))


def _places(
    match: Match, source: str, count: int, alignment: Alignment
) -> Iterator[tuple[int, int]]:
    """Yields (first word, the word after the last one) that a term takes the place of."""
    aligned = sorted(aligned_words(source, match, alignment))
    runs = itertools.groupby(enumerate(aligned), lambda pair: pair[1] - pair[0])
    spans = [[word for _, word in run] for _, run in runs]
    for span in sorted(spans, key=len, reverse=True)[:2]:
        yield span[0], span[-1] + 1
    # After what is aligned, or after the translation of the nearest word in front.
    after = aligned[-1] + 1 if aligned else 0
    for word in reversed(range(min(words_of(source, match), default=0))):
        if not after:
            after = max((to + 1 for number, to in alignment if number == word), default=0)
    yield min(after, count), min(after, count)


def _put_in(words: Sequence[str], first: int, end: int, term: str) -> tuple[list[str], ...]:
    """Returns words up to the term, up to the next one, and all, with the term put in."""
    before, after = list(words[:first]), list(words[end:])
    leading = trailing = ""
    if first < end:
        leading = _LEADING.match(words[first])[0]
        trailing = _TRAILING.search(words[end - 1])[0] if words[end - 1] != leading else ""
    elif not after and before and (trailing := _TRAILING.search(before[-1])[0]):
        # In front of a full stop, not after it.
        before[-1] = before[-1].removesuffix(trailing)
        before = [word for word in before if word]
    if first == 0 and words and words[0][:1].isupper():
        term = term[:1].upper() + term[1:]
    free = [*before, leading + term]
    closed = [*before, leading + term + trailing]
    return free, closed + after[:1], closed + after
