"""The sentences of a segment, with their marks; and their translations, with the marks in them."""

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.text.markup.placing import Placement, Placer, tree_of
from t2t_keras.text.markup.segments import CLOSE, KEPT, LONE, OPEN, Mark, Segment
from t2t_keras.text.markup.units import Span, agreement, units
from t2t_keras.text.placeholders.finding import key, piece_at


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a segment.

    Attributes:
      text: as it is translated, white space around it left out.
      marks: what stands in it and at its edges, with places in `text`.
      space: what is between it and the one before it, "" or a space.
    """

    text: str
    marks: tuple[Mark, ...]
    space: str = ""

    @property
    def kept(self) -> tuple[str, ...]:
        """The texts of its kept pieces, which its translation has to have."""
        return kept_in(self.text, self.marks)


def kept_in(text: str, marks: Sequence[Mark]) -> tuple[str, ...]:
    """Returns the texts of kept pieces, as `t2t_keras.text.placeholders.find` takes them."""
    return tuple(piece_at(text, mark.start, mark.end) for mark in marks if mark.kind == KEPT)


def divide(segment: Segment, split: Callable[[str], Sequence[str]]) -> list[Sentence]:
    """Returns the sentences of a segment; what `split` would divide within a kept piece is one."""
    spans, position = [], 0
    kept = [(mark.start, mark.end) for mark in segment.marks if mark.kind == KEPT]

    def is_within(place: int) -> bool:
        number = bisect.bisect_left(kept, (place, 0)) - 1
        return number >= 0 and place < kept[number][1]

    for text in split(segment.text):
        start = segment.text.index(text, position)
        position = start + len(text)
        if spans and (is_within(spans[-1][1]) or is_within(start)):
            spans[-1] = spans[-1][0], position
        else:
            spans.append((start, position))
    sentences = [[] for _ in spans]
    number = 0
    for mark in segment.marks:
        while number + 1 < len(spans) and _is_of_next(mark, spans[number][1], spans[number + 1][0]):
            number += 1
        start, end = spans[number]
        places = (min(max(place, start), end) - start for place in (mark.start, mark.end))
        sentences[number].append(
            dataclasses.replace(mark, **dict(zip(("start", "end"), places, strict=True)))
        )
    found: list[Sentence] = []
    for (start, end), marks in zip(spans, sentences, strict=True):
        space = _space_between(found[-1], marks) if found else ""
        found.append(Sentence(segment.text[start:end], tuple(marks), space))
    return found


def _space_between(before: Sentence, marks: Sequence[Mark]) -> str:
    """Returns the white space before a sentence, "" where only a mark such as <br/> parts them."""
    between = [mark for mark in before.marks if mark.start == len(before.text)]
    between += [mark for mark in marks if mark.end == 0]
    if any(mark.is_space for mark in between):
        return " " * any(mark.space_before or mark.space_behind for mark in between)
    return " "


def _is_of_next(mark: Mark, end: int, start: int) -> bool:
    """Returns whether a mark stands behind a sentence's end, or opens the next one."""
    if mark.start > end:
        return True
    if mark.start < end:
        return False
    return mark.kind != CLOSE and (mark.kind != LONE or mark.space_before or start == end)


