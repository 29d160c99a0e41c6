"""Inline Markdown: which characters of a block are text, and which are codes."""

import collections
import dataclasses
import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, unescape

from markdown_it import MarkdownIt

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.exchange.inline_codes import MASK, lone_code
from t2t_keras.workbench.documents.formats.markdown_syntax import Mark
from t2t_keras.workbench.markup.tokens import (
    CLOSE,
    HTML_BLOCKS,
    HTML_KEPT,
    OPEN,
    html_tokens,
    is_kept,
    parts_words,
)

# Where the characters of a delimiter begin and end, from the one that the parser names.
_AROUND = {
    "em_open": (0, 1),
    "em_close": (0, 1),
    "strong_open": (-1, 1),
    "strong_close": (0, 2),
    "s_open": (0, 2),
    "s_close": (0, 2),
}
# Characters for private use stand for tags while the text between them is laid out.
_FIRST = 0xF0000
STAND_INS = "\U000f0000-\U0010feff"
_STAND_IN = re.compile(f"[{STAND_INS}]")

# What links refer to by name, as the parser has it.
References = Mapping[str, Any]


class Inline(NamedTuple):
    """The text of a block.

    Attributes:
      lines: with codes as plain tags, where it has any.
      format: "text", or "xml" if it has codes.
      codes: where each code is: that of the opening and of the closing tag, or the code's and None.
      breaks: where the ends of lines are.
      spellings: of each character that is written as an entity or after a backslash anywhere: how
        it is written where it comes for the first time, the second time and so on.
    """

    lines: str
    format: str
    codes: list[tuple[Mark, Mark | None]]
    breaks: list[Mark]
    spellings: dict[str, list[str]]

    @property
    def text(self) -> str:
        """The text in one line."""
        return self.lines.replace("\n", " ")

    def stood_in(self) -> str:
        """Returns the lines with one character for each tag."""
        return tags_replaced(self.lines) if self.codes else self.lines


@dataclasses.dataclass
class _Opened:
    number: int  # of its mark
    has_text: bool = False
    has_codes: bool = False


def parts_of(
    markdown: MarkdownIt, content: str, references: References
) -> list[tuple[int, int, bool]]:
    """Returns where the texts of a block begin and end, and whether each begins a line.

    They stand between ends of lines that are shown, and tags that divide text.
    """
    depth, start, parts = 0, 0, []
    for mark in _marks(markdown, content, references):
        depth += (mark.kind == "open") - (mark.kind in ("close", "name"))
        if mark.kind in ("hard", "division") and not depth:
            parts.append((start, mark.start))
            start = mark.end
    trimmed = []
    for first, last in [*parts, (start, len(content))]:
        part = content[first:last]
        first += len(part) - len(part.lstrip(" \t\n"))
        last = max(first, last - len(part) + len(part.rstrip(" \t\n")))
        line = first
        while line and content[line - 1] in " \t":
            line -= 1
        trimmed.append((first, last, not line or content[line - 1] == "\n"))
    return trimmed


def inline_of(markdown: MarkdownIt, content: str, references: References) -> Inline:
    """Returns the text of a block's content."""
    marks = _marks(markdown, content, references)
    parts: list[str] = []
    codes: list[tuple[Mark, Mark | None]] = []
    open_codes: list[int] = []
    position = 0
    for mark in marks:
        parts.append(escape(content[position : mark.start]))
        position = mark.end
        raw = content[mark.start : mark.end]
        if mark.kind == "break":
            parts.append("\n")
        elif mark.kind in ("close", "name") and open_codes:
            number = open_codes.pop()
            codes[number] = (codes[number][0], mark)
            parts.append("</g>")
        elif mark.kind == "character":
            parts.append(escape(_seen(raw)))
        else:
            is_break = mark.kind in ("hard", "division")
            is_break = is_break or parts_words(raw) or html.unescape(raw).isspace()
            is_open = mark.kind == "open"
            number = len(codes)
            parts.append(f'<g i="{number}">' if is_open else lone_code(number, is_break))
            open_codes += [number] * is_open
            codes.append((mark, None))
    text = "".join([*parts, escape(content[position:])])
    breaks = [mark for mark in marks if mark.kind == "break"]
    spellings = _spellings(content, marks)
    if codes:
        return Inline(text, "xml", codes, breaks, spellings)
    return Inline(unescape(text), "text", [], breaks, spellings)


def _seen(raw: str) -> str:
    return raw[1] if raw[0] == "\\" else html.unescape(raw)


def _spellings(content: str, marks: Sequence[Mark]) -> dict[str, list[str]]:
    """See `Inline`."""
    special = {_seen(content[mark.start : mark.end]) for mark in marks if mark.kind == "character"}
    spellings: dict[str, list[str]] = collections.defaultdict(list)
    position = 0
    for mark in (*marks, Mark(len(content), len(content), "code")) if special else ():
        for character in content[position : mark.start]:
            if character in special:
                spellings[character].append(character)
        raw = content[mark.start : mark.end]
        if mark.kind == "character":
            spellings[_seen(raw)].append(raw)
        position = mark.end
    return dict(spellings)


