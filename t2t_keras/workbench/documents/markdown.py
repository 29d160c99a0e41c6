"""Markdown: translates headings, paragraphs, lists and tables; all else stays byte for byte."""

import bisect
import collections
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard, cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import SpanDocument, Unit, check_limit, decode_file
from t2t_keras.workbench.documents.html_and_xml import add_html_units
from t2t_keras.workbench.documents.inline_codes import codes_error
from t2t_keras.workbench.documents.layout import wrap
from t2t_keras.workbench.documents.markdown_inline import (
    STAND_INS,
    Inline,
    References,
    SyntaxMark,
    inline_of,
    mark_of,
    new_parser,
    replace_tags,
    stand_ins_in,
    stand_ins_of,
    text_spans,
)
from t2t_keras.workbench.markup.tokens import UNFINISHED, html_tokens

# A file with one block, as a template by kind of block. Kind "" (part of a line) is not checked.
FRAMES = {"paragraph": "{}", "#": "# {}", "cell": "| {} |\n|---|", "": ""}
_SYNTAX = re.compile(
    rf"[\\`*_\[\]<>~&${{]|(?<=[{STAND_INS}])[(:]|!(?=[{STAND_INS}])|\#(?=\s*$)|:(?=\w)"
)
_LINE_SYNTAX = re.compile(r"^[^\S\n]*(?:[-+#>=~:|!?{]|\d+(?=([.)])))", re.MULTILINE)
_PIECES = re.compile(rf"\s+|[{STAND_INS}]|[^\s{STAND_INS}]+")
_SPACE_OR_TAG, _VISIBLE = (re.compile(rf"[{negation}\s{STAND_INS}]") for negation in ("", "^"))
# Put around codes when texts are compared.
_FENCE = "\0"
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*[\r\n](?s:.*?)(?<=[\r\n])\1[ \t]*(?=[\r\n]|\Z)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$")
# Real blocks are shorter, and the parser could take long for longer ones.
_MAX_BLOCK_LENGTH = 100_000
_TAG = re.compile("<[^<>]*>")
_KINDS = {"td_open": "cell", "th_open": "cell"}
# The checkbox of a task.
_CHECKBOX = re.compile(r"\[[ xX]\][ \t]+")


class Context(NamedTuple):
    """State shared by the blocks of a file."""

    text: str  # the file
    parser: MarkdownIt
    block_parser: MarkdownIt  # the parser without inline rules
    references: References  # targets of links, by name


