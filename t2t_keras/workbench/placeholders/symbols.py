"""Replaces placeholders by symbols, which a model learns to copy.

A symbol is a single character, and a piece of the vocabulary. The first symbol of a line depends on
the line's hash, so that all symbols are equally frequent in training.
"""

import dataclasses
import itertools
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from t2t_keras.text.files import replace_spans
from t2t_keras.workbench.placeholders.finding import SYMBOLS, Placeholder, find

_NON_WORD = re.compile(r"\W")
_ACCELERATOR_MARK = re.compile(r"(?<!&)&(?=[^\W_])|_(?=[^\W\d_])")
# Longer texts, and sentences, are not labels.
_MAX_LABEL_LENGTH = 200
_SENTENCE = re.compile(r"(?<!\.)\.$|[.!?]\s|\n")


class Accelerator(NamedTuple):
    """The shortcut letter of a menu entry, as in `_File` and `&File`.

    Attributes:
      mark: `_` or `&`, before the letter.
      letter: the letter, in upper or lower case as in the text.
      offset: position of the mark.
      text: the text without the mark.
    """

    mark: str
    letter: str
    offset: int
    text: str = ""


def without_mark(
    text: str, is_label: bool = False, marks: str = "_&"
) -> tuple[str, Accelerator | None]:
    """Removes the mark of an accelerator; returns the text, and the accelerator or None.

    Sentences have no accelerator. Inside a lower-case word, a mark counts only if `is_label`, as in
    `ö_ffnen`, a label's translation. Otherwise it belongs to a name, as in `file_name`.
    """
    if len(text) > _MAX_LABEL_LENGTH or not any(mark in text for mark in marks):
        return text, None
    places = [match.start() for match in _ACCELERATOR_MARK.finditer(text) if match[0] in marks]
    if not places or _SENTENCE.search(text.strip()):
        return text, None
    placeholders = find(text)
    places = [
        place
        for place in places
        if _is_accelerator(text, place, is_label) and _is_outside(place, placeholders)
    ]
    if len(places) != 1:
        return text, None
    [place] = places
    bare = text[:place] + text[place + 1 :]
    if [piece.text for piece in find(bare)] != [piece.text for piece in placeholders]:
        return text, None
    return bare, Accelerator(text[place], text[place + 1], place, bare)


def _is_accelerator(text: str, place: int, is_label: bool) -> bool:
    """Returns whether a mark is an accelerator; the marks in R&D, AT&T and snake_case are not."""
    before = _NON_WORD.split(text[:place])[-1]
    after = _NON_WORD.split(text[place + 1 :], maxsplit=1)[0]
    if "_" in before + after:
        return False
    is_inside_word = after[0].islower() and (is_label or before[:1].isupper())
    return not before or (is_inside_word and (before + after).isalpha())


def _is_outside(place: int, placeholders: Sequence[Placeholder]) -> bool:
    return not any(placeholder.start <= place < placeholder.end for placeholder in placeholders)


def with_mark(text: str, accelerator: Accelerator) -> str:
    """Marks the accelerator's letter in a translation, preferably at the start of a word.

    If the translation lacks the letter, marks the first letter of a word. In a script without
    capitals, appends the accelerator's letter in brackets, as in `文件(_F)`.
    """
    if not text.strip():
        return text
    if text.casefold() == accelerator.text.casefold():
        place = accelerator.offset
        return f"{text[:place]}{accelerator.mark}{text[place:]}"
    placeholders, letter = find(text), re.escape(accelerator.letter)
    for pattern in (rf"(?<![^\W_]){letter}", letter, r"(?<![^\W_])[^\W\d_]"):
        for match in re.finditer(pattern, text, re.IGNORECASE):
            place = match.start()
            can_be_typed = match[0].isdigit() or match[0].lower() != match[0].upper()
            if can_be_typed and _is_outside(place, placeholders):
                return f"{text[:place]}{accelerator.mark}{text[place:]}"
    end = len(text.rstrip(" .:…\u3002"))
    return f"{text[:end]}({accelerator.mark}{accelerator.letter.upper()}){text[end:]}"


_ANY_SYMBOL = re.compile(f"[{SYMBOLS[0]}-{SYMBOLS[-1]}]")


