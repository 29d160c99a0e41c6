"""XML of any kind: a unit for each outermost element that has text of its own."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import Unit, main_language, markup_of
from t2t_keras.workbench.documents.exchange.inline_codes import codes_in, is_protected
from t2t_keras.workbench.documents.segments import is_spaced, unwrapped_markup
from t2t_keras.workbench.documents.spans import SpanDocument
from t2t_keras.workbench.documents.xml_tree import Element, read_xml, walk

_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)
_LANGUAGE = re.compile(r"""\sxml:lang\s*=\s*(["'])(.*?)\1""")
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")


def read(path: Path, languages: tuple[str, str], content: bytes) -> "XmlDocument":
    """Returns a document with a unit for each outermost element that has text of its own."""
    return XmlDocument(path, languages, content)


class XmlDocument(SpanDocument):
    """XML in which translations replace the content of elements."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, read_xml(path, content), "xmlcharrefreplace")
        self._open: list[_Open] = []
        self._texts: list[tuple[int, int]] = []
        walk(path, self.read.text, (), self._opened, self._closed, self._text)
        for start, end in self._texts:
            self._add_text(start, end)

    def _opened(self, element: Element) -> None:
        is_silent = is_protected(element.tag) or bool(self._open and self._open[-1].is_silent)
        self._open.append(_Open(len(self._texts), is_silent))
        source, target = map(main_language, self.languages)
        place = _LANGUAGE.search(element.tag)
        names_source = place and source and main_language(place[2]) == source
        if place and names_source and target not in ("", source) and not is_silent:
            start, end = (element.start + at for at in place.span(2))
            self.add_changes([(start, end, self.languages[1])])

    def _text(self, text: str) -> None:
        if self._open and not self._open[-1].is_silent:
            self._open[-1].has_text |= has_letters(text)

    def _closed(self, element: Element) -> None:
        closed = self._open.pop()
        if closed.has_text:
            # Everything inside it is inline.
            del self._texts[closed.first :]
            self._texts.append((element.inner_start, element.inner_end))

    def _add_text(self, start: int, end: int) -> None:
        raw = self.read.text[start:end]
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
            text.encode(self.read.encoding)
        except UnicodeEncodeError:
            return escape(text)  # Where references are characters.
        return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


class _Open:
    """An open element: how many texts there were before it, and whether it has one."""

    def __init__(self, first: int, is_silent: bool):
        self.first, self.is_silent, self.has_text = first, is_silent, False
