"""Formats of parallel text, recognised by the file name; any file may be compressed by gzip.

| ending | content |
|---|---|
| `.sgm`, `.sgml` | one language, in segments, as WMT publishes test sets |
| `.tsv` | source and target, separated by a tab, one pair a line |
| `.tmx` | any languages; see `translation_units` |
| any other | one language, one sentence a line |
"""

import gzip
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO
from xml.etree.ElementTree import ParseError

from t2t_keras.errors import UserError
from t2t_keras.text.files import MAX_LINE_BYTES, one_line, raw_lines

GZIP_SUFFIX = ".gz"
_SGML = (".sgm", ".sgml")
_BOTH_LANGUAGES = (".tsv", ".tmx")


def is_plain(name: str) -> bool:
    """Returns whether a file of this name is uncompressed with one sentence per line."""
    return not name.endswith((GZIP_SUFFIX, *_SGML, *_BOTH_LANGUAGES))


def holds_both_languages(name: str) -> bool:
    """Returns whether a file of this name holds source and target."""
    return name.removesuffix(GZIP_SUFFIX).endswith(_BOTH_LANGUAGES)


def plain_name(name: str) -> str:
    """Returns the name of a file's plain text: without folders, ".gz" and SGML's ending."""
    path = PurePosixPath(name.removesuffix(GZIP_SUFFIX))
    return path.stem if path.suffix in _SGML else path.name


def read_text_file(
    stream: IO[bytes], name: str, languages: tuple[str, str] = ("", "")
) -> Iterator[tuple[bytes, ...]]:
    """Yields the lines of a file: (text,) of one language, or (source, target).

    Args:
      stream: the content.
      name: name of the file, which tells the format.
      languages: codes of source and target, for TMX.

    Raises:
      UserError: the file does not follow its format; names the line.
    """
    content: Any = stream
    if name.endswith(GZIP_SUFFIX):
        content, name = gzip.GzipFile(fileobj=content), name.removesuffix(GZIP_SUFFIX)
    if name.endswith(".tmx"):
        return translation_units(content, name, languages)
    lines = raw_lines(content, name)
    if name.endswith(".tsv"):
        return _columns(lines, name)
    if name.endswith(_SGML):
        lines = _segments(lines, name)
    return ((line.removesuffix(b"\n"),) for line in lines)


