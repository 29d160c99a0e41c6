"""The sentences of a segment, with their marks."""

import bisect
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from t2t_keras.workbench.markup.segments import CLOSE, KEPT, LONE, Mark, Segment, raw_between
from t2t_keras.workbench.markup.translated import Span
from t2t_keras.workbench.placeholders.finding import piece_at

_SPACE_AT_BEGIN = re.compile(r"(?:<[^<>]*>)*\s")


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a segment.

    Attributes:
      text: as it is translated, white space around it left out.
      marks: what stands in it and at its edges, with places in `text`.
      space: white space between it and the sentence before, as written in the markup.
      raws: see `Segment`, with places in `text`.
      is_apart: whether white space separates it from the sentence before, maybe between marks.
    """

    text: str
    marks: tuple[Mark, ...]
    space: str = ""
    raws: Mapping[int, tuple[int, str]] = dataclasses.field(default_factory=dict)
    is_apart: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """The texts of its kept pieces, which its translation has to have."""
        return kept_in(self.text, self.marks)


def kept_in(text: str, marks: Sequence[Mark]) -> tuple[str, ...]:
    """Returns the texts of kept pieces, as `t2t_keras.workbench.placeholders.find` takes them."""
    return tuple(piece_at(text, mark.start, mark.end) for mark in marks if mark.kind == KEPT)


def divide(segment: Segment, split: Callable[[str], Sequence[str]]) -> list[Sentence]:
    """Returns the sentences of a segment, never divided inside a kept piece."""
    spans: list[Span] = []
    position = 0
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
    sentences: list[list[Mark]] = [[] for _ in spans]
    number = 0
    for mark in segment.marks:
        while number + 1 < len(spans) and _is_of_next(mark, spans[number][1], spans[number + 1][0]):
            number += 1
        start, end = spans[number]
        first, last = (min(max(place, start), end) - start for place in (mark.start, mark.end))
        sentences[number].append(dataclasses.replace(mark, start=first, end=last))
    raws = _raws_of_sentences(segment, spans)
    divided: list[Sentence] = []
    for number, ((start, end), marks) in enumerate(zip(spans, sentences, strict=True)):
        space, is_apart = "", False
        if number:
            space = raw_between(segment.text, spans[number - 1][1], start, segment.raws)
            between = [mark for mark in divided[-1].marks if mark.start == len(divided[-1].text)]
            between += [mark for mark in marks if not mark.end]
            is_apart = bool(space or any(mark.lead for mark in between))
            if marks and marks[0].end == 0:
                raws[number][-1] = 0, space
                space = marks[0].lead
                marks[0] = dataclasses.replace(marks[0], lead="")
        text = segment.text[start:end]
        divided.append(Sentence(text, tuple(marks), space, raws[number], is_apart))
    return divided


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
    """Joins the markup of sentences."""
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
    """Returns whether white space separates two texts, maybe outside of tags at their edges."""
    while before.endswith(">") and "<" in before:
        before = before[: before.rindex("<")]
    return before[-1:].isspace() or bool(_SPACE_AT_BEGIN.match(after))


def _is_of_next(mark: Mark, end: int, start: int) -> bool:
    """Returns whether a mark belongs to the next sentence."""
    if mark.start > end:
        return True
    if mark.start < end:
        return False
    return mark.kind != CLOSE and (mark.kind != LONE or mark.space_before or start == end)
