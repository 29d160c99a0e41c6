"""Puts the marks of a sentence into its translation."""

import bisect
import collections
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from t2t_keras.workbench.markup.placing import Placement, Placer, tree_of
from t2t_keras.workbench.markup.segments import (
    CLOSE,
    KEPT,
    LONE,
    OPEN,
    Mark,
    Segment,
    Sentence,
    Span,
)
from t2t_keras.workbench.markup.tokens import reference_at, terminate_reference, write_characters
from t2t_keras.workbench.placeholders import find
from t2t_keras.workbench.placeholders.finding import SYMBOLS, UNSPACED_SIGNS, comparison_key

_WORD = rf"[^\W{UNSPACED_SIGNS}]+"
_UNIT = re.compile(rf"[{UNSPACED_SIGNS}]|{_WORD}(?:['\u2019\u2010-]{_WORD})*|[^\w\s]")
# Maps punctuation of different languages to ASCII.
_SIGNS = str.maketrans("\u2026\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u2013\u2014", "..,;:!?--")
_QUOTES = "\"'\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u300c\u300d"


def units(text: str, verbatim: Sequence[str] = ()) -> list[Span]:
    """Returns (start, end) of each unit of a text: a word, a sign or a placeholder."""
    spans: list[Span] = []
    position = 0
    for start, end, _ in find(text, verbatim):
        spans += [match.span() for match in _UNIT.finditer(text, position, start)]
        spans.append((start, end))
        position = end
    return [*spans, *(match.span() for match in _UNIT.finditer(text, position))]


def agreement(
    source: str,
    target: str,
    source_units: Sequence[Span],
    target_units: Sequence[Span],
    weights: np.ndarray,
) -> np.ndarray:
    """Returns how much each unit of the translation comes from each unit of the source.

    For words, attention decides. A sign comes from an equal sign of the source; among several, from
    the one nearest to the origin of its neighbour. A sign without a counterpart has none.

    Args:
      source: the source text.
      target: its translation.
      source_units: units of the source.
      target_units: units of the translation.
      weights: attention, float [target units, source units].

    Returns:
      float [target units, source units]; a row adds up to 1, or to 0.
    """
    weights = np.asarray(weights, np.float64)
    signs = [
        np.array([_sign(text[start:end]) for start, end in spans], object)
        for text, spans in ((source, source_units), (target, target_units))
    ]
    is_word = signs[0] == ""
    shares = np.where(is_word[None, :] & (signs[1] == "")[:, None], weights, 0.0)
    # Normalise columns first: all words attend a little to some source words.
    for axis in (0, 1):
        totals = shares.sum(axis=axis, keepdims=True)
        shares = np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)
    columns_by_sign: dict[str, list[int]] = {}
    for column in np.flatnonzero(signs[0] != ""):
        columns_by_sign.setdefault(signs[0][column], []).append(int(column))
    for row in np.flatnonzero(signs[1] != ""):
        if same_sign := columns_by_sign.get(signs[1][row]):
            place = _expected_place(int(row), shares, len(source_units))
            number = bisect.bisect_left(same_sign, place)
            if number and (
                number == len(same_sign)
                or place - same_sign[number - 1] <= same_sign[number] - place
            ):
                number -= 1
            shares[row, same_sign.pop(number)] = 1.0
    return shares


def _sign(text: str) -> str:
    """Returns the kind of sign that a unit is; "" = a word."""
    if len(text) > 1 or text.isalnum() or unicodedata.category(text) == "Co":
        return ""
    return '"' if text in _QUOTES else text.translate(_SIGNS)


def _expected_place(row: int, shares: np.ndarray, num_columns: int) -> float:
    """Returns the expected place of a sign in the source: next to the origin of its neighbour."""
    has_place = shares.sum(axis=1) > 0
    for step, offset in ((-1, 1), (1, -1)):
        neighbour = row + step
        if 0 <= neighbour < len(shares) and has_place[neighbour]:
            return float(shares[neighbour].argmax()) + offset
    return (row + 0.5) / len(shares) * num_columns


