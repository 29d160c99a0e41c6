"""`Document` and `Unit`, shared by all formats, and `read_document` for a file of any format."""

import codecs
import collections
import dataclasses
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import AnyStr, NamedTuple

from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, report_missing_package, suggest
from t2t_keras.io.files import check_outputs, read_bounded, write_atomically
from t2t_keras.text.files import MAX_LINE_BYTES, replace_spans
from t2t_keras.text.formats import main_language

_MATCH_KINDS = ("machine", "exact")
# Real documents have fewer; more would exhaust the memory.
MAX_UNITS = 1 << 19
MAX_TAGS = 1 << 21
MAX_LINES = 1 << 20
_TAG = re.compile(r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>")
_UTF16_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BANNED_CODECS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
Span = tuple[int, int]
# (start, end, text that replaces the characters in between)
Change = tuple[int, int, str]
# The class or function that reads each format, as "module:name".
EXTENSIONS = {
    ".docx": "docx:WordDocument",
    ".htm": "html_and_xml:read_html",
    ".html": "html_and_xml:read_html",
    ".md": "markdown:read_markdown",
    ".po": "po:read_po",
    ".pot": "po:read_po",
    ".txt": "layout:read_plain_text",
    ".xlf": "xliff_and_tmx:XliffDocument",
    ".xml": "html_and_xml:XmlDocument",
    ".xliff": "xliff_and_tmx:XliffDocument",
    ".srt": "srt_and_vtt:read_subtitles",
    ".tmx": "xliff_and_tmx:TmxDocument",
    ".vtt": "srt_and_vtt:read_subtitles",
}
MAX_BYTES = 1 << 26
_LONG_LINE = re.compile(rb"[^\r\n]{%d}" % MAX_LINE_BYTES)


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A similar text in a translation memory, for reviewers of the translation.

    Attributes:
      source: the similar text.
      target: its translation.
      ratio: its similarity, 1 = equal.
    """

    source: str
    target: str
    ratio: float


class Piece(NamedTuple):
    """A part of a unit's source that is translated separately.

    Attributes:
      text: the text to translate.
      write: converts its translation to a part of the unit's translation.
    """

    text: str
    write: Callable[[str], str]


@dataclasses.dataclass
class Unit:
    """A text of a document that is translated as a whole.

    Attributes:
      source: the text, without surrounding white space that the format ignores.
      target: its translation in the document; "" = none.
      format: "text", or the kind of markup: "html" or "xml".
      is_translated: whether the document counts `target` as a finished translation.
      context: its context in the document, such as msgctxt of PO; None = no context.
      match: origin of a new translation: "machine" or "exact" (the memory); "" = none.
      quality: likely quality of the new translation, 0 to 1; None = unknown.
      is_final: whether the new translation needs no review.
      suggestions: similar texts in the memory.
      keeps_lines: whether line ends in its markup differ from other white space.
      is_safe: returns whether a translation is safe for the program and possible in the format;
        None = every translation is.
      form: number of its plural form; None = it has none.
      is_reviewed: False if the document marks `target` as not reviewed.
      pieces: parts of the source, to translate (`Piece`) or to keep (strings); empty = translate
        the whole source.
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
        """Whether it has a new translation that must be reviewed before use."""
        return self.is_unsafe or (self.match == "machine" and not self.is_final)

    @property
    def is_unsafe(self) -> bool:
        """Whether it has a new translation that could break the program."""
        return bool(self.match and self.is_safe and not self.is_safe(self.target))

    def set(
        self, text: str, match: str = "machine", quality: float | None = None, final: bool = False
    ) -> None:
        """Sets the translation that `Document.save` writes.

        Args:
          text: the translation, in the unit's format.
          match: "machine", or "exact" = from a translation memory.
          quality: likely quality, 0 to 1; None = unknown.
          final: whether it needs no review.

        Raises:
          UserError: `match` is neither "machine" nor "exact".
        """
        if match not in _MATCH_KINDS:
            raise UserError(
                f"Expected match to be one of {', '.join(_MATCH_KINDS)}, got '{match}'.",
                code="bad_value",
            )
        self.target, self.match, self.quality, self.is_final = text, match, quality, final


class Document:
    """A file with text to translate; each format has its own subclass.

    Args:
      path: the file; also an attribute.
      languages: codes of source and target, "" = unknown; also an attribute.

    Attributes:
      units: the texts to translate, in the order of the file.
      left_out: numbers of skipped texts, by reason.
    """

    def __init__(self, path: Path, languages: tuple[str, str]):
        self.path = path
        self.languages = languages
        self.units: list[Unit] = []
        self.left_out: collections.Counter[str] = collections.Counter()

    def add_units(self, units: Iterable[Unit]) -> None:
        """Adds units; raises `UserError` if there are too many."""
        self.units += units
        check_limit(self.path, len(self.units), MAX_UNITS, "texts")

    def content(self) -> bytes:
        """Returns the bytes of the file with the new translations of its units."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Writes the file with the new translations of its units.

        Raises:
          UserError: the path cannot be written, or is the file that was read.
        """
        check_outputs([self.path], [path])
        write_atomically(Path(path), self.content())


def check_limit(
    path: Path,
    number: int,
    limit: int,
    noun: str,
    code: str = "too_many_values",
    advice: str = "Split it.",
) -> None:
    """Raises `UserError` if a document has more of something than its reader accepts."""
    if number > limit:
        text = f"{path}: expected at most {limit:,} {noun}, got {number:,}. {advice}".rstrip()
        raise UserError(text, code=code)


def check_counts(path: Path, text: AnyStr) -> None:
    """Raises `UserError` for a text with too many tags or lines."""
    for sign, limit, noun in (("<", MAX_TAGS, "tags"), ("\n", MAX_LINES, "lines")):
        count = text.count(sign if isinstance(text, str) else sign.encode())
        check_limit(path, count, limit, noun)


def format_of(text: str) -> str:
    """Returns the format of a text: "html" if it has tags, else "text"."""
    return "html" if _TAG.search(text) else "text"


def resolve_languages(
    declaration: str | Path, declared: tuple[str, str], expected: tuple[str, str]
) -> tuple[str, str]:
    """Returns the languages that a document or flags declare; for "", the expected ones.

    Raises:
      UserError: a declared language is not the expected one; "en-GB" equals "en".
    """
    for side, language, wanted in zip(("source", "target"), declared, expected, strict=True):
        if language and wanted and main_language(language) != main_language(wanted):
            raise UserError(
                f"{declaration}: expected {wanted} as its {side} language, got {language}. Use a "
                f"model for this language, or correct it.",
                code="other_language",
            )
    return declared[0] or expected[0], declared[1] or expected[1]


class Text(NamedTuple):
    """The text of a file, with its encoding."""

    text: str
    bom: bytes  # the byte order mark, b"" = none
    encoding: str

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Encodes a text as the file was encoded; see `str.encode` for `errors`."""
        return self.bom + text.encode(self.encoding, errors)


def decode_file(path: Path, content: bytes, declared: str = "") -> Text:
    """Decodes a file: by its byte order mark, else as declared, else as UTF-8."""
    bom, encoding = b"", declared if is_charset(declared) else "utf-8"
    for known_bom, name in (*_UTF16_BOMS.items(), (codecs.BOM_UTF8, "utf-8")):
        if content.startswith(known_bom):
            bom, encoding = known_bom, name
    try:
        file = Text(content[len(bom) :].decode(encoding), bom, encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(bom) + error.start) + 1
        raise UserError(
            f"{path}:{line} is not valid {encoding.upper()}. Convert it, as with iconv -f LATIN1 "
            f"-t UTF-8.",
            code="not_utf8",
        ) from error
    check_counts(path, file.text)
    return file


def is_charset(name: str) -> bool:
    """Returns whether Python can read and write text in this encoding."""
    try:
        # Some of Python's codecs, such as punycode, are not encodings of files.
        return codecs.lookup(name).name not in _BANNED_CODECS and "".encode(name) is not None
    except (LookupError, UnicodeError):
        return False


class SpanDocument(Document):
    """A text file in which translations replace spans.

    Args:
      path: the file.
      languages: codes of source and target.
      file: its text.
      errors: what to do with characters that the encoding lacks, see `str.encode`; "strict" raises
        `UserError`.
    """

    def __init__(self, path: Path, languages: tuple[str, str], file: Text, errors: str = "strict"):
        super().__init__(path, languages)
        self.file, self.errors = file, errors
        self._units: list[tuple[Unit, Sequence[Span], Callable[[str], Sequence[str]]]] = []
        self._extra_changes: list[Change] = []

    def add(
        self, start: int, end: int, unit: Unit, write: Callable[[str], str] = lambda text: text
    ) -> None:
        """Adds a unit; `write(translation)` replaces the text from `start` to `end`."""
        self.add_parts(unit, [(start, end)], lambda text: [write(text)])

    def add_parts(
        self, unit: Unit, spans: Sequence[Span], write: Callable[[str], Sequence[str]]
    ) -> None:
        """Adds a unit of several spans; `write(translation)` returns the text of each span."""
        self._units.append((unit, spans, write))
        self.add_units([unit])

    def add_changes(self, changes: Iterable[Change]) -> None:
        """Adds changes that are made if any unit is translated."""
        self._extra_changes += changes

    def changes(self) -> list[Change]:
        """Returns the changes that write the new translations into the text."""
        changes = [
            (start, end, new_text)
            for unit, spans, write in self._units
            if unit.match and unit.target != unit.source
            for (start, end), new_text in zip(spans, write(unit.target), strict=True)
        ]
        if self._extra_changes and any(unit.match for unit in self.units):
            changes = drop_overlaps([*changes, *self._extra_changes])
        return changes

    def content(self) -> bytes:
        """See `Document`."""
        text = replace_spans(self.file.text, self.changes())
        try:
            return self.file.encode(text, self.errors)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.path}: its encoding {self.file.encoding} lacks "
                f"{error.object[error.start]!a}, which translations contain. Convert it to UTF-8.",
                code="not_encodable",
            ) from error


def drop_overlaps(changes: Sequence[Change]) -> list[Change]:
    """Returns changes in order, without those that overlap an earlier one."""
    disjoint_changes: list[Change] = []
    for change in sorted(changes):
        if not disjoint_changes or change[0] >= disjoint_changes[-1][1]:
            disjoint_changes.append(change)
    return disjoint_changes


def read_document(path: str | Path, source: str = "", target: str = "") -> Document:
    """Reads a document; the extension of the file determines the format.

    Args:
      path: the file.
      source: code of the source language; "" = as the file declares.
      target: code of the target language; "" = as the file declares.

    Raises:
      UserError: the format is unknown; the file cannot be read, does not match its extension,
        declares languages other than `source` and `target`, is larger than 64 MB, has a line of
        over 16 MB, or is unsafe to read; or a package is not installed.
    """
    path = Path(expand_path(path))
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise UserError(
            f"{path}: expected the extension of a format that can be translated, one of "
            f"{', '.join(EXTENSIONS)}; got '{extension}'.{suggest(extension, EXTENSIONS)}",
            code="unknown_extension",
        )
    content = read_bounded(path, max_bytes=MAX_BYTES)
    if extension != ".docx":
        _check_lines(path, content)
    with report_missing_package(f"{path}: reading {extension}", "documents"):
        read = pkgutil.resolve_name(f"t2t_keras.workbench.documents.{EXTENSIONS[extension]}")
    return read(path, (source, target), content)


def translated_name(name: str | Path) -> Path:
    """Returns the file name for a document's translation: the same, but .po instead of .pot."""
    path = Path(name)
    return path.with_suffix(".po") if path.suffix.lower() == ".pot" else path


def _check_lines(path: Path, content: bytes) -> None:
    """Raises `UserError` if a line is too long."""
    if long_line := _LONG_LINE.search(content):
        number = content.count(b"\n", 0, long_line.start()) + 1
        raise UserError(
            f"{path}:{number}: expected lines of less than "
            f"{MAX_LINE_BYTES:,} bytes, got a longer one. Is it a text file?",
            code="too_long",
        )
