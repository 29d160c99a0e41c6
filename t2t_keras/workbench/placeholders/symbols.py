"""Replaces placeholders by symbols, which a model learns to copy.

A symbol is a single character, and a piece of the vocabulary. The first symbol of a line depends on
a hash of it, so that all symbols are equally frequent in training.
"""

import dataclasses
import itertools
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from t2t_keras.workbench.placeholders.finding import SYMBOLS, Placeholder, find

_NO_LETTERS = re.compile(r"\W")
_MARK = re.compile(r"(?<!&)&(?=[^\W_])|_(?=[^\W\d_])")
# Neither longer texts nor sentences are labels.
_MOST_CHARACTERS = 200
_SENTENCE = re.compile(r"(?<!\.)\.$|[.!?]\s|\n")


class Accelerator(NamedTuple):
    """The shortcut letter of a menu entry, as in `_File` and `&File`.

    Attributes:
      mark: `_` or `&`, before the letter.
      letter: in its case in the text.
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
    """Returns a text without the mark of its accelerator, and the accelerator, if any.

    Sentences have none. Inside a lower-case word, as in `ö_ffnen`, a mark counts only if the text
    `is_label`, as the translation of a label; else it belongs to a name, as in `file_name`.
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
    """Returns whether a mark is not part of a name, as in R&D, AT&T, snake_case and __init__."""
    before = _NO_LETTERS.split(text[:place])[-1]
    after = _NO_LETTERS.split(text[place + 1 :], maxsplit=1)[0]
    if "_" in before + after:
        return False
    within_a_word = after[0].islower() and (is_label or before[:1].isupper())
    return not before or (within_a_word and (before + after).isalpha())


def _is_free(place: int, taken: Sequence[Placeholder]) -> bool:
    return not any(placeholder.start <= place < placeholder.end for placeholder in taken)


def with_mark(text: str, accelerator: Accelerator) -> str:
    """Adds an accelerator to a translation: the same letter, preferably at the start of a word.

    If the letter is missing, the first letter is used; in a script without capitals, it is appended
    in brackets, as in `文件(_F)`.
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


_ANY_SYMBOL = re.compile(f"[{SYMBOLS[0]}-{SYMBOLS[-1]}]")


@dataclasses.dataclass(frozen=True)
class Shield:
    """A line with symbols, and their originals.

    Attributes:
      text: the line with symbols for placeholders.
      verbatim: pieces of `text` that its translation must keep.
      places: (start, end in the line, length in `text`) of each replaced piece.
      originals: the placeholder of each symbol; None = no symbols, so that outputs stay unchanged.
    """

    text: str
    verbatim: tuple[str, ...] = ()
    places: tuple[tuple[int, int, int], ...] = ()
    originals: Mapping[str, str] | None = None

    def restore(self, output: str) -> str:
        """Returns an output with the placeholders; unknown symbols are dropped."""
        originals = self.originals
        if originals is None:
            return output
        return _ANY_SYMBOL.sub(lambda match: originals.get(match[0], ""), output)

    def hide(self, text: str) -> str:
        """Undoes `restore`, as for the prefix of a translation."""
        if self.originals is None:
            return text
        symbols: dict[str, list[str]] = {}
        for symbol, original in self.originals.items():
            symbols.setdefault(original, []).append(symbol)
        return _replaced(text, _paired(find(text, [*self.originals.values()]), symbols))

    def offset(self, position: int) -> int:
        """Returns the position in `text` of one in the line; inside a placeholder, its end."""
        moved = position
        for start, end, length in self.places:
            if end <= position:
                moved += length - (end - start)
            elif start < position:
                return moved - (position - start) + length
        return moved


def shield(line: str, verbatim: Sequence[str] = (), symbols: bool = False) -> Shield:
    """Shields a line.

    Args:
      line: the user's text.
      verbatim: additional pieces of it that are placeholders.
      symbols: whether placeholders become symbols, as many as there are.
    """
    if not symbols:
        return Shield(line, tuple(verbatim))
    placeholders = find(line, verbatim)
    names = _names(placeholders, _symbols(line))
    others = {placeholder.text for placeholder in placeholders if placeholder not in names}
    verbatim = tuple(piece for piece in verbatim if piece in others)
    places = tuple((start, end, 1) for start, end, _ in names)
    originals = {symbol: placeholder.text for placeholder, symbol in names.items()}
    return Shield(_replaced(line, names), verbatim, places, originals)


def shield_pair(source: str, target: str) -> tuple[str, str]:
    """Replaces the placeholders that both sides have by symbols.

    Removes the marks of accelerators if both sides have one.
    """
    bare, accelerator = without_mark(source)
    bare_target, accelerator_of_target = without_mark(target, is_label=accelerator is not None)
    if accelerator and accelerator_of_target:
        source, target = bare, bare_target
    of_source, of_target = find(source), find(target)
    shared: dict[str, list[str]] = {}
    symbols = iter(_symbols(source))
    unmatched = [placeholder.text for placeholder in of_target]
    for _, _, text in of_source:
        if text in unmatched:
            unmatched.remove(text)
            shared.setdefault(text, []).append(next(symbols, text))
    source = _replaced(source, _paired(of_source, shared))
    return source, _replaced(target, _paired(of_target, shared))


def _names(placeholders: Sequence[Placeholder], symbols: Sequence[str]) -> dict[Placeholder, str]:
    """Assigns a symbol to each placeholder, in order, until there are no more.

    Literal symbols in the text come before all others.
    """
    unused = iter(symbols)
    literal = dict.fromkeys(text for _, _, text in placeholders if text in SYMBOLS)
    of_symbols = {text: next(unused) for text in literal}
    names = {each: of_symbols.get(each.text) or next(unused, None) for each in placeholders}
    return {placeholder: name for placeholder, name in names.items() if name}


def _symbols(line: str) -> tuple[str, ...]:
    start = zlib.crc32(line.encode("utf-8", "replace")) % len(SYMBOLS)
    return SYMBOLS[start:] + SYMBOLS[:start]


def _paired(
    placeholders: Iterable[Placeholder], symbols: Mapping[str, Sequence[str]]
) -> dict[Placeholder, str]:
    """Assigns the next symbol of its text to each placeholder."""
    unused = {
        text: itertools.cycle(names) if text in SYMBOLS else iter(names)
        for text, names in symbols.items()
    }
    names = {each: next(unused.get(each.text, iter(())), None) for each in placeholders}
    return {placeholder: name for placeholder, name in names.items() if name}


def _replaced(text: str, names: Mapping[Placeholder, str]) -> str:
    parts, position = [], 0
    for placeholder, name in names.items():
        parts += [text[position : placeholder.start], name]
        position = placeholder.end
    return "".join([*parts, text[position:]])
