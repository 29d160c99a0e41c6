"""Web pages: a unit for the text between two tags of blocks, with the inline tags in it."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape, unescape
from pathlib import Path

from t2t_keras.documents.document import Unit
from t2t_keras.documents.segments import has_letters, unwrapped
from t2t_keras.documents.spans import SpanDocument, decoded, is_charset
from t2t_keras.text.markup.matching import HTML_BLOCKS, HTML_KEPT, is_kept, match_html
from t2t_keras.text.markup.tokens import OPEN, OTHER, TEXT, Token, html_tokens

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_SPACES = " \t\r\n\f"


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each text between tags of blocks."""
    found = _CHARSET.search(content[:4096])
    charset = found[1].decode() if found else ""
    text = decoded(path, content, charset if is_charset(charset) else "utf-8")
    document = SpanDocument(path, languages, text, "xmlcharrefreplace")
    add_pages(document, 0, len(text.text))
    return document


def add_pages(document: SpanDocument, first: int, last: int) -> None:
    """Adds the units of HTML from a place to another in a document."""
    text = document.read.text[first:last]
    for start, end, keeps_lines in units_of(text):
        raw = text[start:end]
        written: Callable[[str], str] = str
        if "<" in raw or "&" in raw:
            unit = Unit(raw, format="html", keeps_lines=keeps_lines)
        elif keeps_lines:
            unit, written = Unit(raw), _escaped
        else:
            line, lay_out = unwrapped(raw)
            unit, written = Unit(line), _escaped_as(lay_out)
        document.add(first + start, first + end, unit, written)


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _escaped_as(lay_out: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: lay_out(_escaped(text))


def units_of(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yields where the units begin and end, and whether ends of lines in them are no spaces."""
    tokens = list(html_tokens(text))
    partners, ends = match_html(tokens)
    places = list(itertools.accumulate((len(token.raw) for token in tokens), initial=0))
    first, kept_end, lines_end = 0, 0, 0
    has_text = False
    for number, token in enumerate([*tokens, Token(OPEN, "", "body")]):
        if token.kind not in (TEXT, OTHER) and token.name in HTML_BLOCKS:
            if has_text:
                start, end = _trimmed(tokens, partners, first, number - 1)
                yield *_without_space(text, places[start], places[end + 1]), first < lines_end
            first, has_text = number + 1, False
        if token.kind == OPEN and token.raw:
            end = ends[number] or len(tokens)
            if is_kept(token, HTML_KEPT) and partners[number] is not None:
                kept_end = max(kept_end, end)
            elif token.name == "pre":
                lines_end = end
        elif token.kind == TEXT and number >= kept_end:
            has_text = has_text or has_letters(unescape(token.raw))


def _trimmed(
    tokens: Sequence[Token], partners: Sequence[int | None], first: int, last: int
) -> tuple[int, int]:
    """Returns the first and the last token of a run without what is only around its text."""
    while first < last:
        begin, end = partners[first], partners[last]
        if not _is_text(tokens[first]) and (begin is None or begin >= last):
            last -= begin == last
            first += 1
        elif not _is_text(tokens[last]) and (end is None or end < first):
            last -= 1
        else:
            break
    return first, last


def _is_text(token: Token) -> bool:
    return token.kind == TEXT and not token.raw.isspace()


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    found = text[start:end]
    lead = len(found) - len(found.lstrip(_SPACES))
    return start + lead, start + max(len(found.rstrip(_SPACES)), lead)