@dataclasses.dataclass(frozen=True)
class Shield:
    """A line with symbols, and the placeholders that they replace.

    Attributes:
      text: the line with symbols for placeholders.
      verbatim: pieces of `text` that its translation must keep.
      places: (start, end) in the line of each replaced piece.
      originals: placeholders by symbol; None = no symbols, outputs stay unchanged.
    """

    text: str
    verbatim: tuple[str, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    originals: Mapping[str, str] | None = None

    def restore(self, output: str) -> str:
        """Returns an output with placeholders for symbols; drops unknown symbols."""
        originals = self.originals
        if originals is None:
            return output
        return _ANY_SYMBOL.sub(lambda match: originals.get(match[0], ""), output)

    def hide(self, text: str) -> str:
        """Undoes `restore`, for example for the prefix of a translation."""
        if self.originals is None:
            return text
        symbols: dict[str, list[str]] = {}
        for symbol, original in self.originals.items():
            symbols.setdefault(original, []).append(symbol)
        return _replace(text, _assign_by_text(find(text, [*self.originals.values()]), symbols))

    def offset(self, position: int) -> int:
        """Converts a position in the line to `text`; inside a placeholder, to its symbol's end."""
        new_position = position
        for start, end in self.places:
            if end <= position:
                new_position -= end - start - 1
            elif start < position:
                return new_position - (position - start - 1)
        return new_position


def shield(line: str, verbatim: Sequence[str] = (), symbols: bool = False) -> Shield:
    """Shields a line.

    Args:
      line: the user's text.
      verbatim: additional placeholders, see `find`.
      symbols: whether to replace placeholders by symbols, until no symbols are left.
    """
    if not symbols:
        return Shield(line, tuple(verbatim))
    placeholders = find(line, verbatim)
    assignment = _assign_in_order(placeholders, _symbol_order(line))
    unreplaced = {placeholder.text for placeholder in placeholders if placeholder not in assignment}
    verbatim = tuple(piece for piece in verbatim if piece in unreplaced)
    places = tuple((start, end) for start, end, _ in assignment)
    originals = {symbol: placeholder.text for placeholder, symbol in assignment.items()}
    return Shield(_replace(line, assignment), verbatim, places, originals)


def shield_pair(source: str, target: str) -> tuple[str, str]:
    """Replaces the placeholders that both sides have by symbols.

    If both sides have an accelerator, also removes the marks of the accelerators.
    """
    bare, accelerator = without_mark(source)
    bare_target, target_accelerator = without_mark(target, is_label=accelerator is not None)
    if accelerator and target_accelerator:
        source, target = bare, bare_target
    source_placeholders, target_placeholders = find(source), find(target)
    symbols_by_text: dict[str, list[str]] = {}
    symbols = iter(_symbol_order(source))
    target_texts = [placeholder.text for placeholder in target_placeholders]
    for _, _, text in source_placeholders:
        if text in target_texts:
            target_texts.remove(text)
            symbols_by_text.setdefault(text, []).append(next(symbols, text))
    source = _replace(source, _assign_by_text(source_placeholders, symbols_by_text))
    return source, _replace(target, _assign_by_text(target_placeholders, symbols_by_text))


def _assign_in_order(
    placeholders: Sequence[Placeholder], symbols: Sequence[str]
) -> dict[Placeholder, str]:
    """Assigns a symbol to each placeholder, in order, until no symbols are left.

    Placeholders that are symbols themselves come first.
    """
    unused = iter(symbols)
    literal_symbols = dict.fromkeys(text for _, _, text in placeholders if text in SYMBOLS)
    by_literal = {literal: next(unused) for literal in literal_symbols}
    assignment = {
        placeholder: by_literal.get(placeholder.text) or next(unused, None)
        for placeholder in placeholders
    }
    return {placeholder: symbol for placeholder, symbol in assignment.items() if symbol}


def _symbol_order(line: str) -> tuple[str, ...]:
    start = zlib.crc32(line.encode("utf-8", "replace")) % len(SYMBOLS)
    return SYMBOLS[start:] + SYMBOLS[:start]


def _assign_by_text(
    placeholders: Iterable[Placeholder], symbols: Mapping[str, Sequence[str]]
) -> dict[Placeholder, str]:
    """Assigns to each placeholder the next symbol for its text."""
    unused = {
        text: itertools.cycle(choices) if text in SYMBOLS else iter(choices)
        for text, choices in symbols.items()
    }
    assignment = {
        placeholder: next(unused.get(placeholder.text, iter(())), None)
        for placeholder in placeholders
    }
    return {placeholder: symbol for placeholder, symbol in assignment.items() if symbol}


def _replace(text: str, assignment: Mapping[Placeholder, str]) -> str:
    return replace_spans(text, ((start, end, new) for (start, end, _), new in assignment.items()))
