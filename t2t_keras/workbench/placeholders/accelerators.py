"""Accelerators: the letter after the mark in `_File` and `&File`, which opens a menu."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from t2t_keras.workbench.placeholders.finding import Placeholder, find

_NO_LETTERS = re.compile(r"\W")
_MARK = re.compile(r"(?<!&)&(?=[^\W_])|_(?=[^\W\d_])")
# Longer texts are no labels, nor are sentences.
_MOST_CHARACTERS = 200
_SENTENCE = re.compile(r"(?<!\.)\.$|[.!?]\s|\n")


class Accelerator(NamedTuple):
    """The letter that a mark stands in front of.

    Attributes:
      mark: `_` or `&`.
      letter: as it stands in the text.
      offset: of the mark.
      text: the text without the mark.
    """

    mark: str
    letter: str
    offset: int
    text: str = ""


def without_mark(
    text: str, is_label: bool = False, marks: str = "_&"
) -> tuple[str, Accelerator | None]:
    """Returns a text without the mark of its accelerator, and the accelerator, if it has one.

    Sentences have none. Within a word in small letters, as in `ö_ffnen`, a mark is one only where
    the text `is_label`, as the translation of one: else it is of a name, as in `file_name`.
    """
    if len(text) > _MOST_CHARACTERS or not any(mark in text for mark in marks):
        return text, None
    places = [match.start() for match in _MARK.finditer(text) if match[0] in marks]
    if not places or _SENTENCE.search(text.strip()):
        return text, None
    taken = find(text)
    places = [
        place for place in places if _opens_menu(text, place, is_label) and _is_free(place, taken)
    ]
    if len(places) != 1:
        return text, None
    [place] = places
    bare = text[:place] + text[place + 1 :]
    if [piece.text for piece in find(bare)] != [piece.text for piece in taken]:
        return text, None
    return bare, Accelerator(text[place], text[place + 1], place, bare)


def _opens_menu(text: str, place: int, is_label: bool) -> bool:
    """Returns whether a mark is not of a name, as in R&D, AT&T, snake_case and __init__."""
    before = _NO_LETTERS.split(text[:place])[-1]
    after = _NO_LETTERS.split(text[place + 1 :], maxsplit=1)[0]
    if "_" in before + after:
        return False
    within_a_word = after[0].islower() and (is_label or before[:1].isupper())
    return not before or (within_a_word and (before + after).isalpha())


def _is_free(place: int, taken: Sequence[Placeholder]) -> bool:
    return not any(placeholder.start <= place < placeholder.end for placeholder in taken)


def with_mark(text: str, accelerator: Accelerator) -> str:
    """Returns a translation with an accelerator: the same letter, at a word's beginning if it can.

    Without that letter it is the first one; text in a script without capitals gets it in brackets
    at its end, as `文件(_F)`.
    """
    if not text.strip():
        return text
    if text.casefold() == accelerator.text.casefold():
        place = accelerator.offset
        return f"{text[:place]}{accelerator.mark}{text[place:]}"
    taken, letter = find(text), re.escape(accelerator.letter)
    for pattern in (rf"(?<![^\W_]){letter}", letter, r"(?<![^\W_])[^\W\d_]"):
        for match in re.finditer(pattern, text, re.IGNORECASE):
            place = match.start()
            has_key = match[0].isdigit() or match[0].lower() != match[0].upper()
            if has_key and _is_free(place, taken):
                return f"{text[:place]}{accelerator.mark}{text[place:]}"
    end = len(text.rstrip(" .:…\u3002"))
    return f"{text[:end]}({accelerator.mark}{accelerator.letter.upper()}){text[end:]}"