def _columns(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every line; both are empty unless it has two columns."""
    num_pairs, num_unusable, first_fault = 0, 0, ""
    for number, line in enumerate(lines, 1):
        columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
        if len(columns) == 2:
            num_pairs += 1
            yield columns[0], columns[1]
        else:
            num_unusable += 1
            first_fault = first_fault or f"line {number} has {len(columns)}"
            yield b"", b""
    if not num_pairs:
        raise UserError(
            f"{name}: expected lines of two columns, source<tab>target; "
            f"{first_fault or 'the file is empty'}.",
            code="bad_line",
        )
    if num_unusable:
        print(f"{name}: {num_unusable:,} lines without two columns are left out ({first_fault}).")


# WMT's test sets have about a megabyte.
MAX_SGML_BYTES = 1 << 28
# Takes linear time: no two parts match the same text, and none continues into another tag.
_TAG = re.compile(rb"<\s*(?:(?P<end>/)\s*)?seg\b(?P<rest>[^<>]*)>", re.IGNORECASE)
# The semicolon is required: HTML reads "&lt" and "&copy" without it, even inside URLs.
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def _segments(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the text of each segment of WMT's SGML as one line.

    The files are not XML: tags have any case, attributes may lack quotes, segments may share a line
    or span several, and "&" and "<" may be bare. So only `seg` tags and entities are interpreted.
    """
    content = bytearray()
    for line in lines:
        content += line
        if len(content) > MAX_SGML_BYTES:
            raise UserError(
                f"{name}: expected SGML of at most {MAX_SGML_BYTES:,} bytes, got more.",
                code="file_too_large",
            )

    def location(position: int) -> str:
        line = content.count(b"\n", 0, position) + 1
        return f"{name}:{line}"

    tag: re.Match[bytes] | None = None
    start: re.Match[bytes] | None = None  # The tag that begins the open segment.
    for tag in _TAG.finditer(content):
        if not tag["end"] and start:
            reason = f"the next one begins at {location(tag.start())}"
            raise UserError(
                f"{location(start.start())}: expected </seg>, but {reason}.", code="malformed_sgml"
            )
        if tag["end"] and not start:
            raise UserError(
                f"{location(tag.start())}: expected <seg> before this </seg>.",
                code="malformed_sgml",
            )
        if tag["end"] and start:
            yield segment_text(content[start.end() : tag.start()])
            start = None
        elif tag["rest"].rstrip().endswith(b"/"):
            yield b""
        else:
            start = tag
    if start:
        raise UserError(
            f"{location(start.start())}: expected </seg>, but the file ends.",
            code="malformed_sgml",
        )
    if tag is None:
        raise UserError(
            f"{name} has no <seg>: expected SGML as in WMT's test sets.", code="malformed_sgml"
        )


def segment_text(content: bytes | bytearray) -> bytes:
    """Returns the content of a segment as one line, with entities replaced."""
    # Invalid UTF-8 passes through, and is counted later as in other formats.
    text = content.decode("utf-8", "surrogateescape")
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return one_line(text).encode("utf-8", "surrogateescape")


_TMX_BLOCK_BYTES = 1 << 16
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class _Units:
    """Collects the texts of translation units as the target of an XML parser."""

    def __init__(self, keep_lines: bool):
        self._normalize_text = str if keep_lines else one_line
        # Texts of units by language code, such as "en-gb"; for a repeated language, the first.
        self.complete_units: list[dict[str, str]] = []
        self._texts: dict[str, str] = {}
        self._language = ""
        self._parts: list[str] | None = None  # Text of the open segment.
        self._code_depth = 0  # Depth in inline tags that hold code.

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if self._parts is not None:
            # All inline tags but `hi` hold code: bpt, ept, it, ph and ut.
            self._code_depth += bool(self._code_depth or tag != "hi")
        elif tag == "tu":
            self._texts = {}
        elif tag == "tuv":
            language = attributes.get(_XML_LANGUAGE) or attributes.get("lang") or ""
            self._language = normalized_language(language)
        elif tag == "seg":
            self._parts = []

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        if self._code_depth:
            self._code_depth -= 1
        elif tag == "seg" and self._parts is not None:
            self._texts.setdefault(self._language, self._normalize_text("".join(self._parts)))
            self._parts = None
        elif tag == "tu":
            self.complete_units.append(self._texts)

    def data(self, text: str) -> None:
        if self._parts is not None and not self._code_depth:
            self._parts.append(text)


def translation_units(
    stream: BinaryIO, name: str, languages: tuple[str, str], keep_lines: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yields (source, target) for each translation unit of a TMX file; a missing side is empty.

    Args:
      stream: the content.
      name: name of the file, for errors.
      languages: codes of source and target; "en" also finds "en-GB" if there is no "en".
      keep_lines: whether to keep line breaks, instead of one line per text.

    Raises:
      UserError: the file cannot be parsed, or has no unit in both languages.
    """
    # Imported here, since a machine that only trains may not have it.
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    units = _Units(keep_lines)
    parser = DefusedXMLParser(target=units)
    codes: set[str] = set()
    num_complete = size = 0  # `size` counts bytes since the last complete unit.
    try:
        while block := stream.read(_TMX_BLOCK_BYTES):
            parser.feed(block)
            size = 0 if units.complete_units else size + len(block)
            if size >= MAX_LINE_BYTES:
                raise UserError(
                    f"{name}: expected translation units of at most {MAX_LINE_BYTES:,} bytes, got "
                    f"a longer one.",
                    code="too_long",
                )
            for texts in units.complete_units:
                codes.update(texts)
                source, target = (
                    value_for_language(texts, language) or "" for language in languages
                )
                num_complete += bool(source and target)
                yield (
                    source.encode("utf-8", "surrogatepass"),
                    target.encode("utf-8", "surrogatepass"),
                )
            units.complete_units.clear()
        parser.close()
    except UserError:
        raise
    except ParseError as error:
        line, column = error.position
        raise UserError(
            f"{name}:{line}: not well-formed XML at column {column + 1} ({error.msg}). Repair it.",
            code="malformed_xml",
        ) from error
    except DefusedXmlException as error:
        raise UserError(
            f"{name} declares entities, which are rejected for security ({error}). Remove them.",
            code="unsafe_xml",
        ) from error
    except (ValueError, LookupError) as error:  # The parser does not know the encoding.
        raise UserError(
            f"{name} cannot be read: {error}. Convert it to UTF-8 and change its first line.",
            code="unknown_encoding",
        ) from error
    if not num_complete:
        raise UserError(
            f"{name}: expected translation units in {' and '.join(languages)}, got "
            f"{', '.join(sorted(codes)) or 'none at all'}.",
            code="missing_language",
        )


def value_for_language(values: Mapping[str, Any], language: str) -> Any:
    """Returns the value of a language, else of a regional variant, else None.

    The keys of `values` are codes as `normalized_language` returns them.
    """
    language = normalized_language(language)
    regional = (value for code, value in values.items() if code.startswith(f"{language}-"))
    return values[language] if language in values else next(regional, None)


def normalized_language(language: str) -> str:
    """Returns a language code in the form "en-gb"."""
    return language.lower().replace("_", "-")


def main_language(code: str) -> str:
    """Returns the language of a code without region and script: "en" of "en-GB"."""
    return re.split(r"[-_@.]", code.lower())[0]
