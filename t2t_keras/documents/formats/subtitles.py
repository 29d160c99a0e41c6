"""SubRip subtitles: sentences that go on in the next subtitle are translated as one."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.documents.document import Unit, markup_of
from t2t_keras.documents.formats.html import units_of
from t2t_keras.documents.segments import divided, ends_sentence, unwrapped
from t2t_keras.documents.spans import SpanDocument, decoded
from t2t_keras.errors import UserError

_TIME = r"(\d{1,3})[:.,](\d{1,2})[:.,](\d{1,2})[:.,]?(\d{0,3})"
_CUE = re.compile(
    rf"^(?:[ \t]*\d+[ \t]*\r?\n)?[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*\r?$", re.MULTILINE
)
# Where and how it is shown, as {\an8}, and who speaks.
_LEAD = re.compile(r"(?:\s|\{\\[^{}]*\}|[-\u2013\u2014](?=\s*\S))*")
_NEXT_SPEAKER = re.compile(r"(\r?\n[ \t]*)(?=[-\u2013\u2014]\s*\S)")
_MOST_SECONDS = 1.0
_MOST_JOINED = 4


class _Text(NamedTuple):
    """What is said in a subtitle, or by one of its speakers."""

    start: int
    end: int
    text: str  # in one line
    written: Callable[[str], str]  # lays out its translation in as many lines
    begins: float  # seconds, infinite where it cannot go on from another subtitle
    ends: float  # likewise, where it cannot go on in another


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each speaker, or for a sentence of several subtitles."""
    document = SpanDocument(path, languages, decoded(path, content))
    text = document.read.text
    cues = list(_CUE.finditer(text))
    if text.strip() and (not cues or text[: cues[0].start()].strip()):
        raise UserError(
            f"{path}: expected subtitles, as 1, 00:00:01,000 --> 00:00:02,000 and their text, got "
            f"'{text.strip()[:40]}'."
        )
    group: list[_Text] = []
    for each in _texts(text, cues):
        if group and not (len(group) < _MOST_JOINED and _goes_on(group[-1], each)):
            _add(document, group)
            group = []
        group.append(each)
    if group:
        _add(document, group)
    return document


def _texts(text: str, cues: list[re.Match]) -> Iterator[_Text]:
    ends = [*(cue.start() for cue in cues), len(text)][1:]
    for cue, end in zip(cues, ends, strict=True):
        speakers = _NEXT_SPEAKER.split(text[cue.end() : end])[::2]
        starts = [cue.end(), *(each.end() for each in _NEXT_SPEAKER.finditer(text, cue.end(), end))]
        for raw, start in zip(speakers, starts, strict=True):
            lead = _LEAD.match(raw).end()
            for first, last, _ in units_of(raw[lead:]):
                found = raw[lead + first : lead + last]
                is_alone = len(speakers) == 1 and markup_of(found) == "text"
                yield _Text(
                    start + lead + first,
                    start + lead + last,
                    *unwrapped(found),
                    _seconds(cue.groups()[:4]) if is_alone else float("inf"),
                    _seconds(cue.groups()[4:]) if is_alone else float("-inf"),
                )


def _seconds(fields: tuple[str, ...]) -> float:
    hours, minutes, seconds = map(int, fields[:3])
    return 3600 * hours + 60 * minutes + seconds + float(f"0.{fields[3] or 0}")


def _goes_on(before: _Text, after: _Text) -> bool:
    """Returns whether a sentence does not end with its subtitle."""
    return (
        after.begins - before.ends <= _MOST_SECONDS
        and not ends_sentence(before.text)
        and after.text[0].islower()
    )


def _add(document: SpanDocument, group: list[_Text]) -> None:
    text = " ".join(each.text for each in group)
    unit = Unit(text, format=markup_of(text))

    def written(text: str) -> list[str]:
        parts = divided(text, [len(each.text) for each in group]) if group[1:] else [text]
        return [each.written(part) for each, part in zip(group, parts, strict=True)]

    document.add_parts(unit, [(each.start, each.end) for each in group], written)
