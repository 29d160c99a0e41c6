"""Where in a translation a term that is missing belongs."""

import itertools
import re
from collections.abc import Iterator, Sequence

from t2t_keras.text.alignment import Alignment, split_words
from t2t_keras.text.glossary import Match
from t2t_keras.text.term_uses import aligned_words, words_of

_LEADING, _TRAILING = re.compile(r"[^\w]*"), re.compile(r"[^\w]*$")


def beginnings_with(match: Match, source: str, target: str, alignment: Alignment) -> list[str]:
    """Returns beginnings of a translation that have a term it lacks, without repetition.

    The term takes the place of the words that are aligned with it, or stands behind the translation
    of what is in front of it. Some beginnings end with the term, and what follows is free; some
    with the next word, so that the term's last one does not become a longer one; and some are the
    whole translation with the term put in.

    Args:
      match: of the term in the source.
      source: the text.
      target: its translation.
      alignment: of their words.
    """
    words = split_words(target)
    found: list[list[str]] = []
    for first, end in _places(match, source, len(words), alignment):
        found += _put_in(words, first, end, match.term.target)
    return list(dict.fromkeys(map(" ".join, found)))


def _places(
    match: Match, source: str, count: int, alignment: Alignment
) -> Iterator[tuple[int, int]]:
    """Yields (first word, the word behind the last one) that a term takes the place of."""
    aligned = sorted(aligned_words(source, match, alignment))
    runs = itertools.groupby(enumerate(aligned), lambda pair: pair[1] - pair[0])
    spans = [[word for _, word in run] for _, run in runs]
    for span in sorted(spans, key=len, reverse=True)[:2]:
        yield span[0], span[-1] + 1
    # Behind what is aligned, or behind the translation of the nearest word in front.
    behind = aligned[-1] + 1 if aligned else 0
    for word in reversed(range(min(words_of(source, match), default=0))):
        if not behind:
            behind = max((to + 1 for number, to in alignment if number == word), default=0)
    yield min(behind, count), min(behind, count)


def _put_in(words: Sequence[str], first: int, end: int, term: str) -> list[list[str]]:
    """Returns beginnings in which the term takes the place of some words, or of none."""
    before, after = list(words[:first]), list(words[end:])
    leading = trailing = ""
    if first < end:
        leading = _LEADING.match(words[first])[0]
        trailing = _TRAILING.search(words[end - 1])[0] if words[end - 1] != leading else ""
    elif not after and before and (trailing := _TRAILING.search(before[-1])[0]):
        # In front of a full stop, not behind it.
        before[-1] = before[-1].removesuffix(trailing)
        before = [word for word in before if word]
    if first == 0 and words and words[0][:1].isupper():
        term = term[:1].upper() + term[1:]
    free = [*before, leading + term]
    closed = [*before, leading + term + trailing]
    return [free, closed + after[:1], closed + after]
