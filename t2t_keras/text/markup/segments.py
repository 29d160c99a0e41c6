"""Segments: running text with tags in it, between the tags that divide a page."""

import bisect
import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from t2t_keras.text.markup.characters import Characters, write_characters
from t2t_keras.text.placeholders import find

# Kinds of marks.
OPEN, CLOSE, LONE, KEPT = "open", "close", "lone", "kept"
_WORDS = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]+").findall
# What a word may go on with, and what may stand before one that is no part of a placeholder.
_HYPHENED = re.compile("[-'\u2010\u2011\u2019][A-Za-z0-9]?")
_BEFORE_WORD = re.compile(r"(?:^|[\s(\[\"'\u201c\u201e\u00ab,;:/-])$")


@dataclasses.dataclass(frozen=True)
class Mark:
    """What stands in a text besides its characters.

    Attributes:
      kind: OPEN or CLOSE of an element; LONE, as an image or a comment; KEPT, an element whose text
        is in that of the segment and stays as it is.
      raw: as it stands there.
      element: number of the element that it opens or closes.
      start: its place in the text of the segment; for KEPT, that of its first character.
      end: the same; for KEPT, behind its last character.
      space_before: whether white space is on its left.
      space_behind: whether white space is on its right.
      is_space: whether it parts words as a space does: `&nbsp;`, the end of a line, or a link right
        behind another one.
    """

    kind: str
    raw: str
    element: int = -1
    start: int = 0
    end: int = 0
    space_before: bool = False
    space_behind: bool = False
    is_space: bool = False


