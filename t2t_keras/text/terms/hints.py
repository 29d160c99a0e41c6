"""Hints in a source: how a word in front of them is to be translated.

"The dog ⟪ Köter ⟫ sleeps." tells a model that was trained with hints what "dog" is to become. The
marks are words of their own, and pieces of its vocabulary.
"""

import re
from collections.abc import Iterable

from t2t_keras.text.alignment import Alignment, split_words

MARKS = (
    "\N{MATHEMATICAL LEFT DOUBLE ANGLE BRACKET}",
    "\N{MATHEMATICAL RIGHT DOUBLE ANGLE BRACKET}",
)
_HINT = re.compile(f" {MARKS[0]} [^{''.join(MARKS)}]* {MARKS[1]}")


def with_hints(text: str, hints: Iterable[tuple[int, str]]) -> str:
    """Returns a text with hints behind some of its words.

    Args:
      text: without marks.
      hints: in their order, each with the position in the text where the words before it end.
    """
    parts, begin = [], 0
    for end, hint in hints:
        parts += [text[begin:end], f" {MARKS[0]} {hint} {MARKS[1]}"]
        begin = end
    return "".join([*parts, text[begin:]])


def without_hints(text: str) -> str:
    """Returns the text that `with_hints` was given."""
    return _HINT.sub("", text)


def places_with_hints(hinted: str, length: int) -> list[int]:
    """Returns where each place of a text, up to its end, is in the text with hints.

    Behind a word, that is behind its hint.

    Args:
      hinted: ends with the text with hints; words in front are for the model.
      length: of the text.
    """
    shift = len(without_hints(hinted)) - length
    places, begin = [], 0
    for hint in _HINT.finditer(hinted):
        places += range(begin, hint.start())
        begin = hint.end()
    return [*places, *range(begin, len(hinted) + 1)][shift:]


def has_marks(text: str) -> bool:
    """Returns whether a text has a mark, and so can be given no hints."""
    return any(mark in text for mark in MARKS)


def original_words(hinted: str) -> list[int]:
    """Returns, for each word of a text with hints, the number of the word of the text without.

    Those of a hint count as the word that it stands behind. Words are those of `word_numbers`.
    """
    before, inside, numbers = 0, False, []
    for word in split_words(hinted):
        inside = inside or word == MARKS[0]
        numbers.append(max(before - 1, 0) if inside else before)
        before += not inside
        # What stood right behind the word in front, as a comma, does so behind the mark.
        inside = inside and not word.startswith(MARKS[1])
    return numbers


def of_words_without_hints(alignment: Alignment, hinted: str) -> list[tuple[int, int]]:
    """Returns an alignment of a text with hints as one of the words of the text without."""
    numbers = original_words(hinted)
    pairs = ((numbers[source], target) for source, target in alignment)
    return list(dict.fromkeys(pairs))
