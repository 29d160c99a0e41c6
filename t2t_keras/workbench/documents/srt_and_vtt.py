"""SubRip (.srt) and WebVTT: a sentence that spans several subtitles is translated as a whole."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.text.files import INVISIBLE, has_letters
from t2t_keras.workbench.documents.document import SpanDocument, Unit, decode_file, format_of
from t2t_keras.workbench.documents.inline_codes import codes_error
from t2t_keras.workbench.documents.layout import divide_by_lengths, ends_line, unwrap
from t2t_keras.workbench.markup.reading import Reader

_HOURS = r"(?:(\d{1,3})[:.,](?=\d{1,2}[:.,]\d{1,2}(?!\d)))?"
_TIME = rf"{_HOURS}(\d{{1,2}})[:.,](\d{{1,2}})[:.,]?(\d{{0,3}})"
_CUE = re.compile(
    rf"^(?:[ \t]*\d+[ \t]*\r?\n)?[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*\r?$", re.MULTILINE
)
_VTT = re.compile(r"WEBVTT(?=\s|\Z)")
# In WebVTT, an empty line ends a subtitle; notes or styles may follow.
_EMPTY_LINE = re.compile(r"\n[ \t]*\r?$", re.MULTILINE)
# Position and style, such as {\an8} and {i}.
_OVERRIDE = r"\{(?:\\[^{}]*|/?[ibusIBUS]|[yYcCfFsSoOpP]:[^{}]*)\}"
_MUSIC = "\u2669-\u266c\u00b6"
_DASH = r"[-\u2010-\u2015\u2212>]"
# Signs before and after a text that are not part of it.
_LEAD = re.compile(rf"(?:[\s{_MUSIC}{INVISIBLE}]|{_OVERRIDE}|{_DASH}(?=\s*\S)|#(?=\s))*")
_TAIL = re.compile(rf"(?:[\s{_MUSIC}{INVISIBLE}]|{_OVERRIDE})*\Z")
_TAIL_CHARACTER = re.compile(rf"[\s{_MUSIC}{INVISIBLE}}}]")
_MUSIC_SIGNS = re.compile(f"[{_MUSIC}]+")
# A speaker's name, or a sound, before the speech; it is a separate text.
_LABEL = re.compile(r"([A-Z][A-Z0-9 .'#&-]{0,30}):(?=\s)|[\[(]([^\[\]()<>{}]*)[\])]")
_NEXT_SPEAKER = re.compile(rf"(\r?\n[ \t]*)(?={_DASH}\s*\S)")
# Codes within a text; tags replace them.
_CODE = re.compile(rf"{_OVERRIDE}|\\[Nnh]|<\d+:[\d:.]+>")
_CODE_TAG = re.compile(r'<(?:br|wbr) i="(\d+)">')
_TAG, _TAG_STAND_IN = re.compile("<[^<>]*>"), "\ufdd0"  # not a character
_BREAKS = (r"\N", r"\n")
_MAX_PASSES = 4
_MAX_PAUSE_SECONDS = 1.0
_MAX_JOINED_TEXTS = 4


class _Text(NamedTuple):
    """A text of a subtitle, or of one of its speakers."""

    start: int  # offset in the file
    end: int  # offset after it
    text: str  # the text in one line
    write: Callable[[str], str]  # lays out its translation in the same number of lines
    start_seconds: float  # inf = it cannot continue another subtitle
    end_seconds: float  # -inf = no subtitle can continue it


def read_subtitles(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each speaker, or for a sentence in several subtitles."""
    document = SpanDocument(path, languages, decode_file(path, content))
    text = document.file.text
    cues = list(_CUE.finditer(text))
    vtt = _VTT.match(text)
    if text.strip() and not vtt and (not cues or text[: cues[0].start()].strip()):
        raise UserError(
            f"{path}: expected a subtitle: a line with its number, a line such as "
            f"'00:00:01,000 --> 00:00:02,000', and its text; got '{text.strip()[:40]}'. Save it as "
            f"SubRip or WebVTT.",
            code="not_subtitles",
        )
    group: list[_Text] = []
    for cue_text in _texts(text, cues, bool(vtt)):
        if group and not (len(group) < _MAX_JOINED_TEXTS and _continues(group[-1], cue_text)):
            _add_group(document, group)
            group = []
        group.append(cue_text)
    if group:
        _add_group(document, group)
    return document


