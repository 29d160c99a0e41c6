r"""Reads the lines of text files, and classifies lines, such as blank ones.

Lines end at "\n" alone: `str.splitlines` also splits at U+2028, U+0085 and others, which occur
inside real sentences. Files are in UTF-8, or in UTF-16 with a byte order mark.
"""

import codecs
import contextlib
import functools
import gzip
import io
import itertools
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError

# Longer lines are errors, so that a file without line feeds cannot fill the memory.
MAX_LINE_BYTES = 1 << 24
_PEEKED_BYTES = 1000
_GZIP_MAGIC = b"\x1f\x8b"
_MARKUP_SPACE = re.compile(r"[ \t\r\n]+")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Invisible characters: controls, Default_Ignorable_Code_Point, and Braille's blank.
INVISIBLE = (
    "\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_VISIBLE = re.compile(rf"[^\s{INVISIBLE}]")
_LETTER = re.compile(r"[^\W\d_]")
# White space, byte order marks and line break opportunities around a text.
_EDGE = r"[\s\ufeff\u200b\u2060]"
# The lookbehind avoids a new attempt at each character of a long run inside a text.
_EDGES = re.compile(rf"^{_EDGE}+|(?<!{_EDGE}){_EDGE}++$")


def is_blank(text: str) -> bool:
    """Returns whether a text has nothing but white space and invisible characters."""
    return _VISIBLE.search(text) is None


def has_letters(text: str) -> bool:
    """Returns whether a text has letters, which need translation; numbers and symbols do not."""
    return _LETTER.search(text) is not None


def normalized(text: str) -> str:
    """Returns a text in NFC, the form that models, memories and glossaries read."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def trimmed(text: str) -> str:
    """Removes white space, byte order marks and zero-width spaces around a text."""
    return _EDGES.sub("", text)


def replace_spans(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Replaces parts of a text.

    Args:
      text: the text.
      changes: (start, end, new text) of parts; at the same place, they are made in this order.
    """
    parts, position = [], 0
    for start, end, new_text in sorted(changes, key=lambda change: change[:2]):
        parts += [text[position:start], new_text]
        position = end
    return "".join([*parts, text[position:]])


def split_lines(text: str) -> list[str]:
    r"""Returns the lines of a text, without their "\n" or "\r\n"."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file; raises as `lines_of`, and if the file cannot be read."""
    with reading(path) as file:
        yield from lines_of(file, path)


def read_span(path: Path, offset: int, count: int) -> Iterator[bytes]:
    r"""Yields `count` lines from a byte offset of `line_offsets`, without "\n" or "\r\n"."""
    with path.open("rb") as file:
        file.seek(offset)
        for line in itertools.islice(file, count):
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def lines_of(stream: BinaryIO, name: Path | str = "the input") -> Iterator[bytes]:
    r"""Yields a stream's lines as UTF-8 without a byte order mark, each without "\n" or "\r\n".

    Raises:
      UserError: a line is longer than `MAX_LINE_BYTES`, or UTF-16 is truncated or has no byte order
        mark.
    """
    for number, line in enumerate(raw_lines(stream, name)):
        if number == 0:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def raw_lines(stream: BinaryIO, name: Path | str) -> Iterator[bytes]:
    r"""Yields lines with their "\n" and byte order mark, UTF-16 as UTF-8; see `lines_of`."""
    reader: Any = stream  # `BinaryIO` has neither `peek` nor `readinto`.
    buffered: io.BufferedReader = reader if hasattr(reader, "peek") else io.BufferedReader(reader)
    if not _is_utf16(buffered, name):
        yield from _bounded_lines(buffered.readline, name)
        return
    # A lone surrogate becomes invalid UTF-8, which readers report.
    text = io.TextIOWrapper(buffered, "utf-16", errors="surrogatepass", newline="\n")
    try:
        yield from _bounded_lines(
            lambda limit: text.readline(limit).encode("utf-8", "surrogatepass"), name
        )
    finally:
        text.detach()  # Otherwise the wrapper closes the stream.


def _is_utf16(stream: io.BufferedReader, name: Path | str) -> bool:
    """Returns whether a stream is UTF-16; raises `UserError` if its byte order mark is missing."""
    head = stream.peek(_PEEKED_BYTES)[:_PEEKED_BYTES]
    if head.startswith(_UTF16_MARKS):
        return True
    # In UTF-16, one of the two bytes of most characters is NUL.
    fewer_nuls, more_nuls = sorted((head[0::2].count(0), head[1::2].count(0)))
    if len(head) >= 8 and fewer_nuls == 0 and more_nuls > len(head) / 4:
        raise UserError(
            f"{name}: expected UTF-8, but this looks like UTF-16 without a byte order mark. "
            f"Convert it with iconv -f UTF-16LE -t UTF-8, or with UTF-16BE instead of UTF-16LE.",
            code="not_utf8",
        )
    return False


def _bounded_lines(read_line: Callable[[int], bytes], name: Path | str) -> Iterator[bytes]:
    number = 0
    try:
        lines = iter(functools.partial(read_line, MAX_LINE_BYTES), b"")
        for number, line in enumerate(lines, 1):
            if len(line) >= MAX_LINE_BYTES:
                raise _too_long_error(name, number)
            yield line
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}:{number + 1} is not valid UTF-16 ({error.reason}).", code="not_utf8"
        ) from error