def _marks(markdown: MarkdownIt, content: str, references: References) -> list[Mark]:
    environment: dict = {"marks": [], "references": references}
    tokens = markdown.parseInline(content, environment)
    marks = environment["marks"]
    for token in tokens[0].children or []:
        if token.type in _AROUND and "at" in token.meta:
            first, last = _AROUND[token.type]
            at, kind = token.meta["at"], token.type.rpartition("_")[2]
            marks.append(Mark(at + first, at + last, kind))
    marks = _without_text(content, _with_elements(content, sorted(marks)))
    if not _STAND_IN.search(content):
        return marks
    return _with_private(content, marks)


def _with_elements(content: str, marks: list[Mark]) -> list[Mark]:
    """Returns marks in which the tags of HTML open and close, where they nest with all others.

    An element whose content is not translated is one code. Tags of blocks divide the text.
    """
    paired: list[Mark] = []
    # Open elements inside each open mark of Markdown: name, place in `paired`, whether it is kept.
    levels: list[tuple[list[tuple[str, int, bool]], Counter]] = [([], Counter())]
    for mark in marks:
        opened, names = levels[-1]
        raw = content[mark.start : mark.end]
        token = next(html_tokens(raw), None) if mark.kind == "code" and raw[0] == "<" else None
        if mark.kind == "open":
            levels.append(([], Counter()))
        elif mark.kind in ("close", "name") and len(levels) > 1:
            levels.pop()
        elif token and token.kind == CLOSE and names[token.name]:
            name = ""
            while name != token.name:
                name, number, whole = opened.pop()
                names[name] -= 1
            if whole:
                del paired[number + 1 :]
                paired[number] = paired[number]._replace(end=mark.end)
                continue
            paired[number], mark = paired[number]._replace(kind="open"), mark._replace(kind="close")
        elif token and token.name in HTML_BLOCKS and not is_kept(token, HTML_KEPT):
            mark = mark._replace(kind="division")
        elif token and token.kind == OPEN:
            opened.append((token.name, len(paired), is_kept(token, HTML_KEPT)))
            names[token.name] += 1
        paired.append(mark)
    return paired


def _without_text(content: str, marks: Sequence[Mark]) -> list[Mark]:
    """Returns marks in which each element without words is one code.

    That is one around codes alone, or around a number that follows a word without a space.
    """
    merged: list[Mark] = []
    opened: list[_Opened] = []
    position = 0
    for mark in marks:
        has_text = has_letters(content[position : mark.start]) or mark.kind in ("hard", "division")
        position = mark.end
        if mark.kind == "character":
            has_text = has_text or has_letters(_seen(content[mark.start : mark.end]))
        if opened:
            opened[-1].has_text |= has_text
            opened[-1].has_codes |= mark.kind == "code"
        if mark.kind == "open":
            opened.append(_Opened(len(merged)))
        elif mark.kind in ("close", "name") and opened:
            inner = opened.pop()
            start = merged[inner.number].start
            is_glued = start > 0 and not content[start - 1].isspace()
            is_code = not inner.has_text and (is_glued or inner.has_codes)
            if opened:
                opened[-1].has_text |= inner.has_text
                opened[-1].has_codes |= inner.has_codes or is_code
            if is_code:
                del merged[inner.number + 1 :]
                merged[inner.number] = Mark(start, mark.end, "code")
                continue
        merged.append(mark)
    return merged


def _with_private(content: str, marks: Sequence[Mark]) -> list[Mark]:
    """Returns marks with codes for characters that stand for tags elsewhere."""
    more: list[Mark] = []
    position = 0
    for mark in (*marks, Mark(len(content), len(content), "")):
        for match in _STAND_IN.finditer(content, position, max(mark.start, position)):
            more.append(Mark(match.start(), match.end(), "code"))
        more.append(mark)
        position = mark.end
    return more[:-1]


def tags_replaced(text: str) -> str:
    """Returns a translation with one character for each tag."""
    open_codes: list[int] = []

    def stand_in(match: re.Match) -> str:
        number = open_codes.pop() if match[1] and open_codes else int(match[3] or 0)
        if match[2] == "g" and not match[4]:
            open_codes.append(number)
        return stand_in_of(number, bool(match[1]))

    return unescape(MASK.sub(stand_in, text))


def stand_in_of(number: int, is_close: bool) -> str:
    """Returns the character that stands for a tag of a code."""
    return chr(min(_FIRST + 2 * number + is_close, 0x10FEFF))


def mark_of(character: str, codes: Sequence[tuple[Mark, Mark | None]]) -> Mark | None:
    """Returns what a character stands for; None = it is text."""
    number, is_close = divmod(ord(character) - _FIRST, 2)
    return codes[number][is_close] if 0 <= number < len(codes) else None


def tags_in(text: str) -> list[str]:
    """Returns the characters that stand for tags."""
    return _STAND_IN.findall(text)


def tags_of(codes: Sequence[tuple[Mark, Mark | None]]) -> list[str]:
    """Returns the characters that stand for the tags of codes, in order."""
    return [
        stand_in_of(number, bool(is_close))
        for number, code in enumerate(codes)
        for is_close, mark in enumerate(code)
        if mark
    ]
