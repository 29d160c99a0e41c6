"""Documents in which translations replace spans of the text, and all else stays as it is."""

import codecs
from collections.abc import Iterable
from pathlib import Path
from typing import AnyStr, NamedTuple

from t2t_keras.documents.document import Document, Unit
from t2t_keras.errors import UserError

_UTF16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Text(NamedTuple):
    """The text of a file, and what it takes to write it again."""

    text: str
    mark: bytes  # the byte order mark, b"" = none
    encoding: str

    def encoded(self, text: str) -> bytes:
        """Returns the bytes of a file with another text."""
        return self.mark + text.encode(self.encoding)


def decoded(path: Path, content: bytes, encoding: str = "utf-8") -> Text:
    """Returns the text of a file; a byte order mark tells its encoding, whatever was expected."""
    mark = b""
    for known, name in (*_UTF16_MARKS.items(), (codecs.BOM_UTF8, "utf-8")):
        if content.startswith(known):
            mark, encoding = known, name
    try:
        return Text(content[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        raise UserError(
            f"{path}:{line} is not valid {encoding.upper()}. Convert it, as by iconv -f LATIN1 "
            f"-t UTF-8."
        ) from error


class SpanDocument(Document):
    """A document that is its text with some spans replaced.

    Args:
      path: the file.
      languages: codes of source and target.
      read: its text.
    """

    def __init__(self, path: Path, languages: tuple[str, str], read: Text):
        super().__init__(path, languages)
        self.read = read
        self.spans: list[tuple[int, int, Unit]] = []

    def add(self, start: int, end: int, unit: Unit) -> None:
        """Adds a unit whose translation replaces the text from `start` to `end`."""
        self.spans.append((start, end, unit))
        self.add_units([unit])

    def content(self) -> bytes:
        """See `Document`."""
        changes = ((start, end, unit.target) for start, end, unit in self.spans if unit.match)
        return self.read.encoded(replaced(self.read.text, changes))


def replaced(text: AnyStr, changes: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Returns a text with spans (start, end, new text), in rising order, replaced."""
    parts, position = [], 0
    for start, end, new in changes:
        parts += [text[position:start], new]
        position = end
    return text[:0].join([*parts, text[position:]])
