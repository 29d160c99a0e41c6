"""HTML and XML: a unit for each block of text, including its inline tags."""

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from t2t_keras.text.files import has_letters
from t2t_keras.text.formats import main_language
from t2t_keras.workbench.documents.document import (
    SpanDocument,
    Unit,
    decode_file,
    format_of,
)
from t2t_keras.workbench.documents.inline_codes import codes_in, is_protected
from t2t_keras.workbench.documents.layout import has_wide_space, unwrap_markup
from t2t_keras.workbench.documents.xml_tree import Element, read_tree, read_xml
from t2t_keras.workbench.markup.reading import Reader
from t2t_keras.workbench.markup.tokens import EMPTY, OPEN, UNFINISHED, is_kept

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
# Attributes with text that a reader sees.
_TEXT_ATTRIBUTE = re.compile(
    r"""\s(?:title|alt|placeholder|aria-label)\s*=\s*(?=["']?[^"'>]{0,99}[^\W\d_])""", re.IGNORECASE
)
_QUOTED = r"""(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)')"""
_HTML_LANGUAGE = re.compile(
    rf"""(?<=\s)(?:xml:)?lang\s*=\s*(?:{_QUOTED}|(?P<c>[^\s"'>]+))""", re.IGNORECASE
)
_XML_LANGUAGE = re.compile(rf"(?<=\s)xml:lang\s*=\s*{_QUOTED}")
_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)
_OTHER_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")


def read_html(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each text between block-level tags."""
    declared = _CHARSET.search(content[:4096])
    file = decode_file(path, content, declared[1].decode() if declared else "")
    document = SpanDocument(path, languages, file, "xmlcharrefreplace")
    _process_tags(document, add_html_units(document, 0, len(file.text)))
    return document


def add_html_units(document: SpanDocument, start: int, end: int) -> Reader:
    """Adds units for the HTML between two positions in a document; returns the HTML's reader."""
    text = document.file.text[start:end]
    reader = Reader(text)
    for unit_start, unit_end in reader.spans():
        raw = text[unit_start:unit_end]
        span = start + unit_start, start + unit_end
        if "<" in raw or "&" in raw or has_wide_space(raw):
            document.add(*span, Unit(raw, format="html"))
        else:
            line, write = unwrap_markup(raw)
            document.add(*span, Unit(line), write)
    return reader


def _process_tags(document: SpanDocument, reader: Reader) -> None:
    """Counts the skipped texts, and changes the languages in tags."""
    tokens, ends = reader.tokens, reader.ends
    position = kept_end = 0
    for number, token in enumerate(tokens):
        if token.kind in (OPEN, EMPTY) and number >= kept_end:
            if token.kind == OPEN and is_kept(token, ("pre",)):
                kept_end = max(ends[number], kept_end)
                inner_tokens = itertools.islice(tokens, number + 1, kept_end)
                if token.name == "pre" and any(has_letters(inner.raw) for inner in inner_tokens):
                    document.left_out["preformatted texts"] += 1
            document.left_out["attributes such as title and alt"] += len(
                _TEXT_ATTRIBUTE.findall(token.raw)
            )
            if number >= kept_end:
                _set_language(document, token.raw, position, _HTML_LANGUAGE)
        elif token.name == UNFINISHED:
            document.left_out["tags that do not end"] += 1
        position += len(token.raw)
    document.left_out = +document.left_out  # Drops zeros.


def _set_language(
    document: SpanDocument, tag: str, position: int, attribute: re.Pattern[str]
) -> None:
    """Changes the source language in a tag into the target language, if both are known."""
    source, target = map(main_language, document.languages)
    for match in attribute.finditer(tag) if source and target not in ("", source) else ():
        group = match.lastgroup or ""
        if main_language(match[group]) == source:
            start, end = position + match.start(group), position + match.end(group)
            document.add_changes([(start, end, document.languages[1])])


class XmlDocument(SpanDocument):
    """XML with a unit for each outermost element that has text of its own."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, read_xml(path, content), "xmlcharrefreplace")
        self._read(read_tree(path, self.file.text))

    def _read(self, element: Element, in_unit: bool = False) -> None:
        """Adds the units in an element, unless it is in one itself, and changes languages."""
        if is_protected(element.tag):
            return
        _set_language(self, element.tag, element.start, _XML_LANGUAGE)
        if not in_unit and has_letters(element.own_text):
            self._add_text(element.inner_start, element.inner_end)
            in_unit = True  # Everything inside it is inline.
        for child in element.children():
            self._read(child, in_unit)

    def _add_text(self, start: int, end: int) -> None:
        raw = self.file.text[start:end]
        stripped = raw.strip(" \t\r\n")
        start += raw.index(stripped)
        cdata = _CDATA.fullmatch(stripped) if stripped.count("]]>") == 1 else None
        write: Callable[[str], str]
        if cdata:
            unit = Unit(cdata[1], format=format_of(cdata[1]))
            write = self._to_cdata
        elif not ("<" in stripped or _OTHER_REFERENCE.search(stripped) or has_wide_space(stripped)):
            line, write = unwrap_markup(stripped)
            text = unescape(line, {"&quot;": '"', "&apos;": "'"})
            unit = Unit(text, format=format_of(text))
        else:
            codes = codes_in(stripped)
            unit = Unit(codes.text, format="xml")
            write = functools.partial(codes.restore, name=str(self.path))
        self.add(start, start + len(stripped), unit, write)

    def _to_cdata(self, text: str) -> str:
        try:
            text.encode(self.file.encoding)
        except UnicodeEncodeError:
            return escape(text)  # Character references work only outside of CDATA.
        return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