class Block:
    """A block of a file.

    Attributes:
      start: position of its first character in the file.
      end: position after its last character.
      unit: the unit of its text.

    Args:
      context: state of the file.
      content: the text as the parser returns it.
      places: where its parts begin: (position in the content, position in the file).
      kind: one of `FRAMES`.
    """

    def __init__(
        self, context: Context, content: str, places: Sequence[tuple[int, int]], kind: str
    ):
        self._context, self._content, self._kind = context, content, kind
        self._places, self._content_starts = places, [start for start, _ in places]
        self._inline = inline_of(context.parser, content, context.references)
        self._openings = {closing: opening for opening, closing in self._inline.codes if closing}
        self._cache: tuple[str, str | None] | None = None
        self.unit = Unit(self._inline.text, format=self._inline.format, is_safe=self._can_write)
        self.start, self.end = self._file_position(0), self._file_position(len(content))

    def _file_position(self, position: int) -> int:
        """Converts a position in the content to a position in the file."""
        part = max(bisect.bisect_right(self._content_starts, position) - 1, 0)
        return self._places[part][1] + max(position - self._content_starts[part], 0)

    def _raw_in_content(self, mark: SyntaxMark) -> str:
        return self._content[mark.start : mark.end]

    def _raw_in_file(self, mark: SyntaxMark) -> str:
        return self._context.text[self._file_position(mark.start) : self._file_position(mark.end)]

    def write(self, translation: str) -> str:
        """Returns a translation as Markdown, to replace the block in the file.

        Returns the source's Markdown if the parser misreads every rendering of the translation.

        Raises:
          UserError: a code of the source is missing or duplicated.
        """
        text = self._with_stand_ins(translation)
        if sorted(stand_ins_in(text)) != stand_ins_of(self._inline.codes):
            raise codes_error(len(self._inline.codes), translation)
        rendering = self._rendering(translation, text)
        return self._context.text[self.start : self.end] if rendering is None else rendering

    def _can_write(self, translation: str) -> bool:
        text = self._with_stand_ins(translation)
        if translation == self.unit.source:
            return True
        has_all_codes = sorted(stand_ins_in(text)) == stand_ins_of(self._inline.codes)
        return has_all_codes and self._rendering(translation, text) is not None

    def _with_stand_ins(self, translation: str) -> str:
        return replace_tags(translation) if self._inline.codes else translation

    def _rendering(self, translation: str, text: str) -> str | None:
        """Returns the first rendering that the parser reads as the translation, or None."""
        if not self._cache or self._cache[0] != translation:
            is_same = translation == self.unit.source
            self._cache = translation, None if is_same else self._first_correct(text)
        return self._cache[1]

    def _first_correct(self, text: str) -> str | None:
        wrapped_text = self._wrap_like_source(text)
        for escapes in (0, 1, 2):
            pieces = list(self._pieces(wrapped_text, escapes))
            if self._is_parsed_as(pieces, wrapped_text):
                return _join(pieces, self._raw_in_file)
        spaced_text = self._space_delimiters(wrapped_text)
        pieces = [
            self._raw_in_content(piece).replace("_", "*") if self._is_delimiter(piece) else piece
            for piece in self._pieces(spaced_text, 2)
        ]
        return _join(pieces, self._raw_in_file) if self._is_parsed_as(pieces, spaced_text) else None

    def _wrap_like_source(self, text: str) -> str:
        """Lays out a text with the source's white space or, failing that, in as many lines."""
        source = self._inline.with_stand_ins()
        words = [piece for piece in _PIECES.findall(text) if not piece.isspace()]
        pieces = _PIECES.findall(source)
        source_words = [piece for piece in pieces if not piece.isspace()]
        if list(map(_tag, words)) == list(map(_tag, source_words)):
            remaining = iter(words)
            return "".join(piece if piece.isspace() else next(remaining) for piece in pieces)
        source_signs, signs = (_SPACE_OR_TAG.sub("", side) for side in (source, text))
        if len(source_signs) == len(signs) and source_signs.casefold() == signs.casefold():
            # Only the case has changed, and perhaps the places of tags inside words.
            remaining = iter(signs)
            return _VISIBLE.sub(lambda match: next(remaining), source)
        lines = source.split("\n")
        text = re.sub(r"\s*\n\s*", " ", text)
        return wrap(text, ["\n"] * (len(lines) - 1), list(map(len, lines)))

    def _pieces(self, text: str, escapes: int) -> Iterator[str | SyntaxMark]:
        """Yields the marks of a text, and its characters as Markdown.

        Args:
          text: the text with stand-ins for marks.
          escapes: where to write backslashes: 0 = as in the source; 1 = also at the beginnings of
            lines; 2 = everywhere.
        """
        escaped_places: set[int] = set()
        if escapes:
            matches = _LINE_SYNTAX.finditer(text)
            escaped_places = {match.start(1) if match[1] else match.end() - 1 for match in matches}
        if escapes > 1:
            escaped_places |= {match.start() for match in _SYNTAX.finditer(text)}
        spellings = {key: iter(raws) for key, raws in self._inline.spellings.items()}
        breaks = iter(self._inline.breaks)
        label_starts: list[int] = []  # For each open code, index of its text in `content_parts`.
        content_parts: list[str] = []  # The content, as the parser would return it.
        for number, character in enumerate(text):
            mark = mark_of(character, self._inline.codes)
            piece: str | SyntaxMark = mark or character
            if character == "\n":
                piece = next(breaks)
            elif not mark:
                if character in spellings:
                    piece = next(spellings[character], character)
                is_bar = character == "|" and self._kind == "cell"
                if piece == character and (is_bar or number in escaped_places):
                    piece = f"\\{character}"
            elif mark.kind == "open":
                label_starts.append(len(content_parts) + 1)
            elif mark.kind in ("close", "name"):
                start = label_starts.pop() if label_starts else len(content_parts)
                if mark.kind == "name":
                    piece = self._link_end(mark, "".join(content_parts[start:]))
            content_parts.append(piece if isinstance(piece, str) else self._raw_in_content(piece))
            yield piece

    def _link_end(self, mark: SyntaxMark, label: str) -> str | SyntaxMark:
        """Returns the end of a link; adds the reference's name if the link's text has changed."""
        name = self._content[self._openings[mark].end : mark.start]
        if normalizeReference(label) == normalizeReference(name):
            return mark
        return f"][{' '.join(name.split())}]"

    def _is_delimiter(self, piece: str | SyntaxMark | None) -> TypeGuard[SyntaxMark]:
        return isinstance(piece, SyntaxMark) and not self._raw_in_content(piece).strip("*_~")

    def _space_delimiters(self, text: str) -> str:
        """Puts spaces outside of delimiters, not inside."""
        parts: list[str] = []
        for piece in _PIECES.findall(text):
            mark = mark_of(piece[0], self._inline.codes)
            previous_mark = mark_of(parts[-1][0], self._inline.codes) if parts else None
            if self._is_delimiter(mark) and mark.kind == "open":
                if parts and not parts[-1].isspace() and not self._is_opening(previous_mark):
                    parts.append(" ")
            elif self._is_delimiter(mark):
                if parts and parts[-1].isspace():
                    parts.pop()
            elif self._is_opening(previous_mark):
                if piece.isspace():
                    continue
            elif self._is_delimiter(previous_mark) and piece[0].isalnum():
                parts.append(" ")
            parts.append(piece)
        return "".join(parts)

    def _is_opening(self, mark: SyntaxMark | None) -> bool:
        return self._is_delimiter(mark) and mark.kind == "open"

    def _is_parsed_as(self, pieces: Sequence[str | SyntaxMark], text: str) -> bool:
        """Returns whether the parser reads the pieces as the text and its codes."""
        context = self._context
        content = _join(pieces, self._raw_in_content)
        inline = inline_of(context.parser, content, context.references)
        expected = "".join(
            f"{_FENCE}{_join([piece], self._raw_in_content)}{_FENCE}"
            if mark_of(character, self._inline.codes)
            else character
            for character, piece in zip(text, pieces, strict=True)
        )
        if _flat_text(inline, content) != " ".join(expected.split()):
            return False
        frame, source = FRAMES[self._kind], self._content
        if self._kind == "cell":
            # Include the backslashes before bars, which the parser removes.
            content, source = _join(pieces, self._raw_in_file), context.text[self.start : self.end]
        return not frame or self._block_types(frame, content) == self._block_types(frame, source)

    def _block_types(self, frame: str, text: str) -> tuple[list[str], bool]:
        """Returns the types of a block's tokens, and whether the tokens contain the whole text."""
        # Keep definitions that the parser finds in this text out of the file's references.
        references = collections.ChainMap({}, cast(dict, self._context.references))
        tokens = self._context.block_parser.parse(frame.format(text), {"references": references})
        content = "".join(token.content for token in tokens)
        if self._kind == "cell":
            text = text.replace(r"\|", "|")
        return [token.type for token in tokens], content.split() == text.split()


