"""The formats that parallel text comes in, told by the file name; each may be packed by gzip.

| ending | content |
|---|---|
| `.sgm`, `.sgml` | one language, in segments, as WMT publishes test sets |
| `.tsv` | source and target, divided by a tab, one pair a line |
| `.tmx` | any languages; see `t2t_keras.text.tmx` |
| any other | one language, one sentence a line |
"""

import gzip
import html
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from t2t_keras.errors import UserError
from t2t_keras.text.files import one_line, raw_lines
from t2t_keras.text.tmx import translation_units

PACKED = ".gz"
_SGML = (".sgm", ".sgml")
_BOTH_LANGUAGES = (".tsv", ".tmx")


def is_plain(name: str) -> bool:
    """Returns whether a file of this name is read as it stands."""
    return not name.endswith((PACKED, *_SGML, *_BOTH_LANGUAGES))


def holds_both_languages(name: str) -> bool:
    """Returns whether a file of this name holds source and target."""
    return name.removesuffix(PACKED).endswith(_BOTH_LANGUAGES)


def plain_name(name: str) -> str:
    """Returns the name of a file's plain text: without folders, packing and SGML's ending."""
    path = PurePosixPath(name.removesuffix(PACKED))
    return path.stem if path.suffix in _SGML else path.name


def read_text_file(
    stream: BinaryIO, name: str, languages: tuple[str, str] = ("", "")
) -> Iterator[tuple[bytes, ...]]:
    """Yields the lines of a file: (text,) of one language, or (source, target).

    The name tells the format; TMX needs the codes of both languages. A fault of the format is a
    `UserError` with its line.
    """
    if name.endswith(PACKED):
        stream, name = gzip.GzipFile(fileobj=stream), name.removesuffix(PACKED)
    if name.endswith(".tmx"):
        return translation_units(stream, name, languages)
    lines = raw_lines(stream, name)
    if name.endswith(".tsv"):
        return _columns(lines, name)
    if name.endswith(_SGML):
        lines = _segments(lines, name)
    return ((line.removesuffix(b"\n"),) for line in lines)


def _columns(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every line; both are empty where it has not two columns."""
    found, others, first = 0, 0, ""
    for number, line in enumerate(lines, 1):
        columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
        if len(columns) == 2:
            found += 1
            yield columns[0], columns[1]
        else:
            others += 1
            first = first or f"line {number} has {len(columns)}"
            yield b"", b""
    if not found:
        raise UserError(
            f"{name}: expected lines of two columns, source<tab>target; "
            f"{first or 'the file is empty'}.",
            code="bad_line",
        )
    if others:
        print(f"{name}: {others:,} lines without two columns are left out ({first}).")


# WMT's test sets have about a megabyte.
MAX_SGML_BYTES = 1 << 28
# No part can match what another one does, nor go on into another tag: the time stays linear.
_TAG = re.compile(rb"<\s*(?:(?P<end>/)\s*)?seg\b(?P<rest>[^<>]*)>", re.IGNORECASE)
# Only with a semicolon: HTML would take "&lt" and "&copy" without one, inside "AT&T" and URLs.
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def _segments(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the text of each segment of SGML as WMT publishes test sets, on one line.

    The files are no XML: tags come in any case, attributes with or without quotes, in any order or
    not at all; a segment stands on a line of its own, shares it or takes several; "&" and "<" may
    be bare. So nothing but the tag `seg` is looked at, and entities are replaced.
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

    tag = start = None  # `start` begins the open segment
    for tag in _TAG.finditer(content):
        if not tag["end"] and start:
            reason = f"another one begins in {location(tag.start())}"
            raise UserError(
                f"{location(start.start())}: a segment has no end: {reason}.", code="malformed_sgml"
            )
        if tag["end"] and not start:
            raise UserError(
                f"{location(tag.start())}: a segment ends here that does not begin.",
                code="malformed_sgml",
            )
        if tag["end"]:
            yield segment_text(content[start.end() : tag.start()])
            start = None
        elif tag["rest"].rstrip().endswith(b"/"):
            yield b""
        else:
            start = tag
    if start:
        raise UserError(
            f"{location(start.start())}: a segment has no end: the file ends.",
            code="malformed_sgml",
        )
    if tag is None:
        raise UserError(
            f"{name} has no <seg>: expected SGML as of WMT's test sets.", code="malformed_sgml"
        )


def segment_text(content: bytes) -> bytes:
    """Returns the content of a segment as one line, with entities replaced."""
    # Bytes that are not UTF-8 pass through, to be counted with those of other formats.
    text = content.decode("utf-8", "surrogateescape")
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return one_line(text).encode("utf-8", "surrogateescape")
