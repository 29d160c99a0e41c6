"""Inline Markdown: the parser, and the division of a block into text and codes.

Reads CommonMark with tables and strikethrough. The marks of other extensions are not text; they
separate the text inside them from the rest.
"""

import collections
import dataclasses
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, unescape

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.inline_codes import PLAIN_TAG, lone_code
from t2t_keras.workbench.markup.tokens import (
    CLOSE,
    HTML_BLOCKS,
    HTML_KEPT,
    OPEN,
    html_tokens,
    is_break_tag,
    is_kept,
)

# Lines without text: ::: note, > [!NOTE], [[toc]], {% if %}, {: .class}.
_MARK_LINE = re.compile(
    r"(?::{3,}.*|\[![A-Za-z]+\][+-]?(?:[ \t].*)?|\[\[?_?TOC_?\]?\]|\{[%{:][^{}]*\})[ \t]*",
    re.IGNORECASE,
)
# Beginnings of blocks that continue in indented lines. [^1]: (a footnote) and : (a definition)
# precede text; !!! note, ??? note and === "Tab" are whole lines.
_INDENTED = re.compile(
    r"""\[\^[^\s\[\]]+\]:[ \t]*|:[ \t]+(?=\S)|(?:!!!|\?\?\?\+?)[ \t]+\S.*|===[!+]?[ \t]+["'].*"""
)
_INDENTATION = 4
_MATH = "$$"
_INTERRUPTED_BLOCKS = ["paragraph", "reference", "blockquote", "list"]
_EXTENSION = re.compile(
    r"""
    \[\^[^\s\[\]]+\]                                  # a footnote
    | \[\[[^\[\]\n]+\]\]                              # a page of a wiki
    | (?<![\w:]):(?=[^:]*[a-z])[a-z0-9_+-]+:(?![\w:]) # :smile:
    | (?<![\w$\\])\$\$[^$]+\$\$(?!\$)                 # mathematics
    | (?<![\w$\\])\$(?![\s$])[^$\n]*(?<![\s\\])\$(?![\w$])
    | \{\{[^{}]*\}\} | \{%[^{}]*%\} | \{[#.:%][^{}\n]*\}  # templates, attributes
    """,
    re.VERBOSE,
)
_EXTENSION_STARTS = "[:${"

# Rules of the parser whose matches are not text.
_CODE_RULES = {"autolink", "backticks", "entity", "extension", "html_inline", "image"}
_DELIMITER_RULES = {"emphasis", "strikethrough"}
# Start and end of a delimiter, relative to the place that the parser stores.
_DELIMITER_SPANS = {
    "em_open": (0, 1),
    "em_close": (0, 1),
    "strong_open": (-1, 1),
    "strong_close": (0, 2),
    "s_open": (0, 2),
    "s_close": (0, 2),
}
# Private characters that stand for tags while the text is laid out.
_FIRST_STAND_IN = 0xF0000
STAND_INS = "\U000f0000-\U0010feff"
_STAND_IN = re.compile(f"[{STAND_INS}]")
# References of links by name, as the parser stores them.
References = Mapping[str, Any]


class SyntaxMark(NamedTuple):
    """Characters of a block that are not text, or have a special spelling.

    The kind is "code"; "open" or "close"; "name", the close of a link whose text names its
    reference; "break", a line end that counts as a space; "hard", a visible line end; "division", a
    tag that divides text; or "character", an entity or a character after a backslash.
    """

    start: int
    end: int
    kind: str


