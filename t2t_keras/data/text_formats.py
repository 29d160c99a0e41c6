"""The formats that parallel text comes in, told by the file name; each may be packed by gzip.

| ending | what |
|---|---|
| `.sgm`, `.sgml` | one language; see `sgm` |
| `.tsv` | source and target, divided by a tab, one pair a line |
| `.tmx` | any languages; see `tmx` |
| any other | one language, one sentence a line |
"""

import gzip
import shutil
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from t2t_keras.data.sgm import segments
from t2t_keras.data.tmx import translation_units
from t2t_keras.errors import UserError

_BLOCK_BYTES = 1 << 20
_SGML = (".sgm", ".sgml")
_BOTH_LANGUAGES = (".tsv", ".tmx")
PACKED = ".gz"


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


def write_one_language(stream: BinaryIO, name: str, output: BinaryIO) -> None:
    """Writes the text of a file in one language, one sentence a line.

    Raises:
      UserError: a fault of the format, with its line.
    """
    stream, name = _unpacked(stream, name)
    if not name.endswith(_SGML):
        shutil.copyfileobj(stream, output, _BLOCK_BYTES)
        return
    for segment in segments(stream, name):
        output.write(segment + b"\n")


def write_both_languages(
    stream: BinaryIO, name: str, outputs: tuple[BinaryIO, BinaryIO], languages: tuple[str, str]
) -> None:
    """Writes source and target of a file that holds both, one sentence a line.

    Args:
      stream: the file.
      name: its name.
      outputs: of source and target.
      languages: codes of source and target, which TMX is asked for.

    Raises:
      UserError: a fault of the format, with its line.
    """
    stream, name = _unpacked(stream, name)
    if name.endswith(".tsv"):
        pairs = _columns(stream, name)
    else:
        pairs = translation_units(stream, name, languages)
    for pair in pairs:
        for output, text in zip(outputs, pair, strict=True):
            output.write(text + b"\n")


def _unpacked(stream: BinaryIO, name: str) -> tuple[BinaryIO, str]:
    if not name.endswith(PACKED):
        return stream, name
    return gzip.GzipFile(fileobj=stream), name.removesuffix(PACKED)


def _columns(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every line; both are empty where it has not two columns.

    Such a pair is then left out and counted, as one with an empty side is in every format; how many
    there are is said here, as nothing later can tell.

    Raises:
      UserError: no line has two columns.
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
        reason = f": {first}" if first else ""
        raise UserError(
            f"{name} has no line of two columns{reason}. source<tab>translation was expected."
        )
    if others:
        print(f"{name}: {others:,} lines have not two columns ({first}): they are left out.")
