"""Hints in a source: how a term of it is to be translated.

"The ⟪ dog ⟪ Köter ⟫ sleeps." tells a model that was trained with hints what "dog" is to become, and
of what words the hint is. The marks are words of their own, and pieces of its vocabulary.
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator

from t2t_keras.text.alignment import Alignment, word_spans

MARKS = (
    "\N{MATHEMATICAL LEFT DOUBLE ANGLE BRACKET}",
    "\N{MATHEMATICAL RIGHT DOUBLE ANGLE BRACKET}",
)
_NO_MARKS = f"[^{''.join(MARKS)}]*"
_HINT = re.compile(f"{MARKS[0]} ({_NO_MARKS}) {MARKS[0]} {_NO_MARKS} {MARKS[1]}")


def with_hints(text: str, hints: Iterable[tuple[int, int, str]]) -> str:
    """Returns a text with hints for some of its terms.

    Args:
      text: without marks.
      hints: in their order, each with where the term begins and ends in the text.
    """
    parts, begin = [], 0
    for start, end, hint in hints:
        term = f"{MARKS[0]} {text[start:end]} {MARKS[0]} {hint} {MARKS[1]}"
        parts += [text[begin:start], term]
        begin = end
    return "".join([*parts, text[begin:]])


def without_hints(text: str) -> str:
    """Returns the text that `with_hints` was given."""
    return _HINT.sub(r"\1", text)


def places_with_hints(hinted: str, length: int) -> list[int]:
    """Returns where each place of a text, up to its end, is in the text with hints.

    After a term, that is after its hint.

    Args:
      hinted: ends with the text with hints; words in front are for the model.
      length: of the text.
    """
    places = [place for place, _, is_own in _places(hinted) if is_own]
    return [*places, len(hinted)][len(places) - length :]


def has_marks(text: str) -> bool:
    """Returns whether a text has a mark, and so can be given no hints."""
    return any(mark in text for mark in MARKS)


def original_words(hinted: str) -> list[int]:
    """Returns, for each word of a text with hints, the number of the word of the text without.

    Those of a hint count as the last one of its term. Words are those of `word_numbers`.
    """
    plain = without_hints(hinted)
    starts = [start for start, _ in word_spans(plain)]
    numbers = [bisect.bisect(starts, place) - 1 for place in range(len(plain))]
    own = [place for _, place, _ in _places(hinted)]
    return [max(numbers[own[start]], 0) for start, _ in word_spans(hinted)]


def _places(hinted: str) -> Iterator[tuple[int, int, bool]]:
    """Yields each place of a text with hints, that in the text without, and whether it is its own.

    A mark before a term is at its beginning, and a hint at its last character.
    """
    begin = place = 0
    for found in [*_HINT.finditer(hinted), None]:
        start = found.start() if found else len(hinted)
        yield from zip(range(begin, start), itertools.count(place), itertools.repeat(True))
        if not found:
            break
        place += start - begin
        first, last = found.span(1)
        yield from ((each, place, False) for each in range(start, first))
        yield from zip(range(first, last), itertools.count(place), itertools.repeat(True))
        place += last - first
        begin = found.end()
        yield from ((each, max(place - 1, 0), False) for each in range(last, begin))


def of_words_without_hints(alignment: Alignment, hinted: str) -> list[tuple[int, int]]:
    """Returns an alignment of a text with hints as one of the words of the text without."""
    numbers = original_words(hinted)
    pairs = ((numbers[source], target) for source, target in alignment)
    return list(dict.fromkeys(pairs))
