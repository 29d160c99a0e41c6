"""Markdown: the text of headings, paragraphs, lists and tables; all else stays byte for byte."""

import bisect
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from t2t_keras.documents.document import Unit
from t2t_keras.documents.formats.html import add_pages
from t2t_keras.documents.formats.markdown_inline import (
    Mark,
    References,
    escaped,
    inline_of,
    lines_of,
    parser,
    structure_of,
    tags_in,
    tags_of,
    tags_replaced,
    tags_restored,
)
from t2t_keras.documents.segments import has_letters, wrapped
from t2t_keras.documents.spans import SpanDocument, decoded
from t2t_keras.errors import UserError

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*[\r\n](?s:.*?)(?<=[\r\n])\1[ \t]*(?=[\r\n]|\Z)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$")
# Longer blocks are no text that a person wrote, and could take the parser long.
_LONGEST = 100_000
_TAG = re.compile("<[^<>]*>")
_CELLS = ("td_open", "th_open")


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each block of text."""
    document = SpanDocument(path, languages, decoded(path, content))
    text = document.read.text
    front = _FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    starts = [begin + match.start() for match in _LINE.finditer(text[begin:])]
    starts.append(len(text))
    markdown = parser()
    blocks = parser()
    blocks.core.ruler.disable("inline")
    row, before = _Row(), ""
    environment: dict = {}
    tokens = blocks.parse(text[begin:], environment)
    references = environment.get("references", {})
    for token in tokens:
        row = _Row() if token.type == "tr_open" else row
        if token.type == "html_block" and not token.level:
            add_pages(document, starts[token.map[0]], starts[token.map[1]])
        elif token.type == "inline" and has_letters(token.content):
            if len(token.content) > _LONGEST:
                raise UserError(
                    f"{path}: expected paragraphs of at most {_LONGEST:,} characters, got one of "
                    f"{len(token.content):,}."
                )
            places = _places(text, starts, token, row if before in _CELLS else None)
            if places is None:
                document.left_out["texts of which the place was not found"] += 1
            else:
                for span in lines_of(markdown, token.content, references):
                    content = token.content[slice(*span)]
                    within = _within(places, *span)
                    block = _Block(markdown, references, text, content, within, before)
                    if has_letters(_TAG.sub("", block.unit.source)):
                        document.add(block.start, block.end, block.unit, block.written)
        before = token.type
    return document


class _Row:
    """A row of a table: how much of its line was looked at."""

    def __init__(self):
        self.cursor = 0


def _places(
    text: str, starts: Sequence[int], token: Token, row: _Row | None
) -> list[tuple[int, int]] | None:
    """Returns where each line of a block begins, in its content and in the file.

    Returns None if it is not in its lines as the parser read it.
    """
    places, at = [], 0
    for number, line in enumerate(token.content.split("\n"), token.map[0]):
        raw = text[starts[number] : starts[number + 1]].rstrip()
        stripped = line.strip()
        shown = stripped.replace("|", r"\|") if row else stripped
        found = raw.find(shown, row.cursor) if row else raw.rfind(shown)
        if found < 0:
            return None
        first = at + len(line) - len(line.lstrip()), starts[number] + found
        places.append(first)
        if row:
            row.cursor = found + len(shown)
            # Behind each bar there is one backslash more.
            bars = [bar.end() for bar in re.finditer(r"\|", stripped)]
            places += [(first[0] + end, first[1] + end + n) for n, end in enumerate(bars, 1)]
        at += len(line) + 1
    return places


def _within(places: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Returns the places of the lines between two places of a block's content, from there."""
    last = max(bisect.bisect_right(places, (start, math.inf)) - 1, 0)
    at, place = places[last]
    later = [(each - start, other) for each, other in places[last + 1 :] if each < end]
    return [(0, place + max(start - at, 0)), *later]


class _Block:
    """The text of a block, and its place in the file.

    Attributes:
      start: where it begins in the file.
      end: where it ends.
      unit: what is translated.
    """

    def __init__(
        self,
        markdown: MarkdownIt,
        references: References,
        text: str,
        content: str,
        places: Sequence[tuple[int, int]],
        kind: str,
    ):
        self._markdown, self._references = markdown, references
        self._text, self._content, self._kind = text, content, kind
        self._places, self._firsts = places, [at for at, _ in places]
        self._inline = inline_of(markdown, content, references)
        self.unit = Unit(self._inline.text, format=self._inline.format)
        self.start, self.end = self._place(0), self._place(len(content))

    def _place(self, at: int) -> int:
        """Returns where a character of the content is in the file."""
        line = max(bisect.bisect_right(self._firsts, at) - 1, 0)
        return self._places[line][1] + max(at - self._firsts[line], 0)

    def _in_content(self, mark: Mark | None) -> str:
        return (mark.written or self._content[mark.start : mark.end]) if mark else ""

    def _in_file(self, mark: Mark | None) -> str:
        if not mark:
            return ""
        return mark.written or self._text[self._place(mark.start) : self._place(mark.end)]

    def written(self, translation: str) -> str:
        """Returns the Markdown of a translation, as it stands in the file.

        Raises:
          UserError: a code of the source is missing, or comes twice.
        """
        text = tags_replaced(translation) if self._inline.codes else translation
        if sorted(tags_in(text)) != tags_of(self._inline.codes):
            raise UserError(
                f"Expected {len(self._inline.codes)} inline codes once each, got {translation!a}."
            )
        if self._kind in _CELLS:
            text = text.replace("|", r"\|")
        is_paragraph = self._kind == "paragraph_open"
        wanted = structure_of(self._markdown, self._content, self._references, is_paragraph)
        # The last is Markdown's for certain, but not as nice.
        for candidate, breaks in (
            (text, self._inline.breaks if is_paragraph else []),
            (text, []),
            (escaped(text), []),
        ):
            laid_out = self._laid_out(candidate, breaks, self._in_content)
            found = structure_of(self._markdown, laid_out, self._references, is_paragraph)
            if found == wanted:
                break
        return self._laid_out(candidate, breaks, self._in_file)

    def _laid_out(
        self, text: str, breaks: Sequence[Mark], raw: Callable[[Mark | None], str]
    ) -> str:
        codes = [(raw(first), raw(last)) for first, last in self._inline.codes]
        lines = self._inline.lines
        lines = tags_replaced(lines) if codes else lines
        lengths = list(map(len, lines.split("\n")))
        return tags_restored(wrapped(text, list(map(raw, breaks)), lengths), codes)