class Atom(NamedTuple):
    """A mark, or some characters."""

    raw: str
    mark: Mark | None = None
    characters: Characters | None = None
    text: str = ""  # that of a KEPT mark, or of an index such as <sup>2</sup>

    @property
    def is_index(self) -> bool:
        """Whether it is a whole element, as <sup>2</sup>, that belongs to the word before it."""
        return self.mark is not None and self.mark.kind == LONE and bool(self.text)

    @property
    def is_text(self) -> bool:
        """Whether there is something to read."""
        if self.mark:
            return self.mark.kind == KEPT
        return not self.characters.is_space


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of running text.

    Attributes:
      before: markup and white space in front of its first word.
      behind: the same, behind its last one.
      text: what is translated, white space as single spaces.
      marks: what stands within it, in order.
      spelled: how characters are written there, where it is otherwise than usual.
    """

    before: str
    behind: str
    text: str
    marks: tuple[Mark, ...]
    spelled: Mapping[str, str]


def segment_of(atoms: Sequence[Atom], spelled: Mapping[str, str]) -> Segment | str:
    """Returns a segment of atoms, or their markup if it has no letters."""
    if not any(_has_letters(atom) for atom in atoms):
        return "".join(atom.raw for atom in atoms)
    atoms = _with_formulas(atoms)
    first, last = _core(atoms)
    text, marks = _text_and_marks(atoms[first:last])
    marks = _with_kept_spaces(text, marks, spelled)
    before, behind = ("".join(atom.raw for atom in some) for some in (atoms[:first], atoms[last:]))
    return Segment(before, behind, text, tuple(marks), spelled)


def _with_kept_spaces(text: str, marks: list[Mark], spelled: Mapping[str, str]) -> list[Mark]:
    """Returns marks with a kept piece for a placeholder that has spaces inside, as 5&nbsp;km."""
    if not any(mark.is_space for mark in marks):
        return marks
    starts = [mark.start for mark in marks]
    for each in reversed(find(text)):
        first = bisect.bisect_right(starts, each.start)
        last = bisect.bisect_left(starts, each.end)
        inside = marks[first:last]
        if not inside or not all(mark.is_space for mark in inside):
            continue
        parts, position = [], each.start
        for mark in inside:
            parts += [write_characters(text[position : mark.start], spelled), mark.raw]
            # The space itself is in the text as well, once for all that stand there.
            position = mark.start + text.startswith(" ", mark.start)
        raw = "".join([*parts, write_characters(text[position : each.end], spelled)])
        marks[first:last] = [Mark(KEPT, raw, start=each.start, end=each.end)]
    return marks


def _with_formulas(atoms: Sequence[Atom]) -> list[Atom]:
    """Returns atoms with a kept piece for each word that goes on behind an index, as H₂O does."""
    if not any(atom.is_index for atom in atoms):
        return list(atoms)
    divided = itertools.chain.from_iterable(map(_divided, atoms))
    runs = [list(run) for _, run in itertools.groupby(divided, _is_in_word)]
    found: list[Atom] = []
    for number, run in enumerate(runs):
        before, behind = found[-1:], runs[number + 1 : number + 2]
        goes_on = any(
            atom.is_index and not other.is_index for atom, other in itertools.pairwise(run)
        )
        goes_on |= run[-1].is_index and any(_HYPHENED.match(_plain(each[0])) for each in behind)
        begins = not run[0].mark and all(_BEFORE_WORD.search(_plain(each)) for each in before)
        if _is_in_word(run[0]) and goes_on and begins:
            raw, text = "".join(atom.raw for atom in run), "".join(map(_plain, run))
            run = [Atom(raw, Mark(KEPT, raw), None, text)]
        found += run
    return found


def _is_in_word(atom: Atom) -> bool:
    text = _plain(atom)
    return atom.is_index or (not atom.mark and text.isascii() and text.isalnum())


def _plain(atom: Atom) -> str:
    return atom.characters.text if atom.characters else atom.text


def _divided(atom: Atom) -> list[Atom]:
    """Returns its words and what is between them."""
    characters = atom.characters
    if not characters or characters.raw != characters.text:
        return [atom]
    return [Atom(part, None, characters._replace(raw=part, text=part)) for part in _WORDS(atom.raw)]


def _has_letters(atom: Atom) -> bool:
    characters = atom.characters
    return bool(characters) and not characters.is_kept and any(map(str.isalpha, characters.text))


def _core(atoms: Sequence[Atom]) -> tuple[int, int]:
    """Returns the part of the atoms around which nothing has to be placed.

    Of an element, both tags are outside of it, or none; unless the other is of another segment.
    """
    words = [number for number, atom in enumerate(atoms) if atom.is_text]
    first, last = words[0], words[-1] + 1
    marks = {
        (atom.mark.kind, atom.mark.element): number
        for number, atom in enumerate(atoms)
        if atom.mark and atom.mark.element >= 0
    }
    begin, end = first, last
    for (kind, element), number in marks.items():
        other = marks.get((CLOSE if kind == OPEN else OPEN, element))
        if kind == OPEN and number < first and other is not None and other < last:
            begin = min(begin, number)
        if kind == CLOSE and number >= last and other is not None and other >= first:
            end = max(end, number + 1)
    return begin, end


def _text_and_marks(atoms: Sequence[Atom]) -> tuple[str, list[Mark]]:
    parts: list[str] = []
    marks: list[Mark] = []
    waiting: list[int] = []  # Numbers of the marks behind the last word or space.
    size, space = 0, False  # Whether the text needs a space,
    is_white = False  # and whether it is white space that says so.
    for atom in atoms:
        if atom.characters and atom.characters.is_space:
            space = is_white = size > 0
            for number in waiting:
                marks[number] = dataclasses.replace(marks[number], space_behind=True)
            waiting = []
            continue
        if atom.is_text:
            content = atom.text if atom.mark else atom.characters.text
            if space and content:
                parts.append(" ")
                size += 1
                space = False
            is_white = False
            start, size = size, size + len(content)
            parts.append(content)
            waiting = []
            if atom.mark:
                marks.append(dataclasses.replace(atom.mark, start=start, end=size))
            continue
        mark = dataclasses.replace(atom.mark, start=size, end=size, space_before=is_white)
        waiting.append(len(marks))
        marks.append(mark)
        if mark.is_space:
            space = size > 0
    return "".join(parts), marks