def _too_long_error(name: Path | str, number: int) -> UserError:
    return UserError(
        f"{name}:{number}: expected lines of less than {MAX_LINE_BYTES:,} bytes, got a longer one. "
        f"Give text with one sentence per line.",
        code="too_long",
    )


def is_utf16(path: Path) -> bool:
    """Returns whether a file is UTF-16; raises `UserError` if its byte order mark is missing."""
    with reading(path) as file:
        return _is_utf16(file, path)


def line_offsets(path: Path, stride: int) -> tuple[int, list[int]]:
    """Returns the number of lines in a UTF-8 file, and the byte position of every `stride`-th one.

    Raises as `read_lines`.
    """
    offsets: list[int] = []
    count = 0
    with reading(path, decompress=False) as file:
        position = len(codecs.BOM_UTF8) if file.peek(3).startswith(codecs.BOM_UTF8) else 0
        file.seek(position)
        lines = iter(functools.partial(file.readline, MAX_LINE_BYTES), b"")
        # A loop over single lines would take twice as long.
        while lengths := list(map(len, itertools.islice(lines, stride))):
            if max(lengths) >= MAX_LINE_BYTES:
                raise _too_long_error(path, count + 1 + lengths.index(max(lengths)))
            offsets.append(position)
            position += sum(lengths)
            count += len(lengths)
    return count, offsets


def count_lines(path: Path) -> int:
    """Returns the number of lines; raises as `read_lines`."""
    return sum(1 for _ in read_lines(path))


def check_same_lines(counts: Mapping[str | Path, int]) -> None:
    """Raises `UserError` unless line-aligned files have the same number of lines, above 0."""
    if len(set(counts.values())) > 1:
        [(first, lines), *others] = counts.items()
        numbers = "".join(f", {file} has {count:,}" for file, count in others)
        raise UserError(
            f"Expected line-aligned files, but {first} has {lines:,} lines{numbers}. "
            f"Give files whose lines N belong together.",
            code="unequal_counts",
        )
    if not all(counts.values()):
        raise UserError(
            f"Got empty files: {', '.join(map(str, counts))}. Give files with text.",
            code="no_text",
        )


def check_readable(path: Path) -> None:
    """Raises `UserError` if the file cannot be read.

    A pipe is not opened: closing it would end its writer.
    """
    if not (Path(path).is_fifo() and os.access(path, os.R_OK)):
        with reading(path):
            pass


def read_text(path: Path) -> list[str]:
    """Returns the lines of a file; raises as `read_lines`, and if a line is not UTF-8."""
    return [decoded(line, path, number) for number, line in enumerate(read_lines(path), 1)]


@contextlib.contextmanager
def reading(path: Path, decompress: bool = True) -> Iterator[io.BufferedReader]:
    """Opens a file, decompressing gzip if `decompress`; raises `UserError` on failure."""
    try:
        with Path(path).open("rb") as file:
            if decompress and file.peek(2).startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    buffered: io.BufferedReader = io.BufferedReader(unpacked)
                    yield buffered
            else:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} cannot be decompressed: {error}. Expected text or complete gzip; copy it "
            f"again.",
            code="damaged_gzip",
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", code="not_read") from error


def decoded(line: bytes, path: Path | str, number: int) -> str:
    """Returns a line as text; a `UserError` names line `number`, from 1, if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number} is not UTF-8 (byte {error.start + 1} of the line is "
            f"0x{error.object[error.start]:02x}). Convert the file to UTF-8.",
            code="not_utf8",
        ) from error


def one_line(markup: str) -> str:
    """Returns markup as one line: runs of spaces, tabs and line ends become one space.

    Other white space, such as a no-break space, is kept.
    """
    return _MARKUP_SPACE.sub(" ", markup).strip(" ")


def is_text(line: str) -> bool:
    """Returns whether a line has no lone surrogates, which stand for invalid UTF-8."""
    return re.search(r"[\ud800-\udfff]", line) is None


def line_name(path: Path, line: int) -> str:
    """Returns "folder/file:line"; the folder is needed, as many corpora share file names."""
    return f"{'/'.join(path.parts[-2:])}:{line}"
