"""Builds segments, the running text between tags that divide a page; splits them into sentences."""

import bisect
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from t2t_keras.workbench.markup.tokens import CLOSE, OPEN
from t2t_keras.workbench.placeholders import find
from t2t_keras.workbench.placeholders.finding import piece_at

Span = tuple[int, int]

# Kinds of marks, besides the `OPEN` and `CLOSE` of tags.
LONE, KEPT = "lone", "kept"
_WORD_OR_GAP = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]+")
# The continuation of a word after a sub- or superscript.
_CONTINUATION = re.compile("[-'\u2010\u2011\u2019][A-Za-z0-9]?")
# A capital letter after these signs begins a new text.
_TEXT_ENDS = frozenset(".:;!?\u2026)]\u00bb\u201d")
# How the text before a word ends if the word is not part of a placeholder.
_BEFORE_WORD = re.compile(r"(?:^|[\s(\[\"'\u201c\u201e\u00ab,;:/-])$")
_LEADING_SPACE = re.compile(r"(?:<[^<>]*>)*\s")


@dataclasses.dataclass(frozen=True)
class Mark:
    """Markup at a place in a text.

    Attributes:
      kind: OPEN or CLOSE for a tag of an element; LONE, for example for an image or a comment; KEPT
        for an element whose text stays in the segment's text, untranslated.
      raw: as written in the markup.
      element: number of the element that it opens or closes.
      start: its place in the segment's text; for KEPT, the place of its first character.
      end: the same place; for KEPT, the place after its last character.
      space_before: whether white space is on its left.
      space_after: whether white space is on its right.
      is_space: whether it separates words like a space: `&nbsp;`, a line end, or a tag between
        words that a reader sees as separate, as in `</a><a>`.
      lead: the white space directly before it, as written in the markup.
      is_formatting: whether its element can enclose part of a word.
    """

    kind: str
    raw: str
    element: int = -1
    start: int = 0
    end: int = 0
    space_before: bool = False
    space_after: bool = False
    is_space: bool = False
    lead: str = ""
    is_formatting: bool = False


