"""Web pages: a unit for the text between two tags of blocks, with the inline tags in it."""

import itertools
import re
from pathlib import Path

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import Unit, main_language
from t2t_keras.workbench.documents.segments import is_spaced, unwrapped_markup
from t2t_keras.workbench.documents.spans import SpanDocument, decoded, is_charset
from t2t_keras.workbench.markup.reading import Reader
from t2t_keras.workbench.markup.tokens import EMPTY, OPEN, UNFINISHED, Token, is_kept

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
# Of attributes that a reader sees.
_ATTRIBUTE = re.compile(
    r"""\s(?:title|alt|placeholder|aria-label)\s*=\s*(?=["']?[^"'>]{0,99}[^\W\d_])""", re.IGNORECASE
)
_LANGUAGE = re.compile(
    r"""(?<=\s)(?:xml:)?lang\s*=\s*(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)'|(?P<c>[^\s"'>]+))""",
    re.IGNORECASE,
)


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each text between tags of blocks."""
    declared = _CHARSET.search(content[:4096])
    charset = declared[1].decode() if declared else ""
    text = decoded(path, content, charset if is_charset(charset) else "utf-8")
    document = SpanDocument(path, languages, text, "xmlcharrefreplace")
    _read_tags(document, add_pages(document, 0, len(text.text)))
    return document


def add_pages(document: SpanDocument, first: int, last: int) -> Reader:
    """Adds the units of HTML from a place to another in a document; returns its reader."""
    text = document.read.text[first:last]
    reader = Reader(text)
    for start, end in reader.spans():
        raw = text[start:end]
        if "<" in raw or "&" in raw or is_spaced(raw):
            document.add(first + start, first + end, Unit(raw, format="html"))
        else:
            line, written = unwrapped_markup(raw)
            document.add(first + start, first + end, Unit(line), written)
    return reader


def _read_tags(document: SpanDocument, reader: Reader) -> None:
    """Counts the texts left out, and changes the language that tags name."""
    tokens, ends = reader.tokens, reader.ends
    source, target = map(main_language, document.languages)
    position = kept_end = 0
    for number, token in enumerate(tokens):
        if token.kind in (OPEN, EMPTY) and number >= kept_end:
            if token.kind == OPEN and is_kept(token, ("pre",)):
                kept_end = max(ends[number], kept_end)
                inside = itertools.islice(tokens, number + 1, kept_end)
                if token.name == "pre" and any(has_letters(inner.raw) for inner in inside):
                    document.left_out["preformatted texts"] += 1
            document.left_out["attributes such as title and alt"] += len(
                _ATTRIBUTE.findall(token.raw)
            )
            if source and target and source != target and number >= kept_end:
                _set_language(document, token, position, source)
        elif token.name == UNFINISHED:
            document.left_out["tags that do not end"] += 1
        position += len(token.raw)
    document.left_out = +document.left_out  # Without those that are 0.


def _set_language(document: SpanDocument, token: Token, position: int, source: str) -> None:
    for match in _LANGUAGE.finditer(token.raw):
        name = match.lastgroup or ""
        if main_language(match[name]) == source:
            place = position + match.start(name), position + match.end(name)
            document.add_changes([(*place, document.languages[1])])