def _tag(piece: str) -> str:
    """Returns the piece if it is a tag; "" = it is a word."""
    return piece if stand_ins_in(piece[0]) else ""


def _join(pieces: Iterable[str | SyntaxMark], raw_of: Callable[[SyntaxMark], str]) -> str:
    return "".join(raw_of(piece) if isinstance(piece, SyntaxMark) else piece for piece in pieces)


def _flat_text(inline: Inline, content: str) -> str:
    """Returns the text in one line, with its codes as Markdown."""
    parts = []
    for character in inline.with_stand_ins():
        mark = mark_of(character, inline.codes)
        parts.append(f"{_FENCE}{content[mark.start : mark.end]}{_FENCE}" if mark else character)
    return " ".join("".join(parts).split())


def read_markdown(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each block of text."""
    document = SpanDocument(path, languages, decode_file(path, content))
    text = document.file.text
    front_matter = _FRONT_MATTER.match(text)
    body_start = front_matter.end() if front_matter else 0
    line_starts = [body_start + match.start() for match in _LINE.finditer(text[body_start:])]
    line_starts.append(len(text))
    block_parser = new_parser()
    block_parser.core.ruler.disable("inline")
    environment: dict = {}
    tokens = block_parser.parse(text[body_start:], environment)
    context = Context(text, new_parser(), block_parser, environment.get("references", {}))
    reader = _Reader(document, context, line_starts)
    for previous, token in itertools.pairwise([Token("", "", 0), *tokens]):
        reader.add(token, previous)
    return document


class _Reader:
    """Adds the units of blocks to a document."""

    def __init__(self, document: SpanDocument, context: Context, line_starts: Sequence[int]):
        self.document, self.context, self.line_starts = document, context, line_starts
        self.cursor: int = 0  # position after the last cell read, in the line of a table row
        self.depth = 0  # number of open quotations

    def add(self, token: Token, previous: Token) -> None:
        """Adds the units of a token; `previous` is the token before it."""
        left_out = self.document.left_out
        self.depth += token.nesting * token.type.startswith("blockquote")
        if token.type == "tr_open":
            self.cursor = 0
        elif token.type == "html_block":
            self._add_html(token)
        elif token.type in ("mark", "indented_open") and has_letters(token.content):
            left_out["lines of extensions"] += 1
        elif (
            token.nesting < 0 < previous.nesting
            and previous.level + 1 >= self.context.block_parser.options.maxNesting
        ):
            left_out["blocks in over 20 others"] += 1
        elif token.type == "inline" and has_letters(token.content):
            kind = (
                "#" if previous.markup.startswith("#") else _KINDS.get(previous.type, "paragraph")
            )
            self._add_text(token, kind)

    def _add_html(self, token: Token) -> None:
        start, end = (self.line_starts[number] for number in token.map or ())
        line, *_ = token.content.split("\n")
        line_end = self.line_starts[bisect.bisect_right(self.line_starts, start)]
        *_, tail = html_tokens(token.content)
        if self.depth or tail.name == UNFINISHED:
            reason = "HTML in quotations" if self.depth else "HTML with a tag that does not end"
            self.document.left_out[reason] += has_letters(_TAG.sub("", token.content))
        else:
            # Skip the bullet of a list. The parser reads NUL as U+FFFD.
            start += self.context.text[start:line_end].replace("\0", "\ufffd").rfind(line.strip())
            add_html_units(self.document, start, end)

    def _add_text(self, token: Token, kind: str) -> None:
        noun = "characters without an empty line"
        length = len(token.content)
        advice = "Divide it with empty lines."
        check_limit(self.document.path, length, _MAX_BLOCK_LENGTH, noun, "long_paragraph", advice)
        places = self._places(token, kind == "cell")
        if places is None:
            self.document.left_out["texts whose place was not found"] += 1
            return
        content = token.content
        checkbox = _CHECKBOX.match(content)
        text_start = checkbox.end() if checkbox else 0
        context = self.context
        for start, end, begins_line in text_spans(
            context.parser, content[text_start:], context.references
        ):
            start, end = text_start + start, text_start + end
            block_places = _clip(places, start, end)
            block = Block(context, content[start:end], block_places, kind if begins_line else "")
            source = block.unit.source
            if has_letters(_TAG.sub("", source) if block.unit.format == "xml" else source):
                self.document.add(block.start, block.end, block.unit, block.write)

    def _places(self, token: Token, is_cell: bool) -> list[tuple[int, int]] | None:
        """Returns where a block's lines begin, in its content and in the file.

        Returns None if the lines of the file do not contain the text that the parser returned.
        """
        places, position = [], 0
        for number, line in enumerate(token.content.split("\n"), (token.map or [0])[0]):
            start, end = self.line_starts[number : number + 2]
            raw = self.context.text[start:end].rstrip()
            stripped = line.strip()
            escaped_line = stripped.replace("|", r"\|") if is_cell else stripped
            place = raw.find(escaped_line, self.cursor) if is_cell else raw.rfind(escaped_line)
            if place < 0:
                return None
            in_content, in_file = position + len(line) - len(line.lstrip()), start + place
            places.append((in_content, in_file))
            if is_cell:
                self.cursor = place + len(escaped_line)
                # In the file, a backslash precedes each bar in a cell.
                bars = [bar.end() for bar in re.finditer(r"\|", stripped)]
                places += [(in_content + bar, in_file + bar + n) for n, bar in enumerate(bars, 1)]
            position += len(line) + 1
        return places


def _clip(places: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Returns the places from `start` to `end` in a block's content, relative to `start`."""
    first = max(bisect.bisect_right(places, (start, math.inf)) - 1, 0)
    stop = bisect.bisect_left(places, (end, -1))
    position, in_file = places[first]
    later_places = [(in_content - start, place) for in_content, place in places[first + 1 : stop]]
    return [(0, in_file + max(start - position, 0)), *later_places]