class Atom(NamedTuple):
    """A mark, or some characters.

    Attributes:
      raw: as written in the markup.
      text: the visible text; marks have text only if they are KEPT, or like <sup>2</sup>.
      mark: the mark; None = characters.
      is_space: whether the characters are white space.
    """

    raw: str
    text: str = ""
    mark: Mark | None = None
    is_space: bool = False

    @property
    def is_sub_or_sup(self) -> bool:
        """Whether it is an element such as <sup>2</sup> that belongs to the word before it."""
        return self.mark is not None and self.mark.kind == LONE and bool(self.text)

    @property
    def is_text(self) -> bool:
        """Whether a reader sees text."""
        return self.mark.kind == KEPT if self.mark else not self.is_space


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of running text.

    Attributes:
      text: the text to translate, with single spaces for white space.
      marks: the marks in it, in order.
      spellings: unusual spellings of characters in the markup, by character.
      raws: (end, markup) by start in `text`, for characters whose markup differs from the text; for
        a " ", the markup of the white space.
      raw: its markup.
      is_html: whether it is HTML, not XML.
    """

    text: str
    marks: tuple[Mark, ...]
    spellings: Mapping[str, str]
    raws: Mapping[int, tuple[int, str]]
    raw: str
    is_html: bool


def segment_of(
    atoms: Sequence[Atom], spellings: Mapping[str, str], is_html: bool
) -> tuple[str, Segment | None, str]:
    """Returns (markup before, segment, markup after); without letters, there is no segment."""
    if not any(not atom.mark and any(map(str.isalpha, atom.text)) for atom in atoms):
        return "".join(atom.raw for atom in atoms), None, ""
    atoms = _with_formulas(atoms)
    start, end = _core(atoms)
    text, marks, raws = _text_and_marks(_with_divisions(atoms[start:end]))
    marks = _with_kept_placeholders(text, marks, raws)
    before, raw, after = (
        "".join(atom.raw for atom in part)
        for part in (atoms[:start], atoms[start:end], atoms[end:])
    )
    return before, Segment(text, tuple(marks), spellings, raws, raw, is_html), after


def _with_divisions(atoms: Sequence[Atom]) -> list[Atom]:
    """Makes tags act as spaces between words that a reader sees as separate."""
    atoms = list(atoms)
    before, last_tag = "", 0  # The last text, and the number of the last tag after it.
    marks: list[Mark] = []  # The tags after the last text.
    for number, atom in enumerate(atoms):
        if atom.mark and atom.mark.kind in (OPEN, CLOSE):
            marks.append(atom.mark)
            last_tag = number
        elif atom.is_text:
            if before and marks and atom.text and _is_divided(before, marks, atom.text):
                mark = dataclasses.replace(marks[-1], is_space=True)
                atoms[last_tag] = atoms[last_tag]._replace(mark=mark)
            before, marks = atom.text, []
        elif not atom.mark or atom.mark.is_space:
            before, marks = "", []
    return atoms


def _is_divided(before: str, marks: Sequence[Mark], after: str) -> bool:
    """Returns whether a reader sees the text before and after tags as separate words or texts.

    Adjacent elements separate words, unless both only format text and the second continues in
    lower case, as in `<b>w</b><i>ord</i>`. A capital letter begins a new word or sentence, too.
    """
    last, first = before[-1], after[0]
    kinds = [mark.kind for mark in marks]
    if CLOSE in kinds and OPEN in kinds[kinds.index(CLOSE) :]:
        is_sign = not first.isalnum() or not (last.isalnum() or last in _TEXT_ENDS)
        continues = all(mark.is_formatting for mark in marks) and not first.isupper()
        return not is_sign and not continues
    return first.isupper() and len(before) > 1 and (last.islower() or last in _TEXT_ENDS)


def _with_kept_placeholders(
    text: str, marks: list[Mark], raws: MutableMapping[int, tuple[int, str]]
) -> list[Mark]:
    """Merges the marks in a placeholder, as 5&nbsp;km, into a kept piece; removes its raws."""
    if not marks:
        return marks
    merged_marks: list[Mark] = []
    number = 0  # number of the next mark
    for start, end, _ in find(text):
        while number < len(marks) and marks[number].end <= start:
            merged_marks.append(marks[number])
            number += 1
        first = number
        while number < len(marks) and marks[number].start < end:
            number += 1
        inside = marks[first:number]
        is_whole = inside and (inside[0].start, inside[0].end) == (start, end)
        fits = all(start <= mark.start and mark.end <= end for mark in inside)
        if not inside or is_whole or not fits or any(mark.element >= 0 for mark in inside):
            merged_marks += inside
            continue
        parts, position = [], start
        for mark in inside:
            parts += [raw_between(text, position, mark.start, raws), mark.lead, mark.raw]
            position = mark.end
        raw = "".join([*parts, raw_between(text, position, end, raws)])
        merged_marks.append(Mark(KEPT, raw, start=start, end=end))
        for place in range(start, end):
            raws.pop(place, None)
    return merged_marks + marks[number:]


def raw_between(text: str, start: int, end: int, raws: Mapping[int, tuple[int, str]]) -> str:
    """Returns part of a text as written in the markup; see `Segment.raws`."""
    parts = []
    while start < end:
        start, raw = raws.get(start, (start + 1, text[start]))
        parts.append(raw)
    return "".join(parts)


def _with_formulas(atoms: Sequence[Atom]) -> list[Atom]:
    """Turns words that continue after a sub- or superscript, as in H₂O, into kept pieces."""
    if not any(atom.is_sub_or_sup for atom in atoms):
        return list(atoms)
    divided_atoms = itertools.chain.from_iterable(map(_divide_atom, atoms))
    runs = [list(run) for _, run in itertools.groupby(divided_atoms, _is_in_word)]
    merged_atoms: list[Atom] = []
    for number, run in enumerate(runs):
        before, after = merged_atoms[-1:], runs[number + 1 : number + 2]
        continues = any(
            atom.is_sub_or_sup and not next_atom.is_sub_or_sup
            for atom, next_atom in itertools.pairwise(run)
        )
        continues |= run[-1].is_sub_or_sup and any(
            _CONTINUATION.match(next_run[0].text) for next_run in after
        )
        begins = not run[0].mark and all(_BEFORE_WORD.search(atom.text) for atom in before)
        if _is_in_word(run[0]) and continues and begins:
            raw, text = "".join(atom.raw for atom in run), "".join(atom.text for atom in run)
            run = [Atom(raw, text, Mark(KEPT, raw))]
        merged_atoms += run
    return merged_atoms


def _is_in_word(atom: Atom) -> bool:
    return atom.is_sub_or_sup or (not atom.mark and atom.text.isascii() and atom.text.isalnum())


def _divide_atom(atom: Atom) -> list[Atom]:
    """Divides an atom into words and the characters between them."""
    if atom.mark or atom.raw != atom.text:
        return [atom]
    return [atom._replace(raw=part, text=part) for part in _WORD_OR_GAP.findall(atom.raw)]


def _core(atoms: Sequence[Atom]) -> tuple[int, int]:
    """Returns (start, end) of the atoms without the outer tags, which need not be placed.

    The two tags of an element are both outer, or both not, unless a segment has only one of them.
    """
    text_numbers = [number for number, atom in enumerate(atoms) if atom.is_text]
    words_start, words_end = text_numbers[0], text_numbers[-1] + 1
    tag_numbers = {
        (atom.mark.kind, atom.mark.element): number
        for number, atom in enumerate(atoms)
        if atom.mark and atom.mark.element >= 0
    }
    start, end = words_start, words_end
    for (kind, element), number in tag_numbers.items():
        partner = tag_numbers.get((CLOSE if kind == OPEN else OPEN, element))
        if kind == OPEN and number < words_start and partner is not None and partner < words_end:
            start = min(start, number)
        if kind == CLOSE and number >= words_end and partner is not None and partner >= words_start:
            end = max(end, number + 1)
    return start, end


def _text_and_marks(
    atoms: Sequence[Atom],
) -> tuple[str, list[Mark], dict[int, tuple[int, str]]]:
    parts: list[str] = []
    marks: list[Mark] = []
    raws: dict[int, tuple[int, str]] = {}
    pending_marks: list[int] = []  # Numbers of the marks after the last word or space.
    size, space = 0, False  # Length of the text, and whether a space follows it.
    lead, is_white_space = "", False  # Pending white space, and whether `space` stands for it.
    for atom in atoms:
        if atom.is_space:
            space = is_white_space = size > 0
            lead += atom.raw
            for number in pending_marks:
                marks[number] = dataclasses.replace(marks[number], space_after=True)
            pending_marks = []
            continue
        if not (mark := atom.mark) or mark.kind == KEPT:
            if atom.text and (space or lead):
                # At the start of the text, `space` is False.
                parts.append(" " * space)
                if lead != " " * space:
                    raws[size if space else size - 1] = size + space, lead
                size += space
                space = False
            lead, is_white_space = "", False
            start, size = size, size + len(atom.text)
            parts.append(atom.text)
            pending_marks = []
            if mark:
                marks.append(dataclasses.replace(mark, start=start, end=size))
            elif atom.text != atom.raw:
                raws[start] = size, atom.raw
            continue
        pending_marks.append(len(marks))
        marks.append(
            dataclasses.replace(mark, start=size, end=size, space_before=is_white_space, lead=lead)
        )
        lead = ""
        if mark.is_space:
            space = size > 0
    return "".join(parts), marks, raws


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a segment.

    Attributes:
      text: the text to translate, without white space around it.
      marks: the marks in it and at its edges, with places in `text`.
      space: white space after the previous sentence, as written in the markup.
      raws: see `Segment`, with places in `text`.
      is_apart: whether white space, perhaps between marks, separates it from the previous sentence.
    """

    text: str
    marks: tuple[Mark, ...]
    space: str = ""
    raws: Mapping[int, tuple[int, str]] = dataclasses.field(default_factory=dict)
    is_apart: bool = False

    @property
    def kept_texts(self) -> tuple[str, ...]:
        """The texts of its kept pieces, for `t2t_keras.workbench.placeholders.find`."""
        return tuple(
            piece_at(self.text, mark.start, mark.end) for mark in self.marks if mark.kind == KEPT
        )


