"""Markdown: the text of headings, paragraphs, lists and tables; all else stays byte for byte."""

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it.token import Token

from t2t_keras.errors import UserError
from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.formats.html import add_pages
from t2t_keras.workbench.documents.formats.markdown_blocks import Block, Context
from t2t_keras.workbench.documents.formats.markdown_inline import parts_of
from t2t_keras.workbench.documents.formats.markdown_syntax import parser
from t2t_keras.workbench.documents.spans import SpanDocument, decoded
from t2t_keras.workbench.markup.tokens import UNFINISHED, html_tokens

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*[\r\n](?s:.*?)(?<=[\r\n])\1[ \t]*(?=[\r\n]|\Z)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$")
# Longer blocks are no text that a person wrote, and could take the parser long.
_LONGEST = 100_000
_TAG = re.compile("<[^<>]*>")
_KINDS = {"td_open": "cell", "th_open": "cell"}
# The box of a task.
_BOX = re.compile(r"\[[ xX]\][ \t]+")


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each block of text."""
    document = SpanDocument(path, languages, decoded(path, content))
    text = document.read.text
    front = _FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    starts = [begin + match.start() for match in _LINE.finditer(text[begin:])]
    starts.append(len(text))
    blocks = parser()
    blocks.core.ruler.disable("inline")
    environment: dict = {}
    tokens = blocks.parse(text[begin:], environment)
    context = Context(text, parser(), blocks, environment.get("references", {}))
    reader = _Reader(document, context, starts)
    for before, token in itertools.pairwise([Token("", "", 0), *tokens]):
        reader.add(token, before)
    return document


class _Reader:
    """Adds the units of blocks to a document."""

    def __init__(self, document: SpanDocument, context: Context, starts: Sequence[int]):
        self.document, self.context, self.starts = document, context, starts
        self.cursor: int = 0  # how much of the line of a table's row was looked at
        self.quotes = 0  # how many quotations are open

    def add(self, token: Token, before: Token) -> None:
        """Adds the units of a token; `before` is the previous one."""
        left_out = self.document.left_out
        self.quotes += token.nesting * token.type.startswith("blockquote")
        if token.type == "tr_open":
            self.cursor = 0
        elif token.type == "html_block":
            self._add_page(token)
        elif token.type in ("mark", "indented_open") and has_letters(token.content):
            left_out["lines of extensions"] += 1
        elif (
            token.nesting < 0 < before.nesting
            and before.level + 1 >= self.context.blocks.options.maxNesting
        ):
            left_out["blocks in over 20 others"] += 1
        elif token.type == "inline" and has_letters(token.content):
            kind = "#" if before.markup.startswith("#") else _KINDS.get(before.type, "paragraph")
            self._add_text(token, kind)

    def _add_page(self, token: Token) -> None:
        first, last = (self.starts[line] for line in token.map or ())
        line, *_ = token.content.split("\n")
        end = self.starts[bisect.bisect_right(self.starts, first)]
        *_, tail = html_tokens(token.content)
        if self.quotes or tail.name == UNFINISHED:
            reason = "HTML in quotations" if self.quotes else "HTML with a tag that does not end"
            self.document.left_out[reason] += has_letters(_TAG.sub("", token.content))
        else:
            # After the mark of a list; the parser reads NUL as U+FFFD.
            first += self.context.text[first:end].replace("\0", "\ufffd").rfind(line.strip())
            add_pages(self.document, first, last)

    def _add_text(self, token: Token, kind: str) -> None:
        if len(token.content) > _LONGEST:
            raise UserError(
                f"{self.document.path}: expected paragraphs of at most {_LONGEST:,} characters, "
                f"got one of {len(token.content):,}. Divide it by empty lines.",
                code="long_paragraph",
            )
        places = self._places(token, kind == "cell")
        if places is None:
            self.document.left_out["texts whose place was not found"] += 1
            return
        content = token.content
        box = _BOX.match(content)
        begin = box.end() if box else 0
        context = self.context
        for start, end, begins_line in parts_of(
            context.markdown, content[begin:], context.references
        ):
            start, end = begin + start, begin + end
            within = _within(places, start, end)
            block = Block(context, content[start:end], within, kind if begins_line else "")
            source = block.unit.source
            if has_letters(_TAG.sub("", source) if block.unit.format == "xml" else source):
                self.document.add(block.start, block.end, block.unit, block.written)

    def _places(self, token: Token, is_cell: bool) -> list[tuple[int, int]] | None:
        """Returns where each line of a block begins, in its content and in the file.

        Returns None if it is not in its lines as the parser read it.
        """
        places, at = [], 0
        for number, line in enumerate(token.content.split("\n"), (token.map or [0])[0]):
            raw = self.context.text[self.starts[number] : self.starts[number + 1]].rstrip()
            stripped = line.strip()
            shown = stripped.replace("|", r"\|") if is_cell else stripped
            place = raw.find(shown, self.cursor) if is_cell else raw.rfind(shown)
            if place < 0:
                return None
            first = at + len(line) - len(line.lstrip()), self.starts[number] + place
            places.append(first)
            if is_cell:
                self.cursor = place + len(shown)
                # Each bar in a cell is escaped by one more backslash.
                bars = [bar.end() for bar in re.finditer(r"\|", stripped)]
                places += [(first[0] + end, first[1] + end + n) for n, end in enumerate(bars, 1)]
            at += len(line) + 1
        return places


def _within(places: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Returns the places of the lines between two places of a block's content, from there."""
    number = max(bisect.bisect_right(places, (start, math.inf)) - 1, 0)
    last = bisect.bisect_left(places, (end, -1))
    at, place = places[number]
    later = [(after - start, other) for after, other in places[number + 1 : last]]
    return [(0, place + max(start - at, 0)), *later]
