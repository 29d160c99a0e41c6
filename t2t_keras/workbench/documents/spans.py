"""Documents in which translations replace spans of the text, and all else stays as it is."""

import codecs
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.document import Document, Unit, check_counts

_UTF16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}

Span = tuple[int, int]
# What replaces the characters from a position to another.
Change = tuple[int, int, str]


class Text(NamedTuple):
    """The text of a file, and what it takes to write it again."""

    text: str
    mark: bytes  # the byte order mark, b"" = none
    encoding: str

    def encoded(self, text: str, errors: str = "strict") -> bytes:
        """Returns the bytes of a file with another text; `errors` as of `str.encode`."""
        return self.mark + text.encode(self.encoding, errors)


def decoded(path: Path, content: bytes, encoding: str = "utf-8") -> Text:
    """Returns the text of a file; a byte order mark tells its encoding, whatever was expected."""
    mark = b""
    for known, name in (*_UTF16_MARKS.items(), (codecs.BOM_UTF8, "utf-8")):
        if content.startswith(known):
            mark, encoding = known, name
    try:
        text = Text(content[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        raise UserError(
            f"{path}:{line} is not valid {encoding.upper()}. Convert it, as by iconv -f LATIN1 "
            f"-t UTF-8.",
            code="not_utf8",
        ) from error
    check_counts(path, text.text)
    return text


def is_charset(name: str) -> bool:
    """Returns whether Python can read and write text of this encoding."""
    try:
        # Some of its codecs, as punycode, are for other things than the characters of a file.
        return codecs.lookup(name).name not in _NO_CHARSETS and "".encode(name) is not None
    except (LookupError, UnicodeError):
        return False


class SpanDocument(Document):
    """A document that is its text with some spans replaced.

    Args:
      path: the file.
      languages: codes of source and target.
      read: its text.
      errors: what becomes of characters that its encoding does not have, as of `str.encode`; by
        default they are a `UserError`.
    """

    def __init__(self, path: Path, languages: tuple[str, str], read: Text, errors: str = "strict"):
        super().__init__(path, languages)
        self.read, self.errors = read, errors
        self._units: list[tuple[Unit, Sequence[Span], Callable[[str], Sequence[str]]]] = []
        self._others: list[Change] = []

    def add(
        self, start: int, end: int, unit: Unit, written: Callable[[str], str] = lambda text: text
    ) -> None:
        """Adds a unit; `written` of its translation replaces the text from `start` to `end`."""
        self.add_parts(unit, [(start, end)], lambda text: [written(text)])

    def add_parts(
        self, unit: Unit, spans: Sequence[Span], written: Callable[[str], Sequence[str]]
    ) -> None:
        """Adds a unit of several spans; `written` of its translation has the text of each."""
        self._units.append((unit, spans, written))
        self.add_units([unit])

    def add_changes(self, changes: Iterable[Change]) -> None:
        """Adds spans that are replaced if any unit is translated."""
        self._others += changes

    def changes(self) -> list[Change]:
        """Returns what the translations change in the text."""
        changes = [
            (start, end, new)
            for unit, spans, written in self._units
            if unit.match and unit.target != unit.source
            for (start, end), new in zip(spans, written(unit.target), strict=True)
        ]
        if self._others and any(unit.match for unit in self.units):
            changes = without_overlaps([*changes, *self._others])
        return changes

    def content(self) -> bytes:
        """See `Document`."""
        text = replaced(self.read.text, self.changes())
        try:
            return self.read.encoded(text, self.errors)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.path}: its encoding {self.read.encoding} does not have "
                f"{error.object[error.start]!a}, which translations need. Convert it to UTF-8.",
                code="not_encodable",
            ) from error


def without_overlaps(changes: Sequence[Change]) -> list[Change]:
    """Returns changes in rising order, without those that overlap an earlier one."""
    separate: list[Change] = []
    for change in sorted(changes):
        if not separate or change[0] >= separate[-1][1]:
            separate.append(change)
    return separate


def replaced(text: str, changes: Iterable[Change]) -> str:
    """Returns a text with changes made; those at the same place in the order that they have."""
    parts, position = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