def divide(segment: Segment, split: Callable[[str], Sequence[str]]) -> list[Sentence]:
    """Divides a segment into sentences, but never inside a kept piece."""
    spans: list[Span] = []
    position = 0
    kept_spans = [(mark.start, mark.end) for mark in segment.marks if mark.kind == KEPT]

    def is_within(place: int) -> bool:
        number = bisect.bisect_left(kept_spans, (place, 0)) - 1
        return number >= 0 and place < kept_spans[number][1]

    for text in split(segment.text):
        start = segment.text.index(text, position)
        position = start + len(text)
        if spans and (is_within(spans[-1][1]) or is_within(start)):
            spans[-1] = spans[-1][0], position
        else:
            spans.append((start, position))
    marks_by_sentence: list[list[Mark]] = [[] for _ in spans]
    number = 0
    for mark in segment.marks:
        while number + 1 < len(spans) and _follows(mark, spans[number][1], spans[number + 1][0]):
            number += 1
        start, end = spans[number]
        first, last = (min(max(place, start), end) - start for place in (mark.start, mark.end))
        marks_by_sentence[number].append(dataclasses.replace(mark, start=first, end=last))
    raws = _raws_of_sentences(segment, spans)
    sentences: list[Sentence] = []
    for number, ((start, end), marks) in enumerate(zip(spans, marks_by_sentence, strict=True)):
        space, is_apart = "", False
        if number:
            space = raw_between(segment.text, spans[number - 1][1], start, segment.raws)
            between = [
                mark for mark in sentences[-1].marks if mark.start == len(sentences[-1].text)
            ]
            between += [mark for mark in marks if not mark.end]
            is_apart = bool(space or any(mark.lead for mark in between))
            if marks and marks[0].end == 0:
                raws[number][-1] = 0, space
                space = marks[0].lead
                marks[0] = dataclasses.replace(marks[0], lead="")
        text = segment.text[start:end]
        sentences.append(Sentence(text, tuple(marks), space, raws[number], is_apart))
    return sentences