def _texts(text: str, cues: list[re.Match], is_vtt: bool) -> Iterator[_Text]:
    ends = [*(cue.start() for cue in cues), len(text)][1:]
    for cue, cue_end in zip(cues, ends, strict=True):
        empty_line = _EMPTY_LINE.search(text, cue.end(), cue_end) if is_vtt else None
        cue_end = empty_line.start() if empty_line else cue_end
        turns = list(_NEXT_SPEAKER.finditer(text, cue.end(), cue_end))
        starts = [cue.end(), *(turn.end() for turn in turns)]
        turn_ends = [*(turn.start() for turn in turns), cue_end]
        for turn_start, turn_end in zip(starts, turn_ends, strict=True):
            spans = list(_spans(text, turn_start, turn_end))
            has_one_speech = len(starts) == 1 and sum(is_speech for *_, is_speech in spans) == 1
            for start, end, is_speech in spans:
                masked, codes = _mask_codes(text[start:end])
                is_alone = has_one_speech and is_speech and format_of(masked) == "text"
                line, lay_out = _unwrap(masked)
                yield _Text(
                    start,
                    end,
                    line,
                    _with_codes(lay_out, codes),
                    _seconds(cue.groups()[:4]) if is_alone else float("inf"),
                    _seconds(cue.groups()[4:]) if is_alone else float("-inf"),
                )


def _spans(
    text: str, start: int, end: int, passes: int = _MAX_PASSES
) -> Iterator[tuple[int, int, bool]]:
    """Yields (start, end, whether it is speech) for each text of a speaker."""
    start, end = _trim(text, start, end)
    if not passes:
        if has_letters(text[start:end]):
            yield start, end, True
        return
    label = _LABEL.match(text, start, end)
    if label:
        group = 1 if label[1] else 2
        if has_letters(label[group]):
            yield *label.span(group), False
        yield from _spans(text, label.end(), end, passes - 1)
        return
    music = [match.span() for match in _MUSIC_SIGNS.finditer(text, start, end)]
    starts, ends = [start, *(span[1] for span in music)], [*(span[0] for span in music), end]
    for part_start, part_end in zip(starts, ends, strict=True):
        for span_start, span_end in Reader(text[part_start:part_end]).spans():
            span_start, span_end = part_start + span_start, part_start + span_end
            if (span_start, span_end) == (start, end):
                yield start, end, True
            else:
                yield from _spans(text, span_start, span_end, passes - 1)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    lead = _LEAD.match(text, start, end)
    start = lead.end() if lead else start
    while end > start and (_TAIL_CHARACTER.match(text[end - 1]) or text.endswith(" #", start, end)):
        sign_start = text.rfind("{", start, end) if text[end - 1] == "}" else end - 1
        if text[end - 1] == "}" and not (sign_start >= 0 and _TAIL.match(text, sign_start, end)):
            break
        end = sign_start
    return start, end


def _mask_codes(raw: str) -> tuple[str, list[str]]:
    """Returns a text with tags for its codes, and the codes."""
    codes: list[str] = []

    def tag(match: re.Match) -> str:
        codes.append(match[0])
        return f'<{"br" if match[0] in _BREAKS else "wbr"} i="{len(codes) - 1}">'

    return _CODE.sub(tag, raw), codes


def _unwrap(text: str) -> tuple[str, Callable[[str], str]]:
    """Like `unwrap`, but never breaks a line inside a tag."""
    line, lay_out_plain = unwrap(text)
    if not _TAG.search(text) or _TAG_STAND_IN in text:
        return line, lay_out_plain
    _, lay_out = unwrap(_TAG.sub(_TAG_STAND_IN, text))

    def write(text: str) -> str:
        tags = iter(_TAG.findall(text))
        laid_out = lay_out(_TAG.sub(_TAG_STAND_IN, text.replace(_TAG_STAND_IN, "")))
        return re.sub(_TAG_STAND_IN, lambda match: next(tags), laid_out)

    return line, write


def _with_codes(lay_out: Callable[[str], str], codes: list[str]) -> Callable[[str], str]:
    def write(text: str) -> str:
        numbers = sorted(int(match[1]) for match in _CODE_TAG.finditer(text))
        if numbers != list(range(len(codes))):
            raise codes_error(len(codes), text)
        return _CODE_TAG.sub(lambda match: codes[int(match[1])], lay_out(text))

    return write if codes else lay_out


def _seconds(fields: tuple[str, ...]) -> float:
    hours, minutes, seconds = (int(field or 0) for field in fields[:3])
    return 3600 * hours + 60 * minutes + seconds + float(f"0.{fields[3] or 0}")


def _continues(before: _Text, after: _Text) -> bool:
    """Returns whether the next subtitle soon follows and continues the sentence."""
    return (
        after.start_seconds - before.end_seconds <= _MAX_PAUSE_SECONDS
        and not ends_line(before.text)
        and after.text[0].islower()
    )


def _add_group(document: SpanDocument, group: list[_Text]) -> None:
    text = " ".join(part.text for part in group)
    unit = Unit(text, format=format_of(text))

    def write(text: str) -> list[str]:
        # Lengths include the space after each part.
        lengths = [len(part.text) + 1 for part in group]
        texts = divide_by_lengths(text, lengths) if group[1:] else [text]
        return [part.write(new_text) for part, new_text in zip(group, texts, strict=True)]

    document.add_parts(unit, [(part.start, part.end) for part in group], write)
