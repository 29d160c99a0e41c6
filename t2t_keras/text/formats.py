"""The formats that parallel text comes in, told by the file name; each may be packed by gzip.

| ending | content |
|---|---|
| `.sgm`, `.sgml` | one language; see `segments` |
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
from t2t_keras.text.files import MAX_LINE_BYTES, one_line, raw_lines
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

    Args:
      stream: the file.
      name: tells the format.
      languages: codes of source and target, for TMX.

    Raises:
      UserError: a fault of the format, with its line.
    """
    if name.endswith(PACKED):
        stream, name = gzip.GzipFile(fileobj=stream), name.removesuffix(PACKED)
    if name.endswith(".tmx"):
        return translation_units(stream, name, languages)
    lines = raw_lines(stream, name)
    if name.endswith(".tsv"):
        return _columns(lines, name)
    if name.endswith(_SGML):
        lines = segments(lines, name)
    return ((line.removesuffix(b"\n"),) for line in lines)


def _columns(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every line; both are empty where it has not two columns.

    Such a pair is left out later, as any with an empty side; how many there are is printed here.
    """
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
            f"{first or 'the file is empty'}."
        )
    if others:
        print(f"{name}: {others:,} lines without two columns are left out ({first}).")


_TAG = re.compile(rb"<\s*(?P<end>/?)\s*seg\b[^>]*?(?P<empty>/?)\s*>", re.IGNORECASE)
_OPEN_TAG = re.compile(rb"<\s*/?\s*(?:seg\b[^>]*)?$", re.IGNORECASE)
# Only with a semicolon: HTML would take "&lt" and "&copy" without one, inside "AT&T" and URLs.
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def segments(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the text of each segment of SGML as WMT publishes test sets, on one line.

    The files are no XML: tags come in any case, attributes with or without quotes, in any order or
    not at all; a segment stands on a line of its own, shares it or takes several; "&" and "<" may
    be bare. So nothing but the tag `seg` is looked at, and entities are replaced.

    Raises:
      UserError: a segment without its end or its beginning (the line is named), or none at all.
    """
    parts: list[bytes] | None = None  # of the open segment
    start = size = count = 0
    pending = b""
    for number, line in enumerate(lines, 1):
        line = pending + line
        size += len(line)
        if size >= MAX_LINE_BYTES:
            raise UserError(
                f"{name}:{start or number}: a segment of over {MAX_LINE_BYTES:,} bytes."
            )
        # A tag that is itself broken over lines.
        cut = _OPEN_TAG.search(line.rstrip(b"\r\n"))
        pending = line[cut.start() :] if cut else b""
        line = line[: cut.start()] if cut else line
        end = 0
        for tag in _TAG.finditer(line):
            before, end = line[end : tag.start()], tag.end()
            if tag["end"]:
                if parts is None:
                    raise UserError(f"{name}:{number}: a segment ends here that does not begin.")
                yield segment_text(b"".join([*parts, before]))
                parts, size, count = None, 0, count + 1
            elif parts is not None:
                raise _unended(name, start, f"another one begins in line {number}")
            elif tag["empty"]:
                yield b""
                count += 1
            else:
                parts, start = [], number
        if parts is not None:
            parts.append(line[end:])
        elif not pending:
            size = 0
    if parts is not None:
        raise _unended(name, start, "the file ends")
    if not count:
        raise UserError(f"{name} has no <seg>: expected SGML as of WMT's test sets.")


def _unended(name: str, start: int, reason: str) -> UserError:
    return UserError(f"{name}:{start}: the segment that begins here has no end: {reason}.")


def segment_text(content: bytes) -> bytes:
    """Returns the content of a segment as one line, with entities replaced."""
    # Bytes that are not UTF-8 pass through, to be counted with those of other formats.
    text = content.decode("utf-8", "surrogateescape")
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return one_line(text).encode("utf-8", "surrogateescape")