def new_parser() -> MarkdownIt:
    """Returns a parser that records the `SyntaxMark`s of a block in the environment's "marks"."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    rules = {"mark": _mark_rule, "math": _math_rule, "indented": _indented_rule}
    for name, rule in rules.items():
        markdown.block.ruler.before("fence", name, rule, {"alt": _INTERRUPTED_BLOCKS})
    markdown.inline.ruler.before("newline", "extension", _extension_rule)
    for inline in list(markdown.inline.ruler.__rules__):
        markdown.inline.ruler.at(inline.name, _recording_rule(inline.name, inline.fn))
    return markdown


def _line_span(state: StateBlock, number: int) -> tuple[int, int]:
    return state.bMarks[number] + state.tShift[number], state.eMarks[number]


def _push_mark(state: StateBlock, start: int, end: int) -> None:
    token = state.push("mark", "", 0)
    token.map = [start, end]
    token.content = state.src[_line_span(state, start)[0] : state.eMarks[end - 1]]


def _mark_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start) or not _MARK_LINE.fullmatch(state.src, *_line_span(state, start)):
        return False
    if not silent:
        state.line = start + 1
        _push_mark(state, start, start + 1)
    return True


def _math_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    text_start, text_end = _line_span(state, start)
    if not state.src.startswith(_MATH, text_start) or state.is_code_block(start):
        return False
    last_line = start
    inside = state.src[text_start + len(_MATH) : text_end].rstrip()
    if not inside.endswith(_MATH):
        # Do not search the same lines for the closing $$ repeatedly.
        if _MATH in inside or start < state.env.get("no_math_before", 0):
            return False
        last_line += 1
        while last_line < end and not state.isEmpty(last_line):
            if state.src[slice(*_line_span(state, last_line))].rstrip().endswith(_MATH):
                break
            last_line += 1
        else:
            state.env["no_math_before"] = last_line
            return False
    if not silent:
        state.line = last_line + 1
        _push_mark(state, start, last_line + 1)
    return True


def _indented_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    text_start, text_end = _line_span(state, start)
    match = _INDENTED.match(state.src, text_start, text_end)
    if not match or state.is_code_block(start):
        return False
    if silent:
        return True
    saved_line = state.bMarks[start], state.tShift[start], state.sCount[start]
    indent, kind = state.blkIndent, state.parentType
    state.blkIndent = state.sCount[start] + _INDENTATION
    state.parentType = "list"
    opening = state.push("indented_open", "", 1)
    opening.map = [start, start + 1]
    # A note's title is in the line of its mark, which is not translated.
    opening.content = match[0] if match.end() == text_end else ""
    state.line = start + 1
    if match.end() < text_end:
        state.bMarks[start], state.tShift[start] = match.end(), 0
        state.sCount[start], state.line = state.blkIndent, start
    state.md.block.tokenize(state, state.line, end)
    state.push("indented_close", "", -1)
    state.bMarks[start], state.tShift[start], state.sCount[start] = saved_line
    state.blkIndent, state.parentType = indent, kind
    return True


def _extension_rule(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in _EXTENSION_STARTS:
        return False
    match = _EXTENSION.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if match[0].startswith("["):
        # Links take precedence.
        references = state.env.get("references", {})
        if any(normalizeReference(match[0][n : len(match[0]) - n]) in references for n in (1, 2)):
            return False
    if not silent:
        state.push("extension", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _recording_rule(name: str, rule: Callable) -> Callable:
    """Returns a rule of the parser that also records the marks it finds."""

    def recording_rule(state: StateInline, silent: bool) -> bool:
        if silent:
            return rule(state, silent)
        marks = state.env.setdefault("marks", [])
        start, is_delimiter = state.pos, name in _DELIMITER_RULES and state.src[state.pos] in "*_~"
        if is_delimiter and state.pending:
            state.pushPending()
        num_tokens = len(state.tokens)
        if name == "image":
            # The parser reads the image's description as a separate text: discard its marks.
            state.env["marks"] = []
        is_match = rule(state, silent)
        state.env["marks"] = marks
        if is_match:
            if is_delimiter:
                _store_places(state, num_tokens, start)
            elif name == "link":
                marks += _link_marks(state, start)
            elif name in _CODE_RULES:
                raw = state.src[start : state.pos]
                text = html.unescape(raw) if name == "entity" else ""
                # An entity that stands for a visible character is text.
                is_visible = len(text) == 1 and text.isprintable()
                marks.append(SyntaxMark(start, state.pos, "character" if is_visible else "code"))
            elif name in ("newline", "escape"):
                marks += _break_marks(state, start)
        return is_match

    return recording_rule


def _link_marks(state: StateInline, start: int) -> list[SyntaxMark]:
    end = state.pos
    label_end = state.md.helpers.parseLinkLabel(state, start, True)
    # The text of [a] and [a][], which is translated, names a reference.
    is_name = state.src[label_end:end] in ("]", "][]")
    return [
        SyntaxMark(start, start + 1, "open"),
        SyntaxMark(label_end, end, "name" if is_name else "close"),
    ]


def _store_places(state: StateInline, num_tokens: int, start: int) -> None:
    """Stores the places of delimiters in their tokens."""
    for token in state.tokens[num_tokens:]:
        token.meta["at"] = start
        start += len(token.content)


def _break_marks(state: StateInline, start: int) -> Iterator[SyntaxMark]:
    """Yields the mark of a line end, or of a character after a backslash."""
    token = state.tokens[-1] if state.tokens and not state.pending else None
    if "\n" in state.src[start : state.pos]:
        space_start = start
        while space_start and state.src[space_start - 1] == " ":
            space_start -= 1
        is_soft_break = token and token.type == "softbreak"
        yield SyntaxMark(space_start, state.pos, "break" if is_soft_break else "hard")
    elif token and token.content != token.markup:
        yield SyntaxMark(start, state.pos, "character")


class Inline(NamedTuple):
    """The text of a block.

    Attributes:
      lines: its lines, with plain tags for codes.
      format: "text", or "xml" if it has codes.
      codes: (opening tag, closing tag) or (code, None), by number.
      breaks: its line ends.
      spellings: for each character with a special spelling somewhere in the text, the spellings
        of all its occurrences, in order.
    """

    lines: str
    format: str
    codes: list[tuple[SyntaxMark, SyntaxMark | None]]
    breaks: list[SyntaxMark]
    spellings: dict[str, list[str]]

    @property
    def text(self) -> str:
        """The text in one line."""
        return self.lines.replace("\n", " ")

    def with_stand_ins(self) -> str:
        """Returns the lines with one character for each tag."""
        return replace_tags(self.lines) if self.codes else self.lines


@dataclasses.dataclass
class _OpenElement:
    number: int  # number of its opening mark
    has_text: bool = False
    has_codes: bool = False


def text_spans(
    markdown: MarkdownIt, content: str, references: References
) -> list[tuple[int, int, bool]]:
    """Returns (start, end, whether it begins a line) for each text of a block, in order.

    Texts end at visible line ends and at tags that divide text.
    """
    depth, start, raw_spans = 0, 0, []
    for mark in _marks(markdown, content, references):
        depth += (mark.kind == "open") - (mark.kind in ("close", "name"))
        if mark.kind in ("hard", "division") and not depth:
            raw_spans.append((start, mark.start))
            start = mark.end
    spans = []
    for part_start, part_end in [*raw_spans, (start, len(content))]:
        part = content[part_start:part_end]
        part_start += len(part) - len(part.lstrip(" \t\n"))
        part_end = max(part_start, part_end - len(part) + len(part.rstrip(" \t\n")))
        line_start = part_start
        while line_start and content[line_start - 1] in " \t":
            line_start -= 1
        spans.append((part_start, part_end, not line_start or content[line_start - 1] == "\n"))
    return spans


def inline_of(markdown: MarkdownIt, content: str, references: References) -> Inline:
    """Divides a block's content into text and codes."""
    marks = _marks(markdown, content, references)
    parts: list[str] = []
    codes: list[tuple[SyntaxMark, SyntaxMark | None]] = []
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
            parts.append(escape(_char(raw)))
        else:
            is_break = mark.kind in ("hard", "division")
            is_break = is_break or is_break_tag(raw) or html.unescape(raw).isspace()
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


