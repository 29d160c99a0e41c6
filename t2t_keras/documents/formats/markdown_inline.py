"""Markdown within a block: which characters are text, and which are codes around or in it."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, unescape

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from t2t_keras.documents.exchange.inline_codes import MASK, lone_code
from t2t_keras.text.markup.matching import HTML_KEPT, is_kept, parts_words
from t2t_keras.text.markup.tokens import CLOSE, OPEN, html_tokens

# What a rule of the parser finds that is no text.
_CODES = {"autolink", "backticks", "entity", "html_inline", "image"}
_DELIMITERS = {"emphasis", "strikethrough"}
# Where the characters of a delimiter begin and end, from the one that the parser names.
_AROUND = {
    "em_open": (0, 1),
    "em_close": (0, 1),
    "strong_open": (-1, 1),
    "strong_close": (0, 2),
    "s_open": (0, 2),
    "s_close": (0, 2),
}
_ANY = {"text", "softbreak"}
_SYNTAX = re.compile(r"([\\`*_\[\]<>~&])")
_LINE_SYNTAX = re.compile(r"^(\s*)([-+#>=~:|]|\d+(?=[.)]))", re.MULTILINE)
# Characters for private use stand for tags while the text between them is laid out.
_FIRST = 0xF0000
_STAND_IN = re.compile("[\U000f0000-\U000ffffd]")


# What links refer to by name, as the parser has it.
References = Mapping[str, Any]


class Mark(NamedTuple):
    """Characters of a block that are no text.

    The kind is "code", "open" or "close", "break" of an end of line that is a space, "hard" of one
    that is shown, "character" of an entity, or "escape" of a backslash before a character. What is
    `written` for a mark is other than what stands there, unless it is "".
    """

    start: int
    end: int
    kind: str
    written: str = ""


class Inline(NamedTuple):
    """The text of a block.

    Attributes:
      lines: with codes as plain tags, where it has any.
      format: "text", or "xml" if it has codes.
      codes: where each code is: that of the opening and of the closing tag, or the code's and None.
      breaks: where the ends of lines are.
    """

    lines: str
    format: str
    codes: list[tuple[Mark, Mark | None]]
    breaks: list[Mark]

    @property
    def text(self) -> str:
        """The text in one line."""
        return self.lines.replace("\n", " ")


def parser() -> MarkdownIt:
    """Returns a parser of Markdown with tables that notes where it finds what."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for rule in list(markdown.inline.ruler.__rules__):
        markdown.inline.ruler.at(rule.name, _noting(rule.name, rule.fn))
    return markdown


def _noting(name: str, rule: Callable) -> Callable:
    def noted(state: StateInline, silent: bool) -> bool:
        if silent:
            return rule(state, silent)
        marks = state.env.setdefault("marks", [])
        start, is_delimiter = state.pos, name in _DELIMITERS and state.src[state.pos] in "*_~"
        if is_delimiter and state.pending:
            state.pushPending()
        count = len(state.tokens)
        label_end = -1
        if name == "link" and state.src[start] == "[":
            label_end = state.md.helpers.parseLinkLabel(state, start, True)
        if name == "image":
            # It reads the description as a text of its own.
            state.env["marks"] = []
        found = rule(state, silent)
        state.env["marks"] = marks
        if found:
            if is_delimiter:
                _number(state, count, start)
            elif name == "link":
                marks += _of_link(state, start, label_end)
            elif name in _CODES:
                # Of an entity, what is seen is text.
                is_seen = (
                    name == "entity" and html.unescape(state.src[start : state.pos]).isprintable()
                )
                marks.append(Mark(start, state.pos, "character" if is_seen else "code"))
            elif name in ("newline", "escape"):
                marks += _of_break(state, start)
        return found

    return noted


def _of_link(state: StateInline, start: int, label_end: int) -> list[Mark]:
    label = " ".join(state.src[start + 1 : label_end].split())
    if label.startswith("^"):  # A footnote, for parsers that know these.
        return [Mark(start, state.pos, "code")]
    # [a] and [a][] name what they refer to by their text, which is translated.
    is_name = state.src[label_end : state.pos] in ("]", "][]")
    written = f"][{label}]" if is_name else ""
    return [Mark(start, start + 1, "open"), Mark(label_end, state.pos, "close", written)]


def _number(state: StateInline, count: int, start: int) -> None:
    """Notes in the tokens of delimiters where they are."""
    for token in state.tokens[count:]:
        token.meta["at"] = start
        start += len(token.content)


def _of_break(state: StateInline, start: int) -> Iterator[Mark]:
    """Yields the mark of an end of line; or of the backslash before a character."""
    kind = state.tokens[-1].type if state.tokens and not state.pending else ""
    if state.src[start] == "\n" and kind == "softbreak":
        yield Mark(start, state.pos, "break")
    elif "\n" in state.src[start : state.pos]:
        begin = start
        while state.src[begin - 1] == " ":
            begin -= 1
        yield Mark(begin, state.pos, "hard")
    else:
        yield Mark(start, start + 1, "escape")


