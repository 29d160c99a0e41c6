"""HTML and XML: a unit for each block of text, including its inline tags."""

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import (
    SpanDocument,
    Unit,
    decoded,
    main_language,
    markup_of,
)
from t2t_keras.workbench.documents.inline_codes import codes_in, is_protected
from t2t_keras.workbench.documents.layout import is_spaced, unwrapped_markup
from t2t_keras.workbench.documents.xml_tree import Element, read_xml, walk
from t2t_keras.workbench.markup.reading import Reader
from t2t_keras.workbench.markup.tokens import EMPTY, OPEN, UNFINISHED, MarkupToken, is_kept

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
# Attributes with text that a reader sees.
_ATTRIBUTE = re.compile(
    r"""\s(?:title|alt|placeholder|aria-label)\s*=\s*(?=["']?[^"'>]{0,99}[^\W\d_])""", re.IGNORECASE
)
_LANGUAGE = re.compile(
    r"""(?<=\s)(?:xml:)?lang\s*=\s*(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)'|(?P<c>[^\s"'>]+))""",
    re.IGNORECASE,
)
_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)
_XML_LANGUAGE = re.compile(r"""\sxml:lang\s*=\s*(["'])(.*?)\1""")
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")


def read_html(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each text between tags of blocks."""
    declared = _CHARSET.search(content[:4096])
    text = decoded(path, content, declared[1].decode() if declared else "")
    document = SpanDocument(path, languages, text, "xmlcharrefreplace")
    _read_tags(document, add_pages(document, 0, len(text.text)))
    return document


def add_pages(document: SpanDocument, first: int, last: int) -> Reader:
    """Adds the units of the HTML between two places of a document; returns its reader."""
    text = document.file.text[first:last]
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
    """Counts the skipped texts, and changes the languages in tags."""
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
    document.left_out = +document.left_out  # Drops zeros.


def _set_language(document: SpanDocument, token: MarkupToken, position: int, source: str) -> None:
    for match in _LANGUAGE.finditer(token.raw):
        name = match.lastgroup or ""
        if main_language(match[name]) == source:
            place = position + match.start(name), position + match.end(name)
            document.add_changes([(*place, document.languages[1])])


class XmlDocument(SpanDocument):
    """XML with a unit for each outermost element that has text of its own."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, read_xml(path, content), "xmlcharrefreplace")
        self._open: list[_Open] = []
        self._texts: list[tuple[int, int]] = []
        walk(path, self.file.text, (), self._opened, self._closed, self._text)
        for start, end in self._texts:
            self._add_text(start, end)

    def _opened(self, element: Element) -> None:
        is_silent = is_protected(element.tag) or bool(self._open and self._open[-1].is_silent)
        self._open.append(_Open(len(self._texts), is_silent))
        source, target = map(main_language, self.languages)
        place = _XML_LANGUAGE.search(element.tag)
        names_source = place and source and main_language(place[2]) == source
        if place and names_source and target not in ("", source) and not is_silent:
            start, end = (element.start + offset for offset in place.span(2))
            self.add_changes([(start, end, self.languages[1])])

    def _text(self, text: str) -> None:
        if self._open and not self._open[-1].is_silent:
            self._open[-1].has_text |= has_letters(text)

    def _closed(self, element: Element) -> None:
        closed_element = self._open.pop()
        if closed_element.has_text:
            # Everything inside it is inline.
            del self._texts[closed_element.first :]
            self._texts.append((element.inner_start, element.inner_end))

    def _add_text(self, start: int, end: int) -> None:
        raw = self.file.text[start:end]
        stripped = raw.strip(" \t\r\n")
        start += raw.index(stripped)
        cdata = _CDATA.fullmatch(stripped) if stripped.count("]]>") == 1 else None
        write: Callable[[str], str]
        if cdata:
            unit = Unit(cdata[1], format=markup_of(cdata[1]))
            write = self._as_cdata
        elif not ("<" in stripped or _REFERENCE.search(stripped) or is_spaced(stripped)):
            line, write = unwrapped_markup(stripped)
            text = unescape(line, {"&quot;": '"', "&apos;": "'"})
            unit = Unit(text, format=markup_of(text))
        else:
            codes = codes_in(stripped)
            unit = Unit(codes.text, format="xml")
            write = functools.partial(codes.restored, name=str(self.path))
        self.add(start, start + len(stripped), unit, write)

    def _as_cdata(self, text: str) -> str:
        try:
            text.encode(self.file.encoding)
        except UnicodeEncodeError:
            return escape(text)  # Character references work only outside of CDATA.
        return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


class _Open:
    """An open element: the number of texts before it, and whether it has text of its own."""

    def __init__(self, first: int, is_silent: bool):
        self.first, self.is_silent, self.has_text = first, is_silent, False