def _raws_of_sentences(segment: Segment, spans: Sequence[Span]) -> list[dict[int, tuple[int, str]]]:
    """Returns the `Segment.raws` inside each sentence."""
    raws: list[dict[int, tuple[int, str]]] = [{} for _ in spans]
    starts = [start for start, _ in spans]
    for place, (end, raw) in segment.raws.items():
        number = max(bisect.bisect_right(starts, place) - 1, 0)
        start, stop = spans[number]
        if end <= stop:
            raws[number][place - start] = end - start, raw
    return raws


def join_markup(sentences: Sequence[Sentence], texts: Iterable[str]) -> str:
    """Joins translated sentences, as markup, with the source's white space between them."""
    parts: list[str] = []
    before = ""
    for sentence, text in zip(sentences, texts, strict=False):
        space = sentence.space
        if sentence.is_apart and not space and not _are_apart(before, text):
            space = " "
        parts += [space, text]
        before = text
    return "".join(parts)


def _are_apart(before: str, after: str) -> bool:
    """Returns whether white space separates two texts, ignoring tags between them."""
    while before.endswith(">") and "<" in before:
        before = before[: before.rindex("<")]
    return before[-1:].isspace() or bool(_LEADING_SPACE.match(after))


def _follows(mark: Mark, end: int, start: int) -> bool:
    """Returns whether a mark belongs to the next sentence."""
    if mark.start > end:
        return True
    if mark.start < end:
        return False
    return mark.kind != CLOSE and (mark.kind != LONE or mark.space_before or start == end)