def lines_of(markdown: MarkdownIt, content: str, references: References) -> list[tuple[int, int]]:
    """Returns where the parts of a block begin and end, between ends of lines that are shown."""
    depth, start, parts = 0, 0, []
    for mark in _marks(markdown, content, references):
        depth += (mark.kind == "open") - (mark.kind == "close")
        if mark.kind == "hard" and not depth:
            parts.append((start, mark.start))
            start = mark.end
    return [*parts, (start, len(content))]


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
        if mark.kind == "break":
            parts[-1] = parts[-1].rstrip(" ")
            parts.append("\n")
        elif mark.kind == "close" and open_codes:
            number = open_codes.pop()
            codes[number] = (codes[number][0], mark)
            parts.append("</g>")
        elif mark.kind == "character":
            parts.append(escape(html.unescape(content[mark.start : mark.end])))
        elif mark.kind != "escape":
            raw = content[mark.start : mark.end]
            is_break = mark.kind == "hard" or parts_words(raw) or html.unescape(raw).isspace()
            is_open = mark.kind == "open"
            number = len(codes)
            parts.append(f'<g i="{number}">' if is_open else lone_code(number, is_break))
            open_codes += [number] * is_open
            codes.append((mark, None))
    text = "".join([*parts, escape(content[position:])])
    breaks = [mark for mark in marks if mark.kind == "break"]
    if codes:
        return Inline(text, "xml", codes, breaks)
    return Inline(unescape(text), "text", [], breaks)


def _marks(markdown: MarkdownIt, content: str, references: References) -> list[Mark]:
    environment: dict = {"marks": [], "references": references}
    tokens = markdown.parseInline(content, environment)
    marks = environment["marks"]
    for token in tokens[0].children or []:
        if token.type in _AROUND and "at" in token.meta:
            first, last = _AROUND[token.type]
            at, kind = token.meta["at"], token.type.rpartition("_")[2]
            marks.append(Mark(at + first, at + last, kind))
    return _with_elements(content, sorted(marks))


def _with_elements(content: str, marks: list[Mark]) -> list[Mark]:
    """Returns marks in which the tags of HTML open and close, where they nest with all others.

    An element whose content is not translated is one code.
    """
    found: list[Mark] = []
    # Elements that are open within each of Markdown's marks: name, place in `found`, is it kept.
    levels: list[tuple[list[tuple[str, int, bool]], Counter]] = [([], Counter())]
    for mark in marks:
        opened, names = levels[-1]
        raw = content[mark.start : mark.end]
        token = next(html_tokens(raw), None) if mark.kind == "code" and raw[0] == "<" else None
        if mark.kind == "open":
            levels.append(([], Counter()))
        elif mark.kind == "close" and len(levels) > 1:
            levels.pop()
        elif token and token.kind == OPEN:
            opened.append((token.name, len(found), is_kept(token, HTML_KEPT)))
            names[token.name] += 1
        elif token and token.kind == CLOSE and names[token.name]:
            name = ""
            while name != token.name:
                name, number, whole = opened.pop()
                names[name] -= 1
            if whole:
                del found[number + 1 :]
                found[number] = found[number]._replace(end=mark.end)
                continue
            found[number], mark = found[number]._replace(kind="open"), mark._replace(kind="close")
        found.append(mark)
    return found


def structure_of(
    markdown: MarkdownIt, content: str, references: References, is_paragraph: bool
) -> object:
    """Returns what a block's content is but its text: two texts of the same are laid out alike."""
    read = markdown.parse if is_paragraph else markdown.parseInline
    tokens = read(content, {"references": dict(references)})
    inner = [child.type for token in tokens for child in token.children or []]
    return [token.type for token in tokens], sorted(kind for kind in inner if kind not in _ANY)


def tags_replaced(text: str) -> str:
    """Returns a translation with one character for each tag: see `tags_restored`."""
    open_codes: list[int] = []

    def stand_in(match: re.Match) -> str:
        number = open_codes.pop() if match[1] and open_codes else int(match[3] or 0)
        if match[2] == "g" and not match[4]:
            open_codes.append(number)
        return chr(_FIRST + 2 * number + bool(match[1]))

    return unescape(MASK.sub(stand_in, text))


def tags_restored(text: str, codes: Sequence[tuple[str, str]]) -> str:
    """Returns a text with the opening and the closing of each code for its characters."""

    def code(match: re.Match) -> str:
        number, is_close = divmod(ord(match[0]) - _FIRST, 2)
        return codes[number][is_close] if number < len(codes) else ""

    return _STAND_IN.sub(code, text)


def tags_in(text: str) -> list[str]:
    """Returns the characters that stand for tags."""
    return _STAND_IN.findall(text)


def tags_of(codes: Sequence[tuple[Mark, Mark | None]]) -> list[str]:
    """Returns the characters that stand for the tags of codes, in order."""
    return [
        chr(_FIRST + 2 * number + is_close)
        for number, code in enumerate(codes)
        for is_close, mark in enumerate(code)
        if mark
    ]


def escaped(text: str) -> str:
    """Returns a text of which Markdown makes nothing but text."""
    return _LINE_SYNTAX.sub(_with_backslash, _SYNTAX.sub(r"\\\1", text))


def _with_backslash(match: re.Match) -> str:
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"