def _char(raw: str) -> str:
    return raw[1] if raw[0] == "\\" else html.unescape(raw)


def _spellings(content: str, marks: Sequence[SyntaxMark]) -> dict[str, list[str]]:
    """Returns `Inline.spellings`."""
    special = {_char(content[mark.start : mark.end]) for mark in marks if mark.kind == "character"}
    spellings: dict[str, list[str]] = collections.defaultdict(list)
    position = 0
    for mark in (*marks, SyntaxMark(len(content), len(content), "code")) if special else ():
        for character in content[position : mark.start]:
            if character in special:
                spellings[character].append(character)
        raw = content[mark.start : mark.end]
        if mark.kind == "character":
            spellings[_char(raw)].append(raw)
        position = mark.end
    return dict(spellings)


def _marks(markdown: MarkdownIt, content: str, references: References) -> list[SyntaxMark]:
    environment: dict = {"marks": [], "references": references}
    tokens = markdown.parseInline(content, environment)
    marks = environment["marks"]
    for token in tokens[0].children or []:
        if token.type in _DELIMITER_SPANS and "at" in token.meta:
            start, end = _DELIMITER_SPANS[token.type]
            position, kind = token.meta["at"], token.type.rpartition("_")[2]
            marks.append(SyntaxMark(position + start, position + end, kind))
    marks = _merge_textless(content, _pair_html_tags(content, sorted(marks)))
    if not _STAND_IN.search(content):
        return marks
    return _with_private_codes(content, marks)


