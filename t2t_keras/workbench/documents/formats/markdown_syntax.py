"""The parser of Markdown: where it finds what, and extensions of it whose marks stay as they are.

CommonMark with tables and strikethrough is read. Of other extensions only the marks are known: they
are no text, and what they mark is text of its own.
"""

import html
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# Lines without text: ::: note, > [!NOTE], [[toc]], {% if %}, {: .class}.
_MARK_LINE = re.compile(
    r"(?::{3,}.*|\[![A-Za-z]+\][+-]?(?:[ \t].*)?|\[\[?_?TOC_?\]?\]|\{[%{:][^{}]*\})[ \t]*",
    re.IGNORECASE,
)
# What begins a block that goes on in indented lines: [^1]: a footnote, : a definition; and with its
# whole line !!! note, ??? note, === "Tab".
_INDENTED = re.compile(
    r"""\[\^[^\s\[\]]+\]:[ \t]*|:[ \t]+(?=\S)|(?:!!!|\?\?\?\+?)[ \t]+\S.*|===[!+]?[ \t]+["'].*"""
)
_INDENTATION = 4
_MATH = "$$"
_ENDS = ["paragraph", "reference", "blockquote", "list"]
_INLINE = re.compile(
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
_MARKS = "[:${"

# Rules of the parser whose matches are not text.
_CODES = {"autolink", "backticks", "entity", "extension", "html_inline", "image"}
_DELIMITERS = {"emphasis", "strikethrough"}


class Mark(NamedTuple):
    """Characters of a block that are no text, or are written in another way than they look.

    The kind is "code", "open" or "close", "name" of a close after text by which something is
    found, "break" of an end of line that is a space, "hard" of one that is shown, "division"
    of a tag that divides text, or "character" of an entity or a character after a backslash.
    """

    start: int
    end: int
    kind: str


def parser() -> MarkdownIt:
    """Returns a parser that notes the `Mark`s of a block in the environment's "marks"."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name, rule in (("mark", _mark_line), ("math", _math), ("indented", _indented)):
        markdown.block.ruler.before("fence", name, rule, {"alt": _ENDS})
    markdown.inline.ruler.before("newline", "extension", _extension)
    for inline in list(markdown.inline.ruler.__rules__):
        markdown.inline.ruler.at(inline.name, _noting(inline.name, inline.fn))
    return markdown


def _line(state: StateBlock, number: int) -> tuple[int, int]:
    return state.bMarks[number] + state.tShift[number], state.eMarks[number]


def _push_mark(state: StateBlock, start: int, end: int) -> None:
    token = state.push("mark", "", 0)
    token.map = [start, end]
    token.content = state.src[_line(state, start)[0] : state.eMarks[end - 1]]


def _mark_line(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start) or not _MARK_LINE.fullmatch(state.src, *_line(state, start)):
        return False
    if not silent:
        state.line = start + 1
        _push_mark(state, start, start + 1)
    return True


def _math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    begin, stop = _line(state, start)
    if not state.src.startswith(_MATH, begin) or state.is_code_block(start):
        return False
    last = start
    inside = state.src[begin + len(_MATH) : stop].rstrip()
    if not inside.endswith(_MATH):
        # No line is looked at for each of many that seem to begin mathematics.
        if _MATH in inside or start < state.env.get("no_math_before", 0):
            return False
        last += 1
        while last < end and not state.isEmpty(last):
            if state.src[slice(*_line(state, last))].rstrip().endswith(_MATH):
                break
            last += 1
        else:
            state.env["no_math_before"] = last
            return False
    if not silent:
        state.line = last + 1
        _push_mark(state, start, last + 1)
    return True


def _indented(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    begin, stop = _line(state, start)
    match = _INDENTED.match(state.src, begin, stop)
    if not match or state.is_code_block(start):
        return False
    if silent:
        return True
    line = state.bMarks[start], state.tShift[start], state.sCount[start]
    indent, kind = state.blkIndent, state.parentType
    state.blkIndent = state.sCount[start] + _INDENTATION
    state.parentType = "list"
    opening = state.push("indented_open", "", 1)
    opening.map = [start, start + 1]
    # The title of a note stays with its mark.
    opening.content = match[0] if match.end() == stop else ""
    state.line = start + 1
    if match.end() < stop:
        state.bMarks[start], state.tShift[start] = match.end(), 0
        state.sCount[start], state.line = state.blkIndent, start
    state.md.block.tokenize(state, state.line, end)
    state.push("indented_close", "", -1)
    state.bMarks[start], state.tShift[start], state.sCount[start] = line
    state.blkIndent, state.parentType = indent, kind
    return True


def _extension(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in _MARKS:
        return False
    match = _INLINE.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if match[0].startswith("["):
        # A link comes first, wherever it leads.
        names = state.env.get("references", {})
        if any(normalizeReference(match[0][n : len(match[0]) - n]) in names for n in (1, 2)):
            return False
    if not silent:
        state.push("extension", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _noting(name: str, rule: Callable) -> Callable:
    def noted(state: StateInline, silent: bool) -> bool:
        if silent:
            return rule(state, silent)
        marks = state.env.setdefault("marks", [])
        start, is_delimiter = state.pos, name in _DELIMITERS and state.src[state.pos] in "*_~"
        if is_delimiter and state.pending:
            state.pushPending()
        count = len(state.tokens)
        if name == "image":
            # It reads the description as a text of its own.
            state.env["marks"] = []
        is_match = rule(state, silent)
        state.env["marks"] = marks
        if is_match:
            if is_delimiter:
                _number(state, count, start)
            elif name == "link":
                marks += _of_link(state, start)
            elif name in _CODES:
                raw = state.src[start : state.pos]
                text = html.unescape(raw) if name == "entity" else ""
                # The character that an entity stands for is text.
                is_seen = len(text) == 1 and text.isprintable()
                marks.append(Mark(start, state.pos, "character" if is_seen else "code"))
            elif name in ("newline", "escape"):
                marks += _of_break(state, start)
        return is_match

    return noted


def _of_link(state: StateInline, start: int) -> list[Mark]:
    end = state.pos
    label_end = state.md.helpers.parseLinkLabel(state, start, True)
    # [a] and [a][] name what they refer to by their text, which is translated.
    is_name = state.src[label_end:end] in ("]", "][]")
    return [Mark(start, start + 1, "open"), Mark(label_end, end, "name" if is_name else "close")]


def _number(state: StateInline, count: int, start: int) -> None:
    """Notes in the tokens of delimiters where they are."""
    for token in state.tokens[count:]:
        token.meta["at"] = start
        start += len(token.content)


def _of_break(state: StateInline, start: int) -> Iterator[Mark]:
    """Yields the mark of a line end, or of a character after a backslash."""
    token = state.tokens[-1] if state.tokens and not state.pending else None
    if "\n" in state.src[start : state.pos]:
        begin = start
        while begin and state.src[begin - 1] == " ":
            begin -= 1
        is_space = token and token.type == "softbreak"
        yield Mark(begin, state.pos, "break" if is_space else "hard")
    elif token and token.content != token.markup:
        yield Mark(start, state.pos, "character")