class TranslatedSentence:
    """A sentence and its translation, as the model reads and writes them.

    Args:
      sentence: the sentence, with symbols for placeholders if the model has symbols.
      segment: the segment of the sentence.
      translation: the translation of the sentence.
      restore: replaces symbols by placeholders in a piece of the translation.
    """

    def __init__(
        self,
        sentence: Sentence,
        segment: Segment,
        translation: str,
        restore: Callable[[str], str] = str,
    ):
        self.text, self.translation = sentence.text, translation
        self._marks, self._raws = sentence.marks, sentence.raws
        self._segment, self._restore = segment, restore
        kept_marks = [mark for mark in sentence.marks if mark.kind == KEPT]
        # The texts of the kept pieces; the translation has them, too.
        self._kept_texts = dict(zip(map(id, kept_marks), sentence.kept_texts, strict=True))
        self.source_units = units(self.text, sentence.kept_texts)
        self.target_units = units(translation, sentence.kept_texts)
        # For a unit of the translation, the unit of the source that is equal except for case.
        self._equal_units = self._divide_words(self._match_equal_units())

    @property
    def has_marks(self) -> bool:
        """Whether there is anything to place."""
        return bool(self._marks)

    def texts_with_units(self) -> tuple[tuple[str, list[Span]], tuple[str, list[Span]]]:
        """Returns both texts, each with its units."""
        return (self.text, self.source_units), (self.translation, self.target_units)

    def _to_markup(self, text: str, after: str) -> str:
        """Returns a piece of the translation as markup; `after` is what follows it."""
        return write_characters(self._restore(text), self._segment.spellings, after)

    def markup(self, weights: np.ndarray | None) -> str:
        """Returns the translation with its marks.

        Args:
          weights: attention, float [target units, source units]; None = place marks, if any, in
            proportion to their places in the source.
        """
        return self._markup_with(self._place(weights) if self._marks else [])

    def _match_equal_units(self) -> dict[int, int]:
        """Maps units of the translation to units of the source that are equal except for case."""
        unmatched_units: dict[str, collections.deque[int]] = {}
        for number, (start, end) in enumerate(self.source_units):
            word = self.text[start:end].casefold()
            unmatched_units.setdefault(word, collections.deque()).append(number)
        equal_units = {}
        for number, (start, end) in enumerate(self.target_units):
            if candidates := unmatched_units.get(self.translation[start:end].casefold()):
                first, last = self.source_units[candidates[0]]
                if last - first == end - start:
                    equal_units[number] = candidates.popleft()
        return equal_units

    def _divide_words(self, equal_units: Mapping[int, int]) -> dict[int, int]:
        """Cuts equal words at the marks inside them; returns the new pairs of equal units."""
        places = {place for mark in self._marks for place in (mark.start, mark.end)}
        cuts = {
            number: [place - start for place in range(start + 1, end) if place in places]
            for number, (start, end) in enumerate(self.source_units)
            if places
        }
        if not any(cuts.values()):
            return dict(equal_units)
        first_parts: dict[int, int] = {}  # For each unit of the source, its first part.
        source_parts: list[Span] = []
        target_parts: list[Span] = []
        matched_units = set(equal_units.values())
        for number, span in enumerate(self.source_units):
            first_parts[number] = len(source_parts)
            source_parts += _cut(span, cuts[number] if number in matched_units else [])
        parts: dict[int, int] = {}
        for number, span in enumerate(self.target_units):
            source = equal_units.get(number)
            unit_parts = _cut(span, cuts[source] if source is not None else [])
            if source is not None:
                start = len(target_parts)
                parts |= {start + i: first_parts[source] + i for i in range(len(unit_parts))}
            target_parts += unit_parts
        self.source_units, self.target_units = source_parts, target_parts
        return parts

    def _place(self, weights: np.ndarray | None) -> Placement:
        spans = self.source_units
        gaps = [
            (_gap(spans, mark.start, mark.kind in (OPEN, KEPT)), _gap(spans, mark.end, False))
            for mark in self._marks
        ]
        root, open_nodes = tree_of(self._marks, gaps, len(spans))
        shape = len(self.target_units), len(spans)
        if weights is None:
            agreements = np.lib.stride_tricks.as_strided(np.zeros(1), shape, (0, 0))
        else:
            agreements = agreement(self.text, self.translation, spans, self.target_units, weights)
            for target, source in self._parts_of_words():
                agreements[target] = 0.0
                agreements[target, source] = 1.0
        texts = [self.translation[start:end] for start, end in self.target_units]
        source_words, target_words = (
            [any(map(_is_word_character, text[start:end])) for start, end in unit_spans]
            for text, unit_spans in self.texts_with_units()
        )
        is_word = source_words, target_words
        return Placer(root, open_nodes, agreements, is_word, texts, self._kept_texts).place()

    def _parts_of_words(self) -> Iterator[tuple[int, int]]:
        """Yields (target, source) of equal units that adjoin other parts of the same word."""
        for target, source in self._equal_units.items():
            start, end = self.source_units[source]
            spans = self.source_units[max(source - 1, 0) : source + 2]
            if any(span[1] == start or span[0] == end for span in spans) and (
                any(map(_is_word_character, self.text[start:end]))
            ):
                yield target, source

    def _markup_with(self, placement: Placement) -> str:
        by_gap: dict[int, list[Mark]] = {}
        for gap, mark in placement:
            by_gap.setdefault(gap, []).append(mark)
        replaced_units = self._replaced_units(by_gap)
        place_by_run = {
            tuple(map(id, run)): place
            for place, run in itertools.groupby(
                (mark for mark in self._marks if mark.kind != KEPT), lambda mark: mark.start
            )
        }
        breaks = self._source_breaks()
        parts, position, count = [], 0, len(self.target_units)
        for gap in range(count + 1):
            start = self.target_units[gap][0] if gap < count else len(self.translation)
            marks = by_gap.get(gap, [])
            space = self._space(position, start, breaks, marks)
            place = place_by_run.get(tuple(id(mark) for mark in marks if mark.kind != KEPT))
            if place is not None and bool(space) == (self.text[place : place + 1] == " "):
                # The same marks stand together in the source.
                parts += [f"{mark.lead}{mark.raw}" for mark in marks if mark.kind != KEPT]
                parts.append(self._space_after(place))
                parts += [mark.raw for mark in marks if mark.kind == KEPT]
            elif gap not in replaced_units or marks:
                parts += _with_spaces(marks, space, gap == 0, gap == count)
            if gap < count:
                position = self.target_units[gap][1]
                if gap not in replaced_units:
                    parts.append(self._unit_markup(gap, by_gap.get(gap + 1, [])))
        return "".join(parts)

    def _replaced_units(self, by_gap: Mapping[int, Sequence[Mark]]) -> set[int]:
        """Returns the units of the translation that the markup of kept pieces replaces."""
        replaced_units: set[int] = set()
        moved_keys: list[str] = []
        texts = [self.translation[start:end] for start, end in self.target_units]
        for gap, marks in by_gap.items():
            for mark in marks:
                if mark.kind != KEPT:
                    continue
                key = comparison_key(self._kept_texts[id(mark)])
                is_here = gap < len(texts) and comparison_key(texts[gap]) == key
                if is_here and gap not in replaced_units:
                    replaced_units.add(gap)
                else:
                    moved_keys.append(key)
        if moved_keys:
            # The markup is not at its text: do not write the text as well.
            by_key: dict[str, collections.deque[int]] = {}
            for number, text in enumerate(texts):
                if number not in replaced_units:
                    by_key.setdefault(comparison_key(text), collections.deque()).append(number)
            replaced_units.update(by_key[key].popleft() for key in moved_keys if by_key.get(key))
        return replaced_units

    def _unit_markup(self, number: int, marks: Sequence[Mark]) -> str:
        """Returns a unit of the translation as markup, if possible spelled as in the source.

        `marks` are the marks after it.
        """
        start, end = self.target_units[number]
        text, after = self.translation[start:end], self.translation[end : end + 64]
        after = marks[0].lead + marks[0].raw if marks else after
        source = self._equal_units.get(number)
        # The equal unit of the source; 0, 0 = there is none.
        first, last = (0, 0) if source is None else self.source_units[source]
        is_same = first < last and self.text[first:last] == text
        if is_same:
            raws, place = [], first
            while place < last:
                next_place, raw = self._raws.get(place, (place + 1, self.text[place]))
                raws.append(raw)
                place = next_place
            if place == last and "".join(raws) != text:
                is_html = self._segment.is_html
                return "".join([*raws[:-1], terminate_reference(raws[-1], after, is_html)])
        if text == ">" and not self._segment.is_html and self.translation.endswith("]]", 0, start):
            return "&gt;"  # In XML, text must not contain "]]>".
        if not is_same:
            return self._to_markup(text, after)
        # The source has the bare sign; keep it bare if it has the same meaning here.
        continues_alike = self.text[last : last + 1].casefold() == after[:1].casefold()
        means_same = {
            "<": continues_alike,
            "&": not reference_at(f"&{after}", 0, self._segment.is_html),
        }
        if means_same.get(text, "&" not in text and text not in SYMBOLS):
            return text
        return self._to_markup(text, after)

    def _source_breaks(self) -> dict[int, str]:
        """Maps places of spaces in the translation to the source's white space that replaces them.

        The places are in proportion to the places in the source.
        """
        mark_places = {mark.start for mark in self._marks if mark.kind != KEPT}
        places = [match.start() for match in re.finditer(" ", self.translation)]
        scale = len(self.translation) / max(len(self.text), 1)
        breaks, first = {}, 0
        for place, (end, raw) in sorted(self._raws.items()):
            if place < 0 or place in mark_places or self.text[place:end] != " ":
                continue
            number = bisect.bisect_left(places, place * scale, first)
            if number > first and (
                number == len(places)
                or place * scale - places[number - 1] <= places[number] - place * scale
            ):
                number -= 1
            if number >= len(places):
                break
            breaks[places[number]] = raw
            first = number + 1
        return breaks

    def _space(self, start: int, end: int, breaks: Mapping[int, str], marks: Sequence[Mark]) -> str:
        """Converts the text between two units of the translation to markup; uses `breaks`."""
        after = marks[0].raw[:1] if marks else self.translation[end : end + 64]
        text = self.translation[start:end]
        if not text or text == " ":
            return breaks.get(start, text)
        return "".join(
            breaks.get(start + number) or self._to_markup(sign, after)
            for number, sign in enumerate(text)
        )

    def _space_after(self, place: int) -> str:
        """Returns the source's white space after the marks at a place."""
        if self.text[place : place + 1] == " ":
            return self._raws.get(place, (0, " "))[1]
        return "" if place else self._raws.get(-1, (0, ""))[1]