class Translated:
    """A sentence and its translation, as the model reads and writes them.

    Args:
      text: of the sentence, with symbols for placeholders, if the model has these.
      marks: of the sentence, with places in that.
      translation: of the text.
      kept: what each kept piece is called there.
      write: returns a piece of the translation as it stands between tags.
    """

    def __init__(
        self,
        text: str,
        marks: Sequence[Mark],
        translation: str,
        kept: Sequence[str],
        write: Callable[[str], str],
    ):
        self.text, self.translation = text, translation
        self._marks, self._write = marks, write
        names = [mark for mark in marks if mark.kind == KEPT]
        self._kept = dict(zip(map(id, names), kept, strict=True))
        self.source_units = units(text, kept)
        self.target_units = units(translation, kept)

    @property
    def has_marks(self) -> bool:
        """Whether there is anything to place."""
        return bool(self._marks)

    def texts_with_units(self) -> tuple[tuple[str, list[Span]], tuple[str, list[Span]]]:
        """Returns both texts, each with its units."""
        return (self.text, self.source_units), (self.translation, self.target_units)

    def markup(self, weights: np.ndarray | None) -> str:
        """Returns the translation with its marks.

        Args:
          weights: float [target units, source units], by attention; None = there are no marks, or
            they stand in proportion.
        """
        if not self._marks:
            return self._write(self.translation)
        return self._written(self._placed(weights))

    def _placed(self, weights: np.ndarray | None) -> Placement:
        spans = self.source_units
        gaps = [
            (_gap(spans, mark.start, mark.kind in (OPEN, KEPT)), _gap(spans, mark.end, False))
            for mark in self._marks
        ]
        root, began = tree_of(self._marks, gaps, len(spans))
        shape = len(self.target_units), len(spans)
        if weights is None:
            found = np.lib.stride_tricks.as_strided(np.zeros(1), shape, (0, 0))
        else:
            found = agreement(self.text, self.translation, spans, self.target_units, weights)
        texts = [self.translation[start:end] for start, end in self.target_units]
        is_word = tuple(
            [any(map(_is_of_word, text[start:end])) for start, end in some]
            for text, some in self.texts_with_units()
        )
        return Placer(root, began, found, is_word, texts, self._kept).place()

    def _written(self, placement: Placement) -> str:
        by_gap: dict[int, list[Mark]] = {}
        for gap, mark in placement:
            by_gap.setdefault(gap, []).append(mark)
        parts, position, count = [], 0, len(self.target_units)
        for gap in range(count + 1):
            start = self.target_units[gap][0] if gap < count else len(self.translation)
            space = self.translation[position:start]
            marks = by_gap.get(gap, [])
            parts += _spaced(marks, self._write(space), gap == 0, gap == count)
            if gap < count:
                start, position = self.target_units[gap]
                text = self.translation[start:position]
                # A kept piece stands for its text, if it found it.
                kept = (self._kept.get(id(mark)) for mark in marks)
                stands = any(each and key(each) == key(text) for each in kept)
                parts.append("" if stands else self._write(text))
        return "".join(parts)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or ord(character) >= 0x10FF00


def _gap(spans: Sequence[Span], place: int, opens: bool) -> int:
    """Returns how many units are before a place; one that it is within, unless something opens."""
    if opens:
        return bisect.bisect_right(spans, place, key=lambda span: span[1])
    return bisect.bisect_left(spans, place, key=lambda span: span[0])


def _parts_words(before: Mark | None, mark: Mark) -> bool:
    """Returns whether a mark needs no white space beside it; a link only behind another one."""
    return mark.is_space and (mark.kind == LONE or (before is not None and before.kind == CLOSE))


def _spaced(marks: Sequence[Mark], space: str, at_begin: bool, at_end: bool) -> list[str]:
    """Returns marks with the white space between them: behind what closes, before what opens."""
    if not marks:
        return [space]
    if any(_parts_words(*pair) for pair in itertools.pairwise([None, *marks])):
        raws = [mark.raw + " " * (mark.space_behind and mark is not marks[-1]) for mark in marks]
        before = " " * (marks[0].space_before and not at_begin)
        return [before, *raws, " " * (marks[-1].space_behind and not at_end)]
    parts: list[str] = []
    is_out = not space
    for mark in marks:
        stays = mark.kind == CLOSE or (mark.kind == LONE and not mark.space_before)
        if not is_out and not stays:
            parts.append(space)
            is_out = True
        if mark.kind == LONE and mark.space_before and at_end:
            parts.append(" ")
        parts.append(mark.raw)
        apart = mark.kind == LONE and mark.space_before and mark.space_behind
        if (apart and space) or (mark.kind == LONE and mark.space_behind and at_begin):
            parts.append(" ")
    return [*parts, *([] if is_out else [space])]
