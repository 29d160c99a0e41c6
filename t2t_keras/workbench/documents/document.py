"""`Document` and `Unit`: what every format has in common."""

import collections
import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import AnyStr, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.io.files import check_outputs, write_atomically

MATCHES = ("machine", "exact")
# More than documents have, unless they are made to fill the memory.
MAX_UNITS = 1 << 19
MAX_TAGS = 1 << 21
MAX_LINES = 1 << 20
_TAG = re.compile(r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>")


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A similar text of a translation memory, for whoever reviews the translation.

    Attributes:
      source: the similar text.
      target: its translation.
      ratio: how similar it is, 1 = the same.
    """

    source: str
    target: str
    ratio: float


class Piece(NamedTuple):
    """A part of a unit's source that is translated by itself.

    Attributes:
      text: what is translated.
      written: returns a translation of it as it stands in the unit's translation.
    """

    text: str
    written: Callable[[str], str]


@dataclasses.dataclass
class Unit:
    """A piece of a document that is translated as a whole.

    Attributes:
      source: its text, without the white space around it that the format does not count.
      target: the translation that the document has, "" = none.
      format: "text", or what its markup is: "html" or "xml".
      is_translated: whether the document counts `target` as a translation that needs no other.
      context: from the document, such as msgctxt of PO; None = there is none.
      match: where a new translation comes from, "machine" or "exact" (the memory); "" = none came.
      quality: how good it is likely to be, 0 to 1; None = unknown.
      is_final: whether it needs no review.
      suggestions: what the memory has like it.
      keeps_lines: whether in its markup ends of lines are what they are, and not mere white space.
      is_safe: returns whether a translation is safe for the program and the format can hold it;
        None = any translation is.
      form: number of its plural form; None = it has none.
      is_reviewed: whether somebody has looked at `target`, as far as the document says.
      pieces: parts of the source: those to translate, and strings to keep; empty = translate all.
    """

    source: str
    target: str = ""
    format: str = "text"
    is_translated: bool = False
    context: str | None = None
    match: str = ""
    quality: float | None = None
    is_final: bool = False
    suggestions: list[Suggestion] = dataclasses.field(default_factory=list)
    keeps_lines: bool = False
    is_safe: Callable[[str], bool] | None = dataclasses.field(default=None, repr=False)
    form: int | None = None
    is_reviewed: bool = True
    pieces: Sequence[str | Piece] = dataclasses.field(default=(), repr=False)

    @property
    def needs_review(self) -> bool:
        """Whether it has a new translation that nobody should trust yet."""
        return self.is_unsafe or (self.match == "machine" and not self.is_final)

    @property
    def is_unsafe(self) -> bool:
        """Whether it has a new translation that could break the program."""
        return bool(self.match and self.is_safe and not self.is_safe(self.target))

    def set(
        self, text: str, match: str = "machine", quality: float | None = None, final: bool = False
    ) -> None:
        """Takes a translation, which `Document.save` then writes.

        Args:
          text: the translation, in the unit's format.
          match: "machine", or "exact" = from a translation memory.
          quality: how good it is likely to be, 0 to 1; None = unknown.
          final: whether it needs no review.

        Raises:
          UserError: there is no such kind of match.
        """
        if match not in MATCHES:
            raise UserError(
                f"Expected match to be one of {', '.join(MATCHES)}, got '{match}'.",
                code="bad_value",
            )
        self.target, self.match, self.quality, self.is_final = text, match, quality, final


class Document:
    """A file whose text is to be translated; each format has its own subclass.

    Args:
      path: the file.
      languages: codes of source and target, "" = unknown.

    Attributes:
      units: what is to be translated, in the order of the file.
      left_out: how many pieces of text are in no unit, by the reason.

    The arguments are attributes as well.
    """

    def __init__(self, path: Path, languages: tuple[str, str]):
        self.path = path
        self.languages = languages
        self.units: list[Unit] = []
        self.left_out: collections.Counter[str] = collections.Counter()

    def add_units(self, units: Iterable[Unit]) -> None:
        """Adds units; too many of them are a `UserError`."""
        self.units += units
        if len(self.units) > MAX_UNITS:
            raise UserError(
                f"{self.path}: expected at most {MAX_UNITS:,} texts. Split it.",
                code="too_many_values",
            )

    def content(self) -> bytes:
        """Returns the file with the translations that its units were given."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Writes the file with the translations that its units were given.

        Raises:
          UserError: it cannot be written there, or would replace what it was read from.
        """
        check_outputs([self.path], [path])
        write_atomically(Path(path), self.content())


def check_counts(path: Path, text: AnyStr) -> None:
    """Raises `UserError` for a text with more tags or lines than what they become has room for."""
    for sign, most, what in (("<", MAX_TAGS, "tags"), ("\n", MAX_LINES, "lines")):
        count = text.count(sign if isinstance(text, str) else sign.encode())
        if count > most:
            raise UserError(
                f"{path}: expected at most {most:,} {what}, got {count:,}. Split it.",
                code="too_many_values",
            )


def markup_of(text: str) -> str:
    """Returns the format of a text that a program shows: "html" if it has tags, else "text"."""
    return "html" if _TAG.search(text) else "text"


def checked_languages(
    path: Path, found: tuple[str, str], expected: tuple[str, str]
) -> tuple[str, str]:
    """Returns the languages of a document: those that it names, else those that are expected.

    Raises:
      UserError: it names others; "en-GB" is no other than "en".
    """
    for side, named, wanted in zip(("source", "target"), found, expected, strict=True):
        if named and wanted and main_language(named) != main_language(wanted):
            raise UserError(
                f"{path}: expected {wanted} as its {side} language, got {named}. Take a model for "
                f"this language, or change what the file says.",
                code="other_language",
            )
    return found[0] or expected[0], found[1] or expected[1]


def main_language(code: str) -> str:
    """Returns the language of a code without region and script: "en" of "en-GB"."""
    return re.split(r"[-_@.]", code.lower())[0]