def _cut(span: Span, cuts: Sequence[int]) -> list[Span]:
    start, end = span
    places = [start, *(start + cut for cut in cuts), end]
    return list(itertools.pairwise(places))


def _is_word_character(character: str) -> bool:
    return character.isalnum() or ord(character) >= 0x10FF00


def _gap(spans: Sequence[Span], place: int, is_opening: bool) -> int:
    """Returns the number of units before a place; counts a unit around it unless `is_opening`."""
    if is_opening:
        return bisect.bisect_right(spans, place, key=lambda span: span[1])
    return bisect.bisect_left(spans, place, key=lambda span: span[0])


def _with_spaces(marks: Sequence[Mark], space: str, at_start: bool, at_end: bool) -> list[str]:
    """Returns marks with the white space between them: after closing, before opening tags."""
    if not marks:
        return [space]
    kinds_before = ["", *(mark.kind for mark in marks)]
    # A mark may replace white space; an opening tag does so only after a closing tag.
    if any(
        mark.is_space and (mark.kind == LONE or kind_before == CLOSE)
        for kind_before, mark in zip(kinds_before, marks, strict=False)
    ):
        raws = [mark.raw + " " * (mark.space_after and mark is not marks[-1]) for mark in marks]
        space_before = " " * (marks[0].space_before and not at_start)
        return [space_before, *raws, " " * (marks[-1].space_after and not at_end)]
    parts: list[str] = []
    is_space_written = not space
    for mark in marks:
        precedes_space = mark.kind == CLOSE or (mark.kind == LONE and not mark.space_before)
        if not is_space_written and not precedes_space:
            parts.append(space)
            is_space_written = True
        if mark.kind == LONE and mark.space_before and at_end:
            parts.append(" ")
        parts.append(mark.raw)
        is_apart = mark.kind == LONE and mark.space_before and mark.space_after
        if (is_apart and space) or (mark.kind == LONE and mark.space_after and at_start):
            parts.append(" ")
    return [*parts, *([] if is_space_written else [space])]