def _pair_html_tags(content: str, marks: list[SyntaxMark]) -> list[SyntaxMark]:
    """Turns pairs of HTML tags into open and close marks, unless they overlap other pairs.

    An untranslated element becomes one code. Tags of blocks divide the text.
    """
    paired_marks: list[SyntaxMark] = []
    # Open elements inside each open mark: (name, number in `paired_marks`, is untranslated).
    levels: list[tuple[list[tuple[str, int, bool]], Counter]] = [([], Counter())]
    for mark in marks:
        open_elements, open_counts = levels[-1]
        raw = content[mark.start : mark.end]
        token = next(html_tokens(raw), None) if mark.kind == "code" and raw[0] == "<" else None
        if mark.kind == "open":
            levels.append(([], Counter()))
        elif mark.kind in ("close", "name") and len(levels) > 1:
            levels.pop()
        elif token and token.kind == CLOSE and open_counts[token.name]:
            name = ""
            while name != token.name:
                name, number, is_untranslated = open_elements.pop()
                open_counts[name] -= 1
            if is_untranslated:
                del paired_marks[number + 1 :]
                paired_marks[number] = paired_marks[number]._replace(end=mark.end)
                continue
            paired_marks[number] = paired_marks[number]._replace(kind="open")
            mark = mark._replace(kind="close")
        elif token and token.name in HTML_BLOCKS and not is_kept(token, HTML_KEPT):
            mark = mark._replace(kind="division")
        elif token and token.kind == OPEN:
            open_elements.append((token.name, len(paired_marks), is_kept(token, HTML_KEPT)))
            open_counts[token.name] += 1
        paired_marks.append(mark)
    return paired_marks


def _merge_textless(content: str, marks: Sequence[SyntaxMark]) -> list[SyntaxMark]:
    """Merges each element without words into one code.

    Such an element contains only codes, or a number directly after a word.
    """
    merged_marks: list[SyntaxMark] = []
    open_elements: list[_OpenElement] = []
    position = 0
    for mark in marks:
        has_text = has_letters(content[position : mark.start]) or mark.kind in ("hard", "division")
        position = mark.end
        if mark.kind == "character":
            has_text = has_text or has_letters(_char(content[mark.start : mark.end]))
        if open_elements:
            open_elements[-1].has_text |= has_text
            open_elements[-1].has_codes |= mark.kind == "code"
        if mark.kind == "open":
            open_elements.append(_OpenElement(len(merged_marks)))
        elif mark.kind in ("close", "name") and open_elements:
            inner = open_elements.pop()
            start = merged_marks[inner.number].start
            is_glued = start > 0 and not content[start - 1].isspace()
            is_code = not inner.has_text and (is_glued or inner.has_codes)
            if open_elements:
                open_elements[-1].has_text |= inner.has_text
                open_elements[-1].has_codes |= inner.has_codes or is_code
            if is_code:
                del merged_marks[inner.number + 1 :]
                merged_marks[inner.number] = SyntaxMark(start, mark.end, "code")
                continue
        merged_marks.append(mark)
    return merged_marks


def _with_private_codes(content: str, marks: Sequence[SyntaxMark]) -> list[SyntaxMark]:
    """Adds codes for characters of the source that this module uses as stand-ins for tags."""
    added_marks: list[SyntaxMark] = []
    position = 0
    for mark in (*marks, SyntaxMark(len(content), len(content), "")):
        for match in _STAND_IN.finditer(content, position, max(mark.start, position)):
            added_marks.append(SyntaxMark(match.start(), match.end(), "code"))
        added_marks.append(mark)
        position = mark.end
    return added_marks[:-1]


def replace_tags(text: str) -> str:
    """Returns a translation with one character for each tag."""
    open_codes: list[int] = []

    def stand_in(match: re.Match) -> str:
        number = open_codes.pop() if match[1] and open_codes else int(match[3] or 0)
        if match[2] == "g" and not match[4]:
            open_codes.append(number)
        return stand_in_of(number, bool(match[1]))

    return unescape(PLAIN_TAG.sub(stand_in, text))


def stand_in_of(number: int, is_close: bool) -> str:
    """Returns the character that stands for a tag of a code."""
    return chr(min(_FIRST_STAND_IN + 2 * number + is_close, 0x10FEFF))


def mark_of(
    character: str, codes: Sequence[tuple[SyntaxMark, SyntaxMark | None]]
) -> SyntaxMark | None:
    """Returns the mark for which a character stands; None = it is text."""
    number, is_close = divmod(ord(character) - _FIRST_STAND_IN, 2)
    return codes[number][is_close] if 0 <= number < len(codes) else None


def stand_ins_in(text: str) -> list[str]:
    """Returns the characters that stand for tags."""
    return _STAND_IN.findall(text)


def stand_ins_of(codes: Sequence[tuple[SyntaxMark, SyntaxMark | None]]) -> list[str]:
    """Returns the characters that stand for the tags of codes, in order."""
    return [
        stand_in_of(number, bool(is_close))
        for number, code in enumerate(codes)
        for is_close, mark in enumerate(code)
        if mark
    ]
