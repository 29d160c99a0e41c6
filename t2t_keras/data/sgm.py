"""SGML as WMT publishes test sets: one segment after the other, told apart by tags alone.

The files are no XML: tags come in any case, attributes with or without quotes, in any order or not
at all; a segment stands on a line of its own, shares it or takes several; "&" and "<" may be bare.
So nothing but the tag `seg` is looked at.
"""

import html
import re
from collections.abc import Iterable, Iterator

from t2t_keras.errors import UserError

_TAG = re.compile(rb"<\s*(?P<end>/?)\s*seg\b[^>]*?(?P<empty>/?)\s*>", re.IGNORECASE)
_OPEN_TAG = re.compile(rb"<\s*/?\s*(?:seg\b[^>]*)?$", re.IGNORECASE)
# Only with a semicolon: HTML would take "&lt" and "&copy" without one, inside "AT&T" and addresses.
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")
_WHITESPACE = re.compile(r"[ \t\r\n]+")


def segments(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the text of each segment, on one line, with entities replaced.

    Args:
      lines: of the file, line ends included.
      name: of the file, for errors.

    Raises:
      UserError: a segment that does not end, or ends without a beginning (the line is named), or a
        file without segments.
    """
    parts: list[bytes] | None = None  # of the open segment
    began = count = 0
    pending = b""
    for number, line in enumerate(lines, 1):
        line = pending + line
        # A tag that is itself broken over lines.
        cut = _OPEN_TAG.search(line.rstrip(b"\r\n"))
        pending = line[cut.start() :] if cut else b""
        line = line[: cut.start()] if cut else line
        end = 0
        for tag in _TAG.finditer(line):
            before, end = line[end : tag.start()], tag.end()
            if tag["end"]:
                if parts is None:
                    raise UserError(f"{name}:{number}: a segment ends here, but none began.")
                yield segment_text(b"".join([*parts, before]))
                parts, count = None, count + 1
            elif parts is not None:
                raise _unended(name, began, f"another begins in line {number}")
            elif tag["empty"]:
                yield b""
                count += 1
            else:
                parts, began = [], number
        if parts is not None:
            parts.append(line[end:])
    if parts is not None:
        raise _unended(name, began, "the file is over")
    if not count:
        raise UserError(f"{name} has no <seg>: it is not SGML as WMT's test sets are.")


def _unended(name: str, began: int, what_came: str) -> UserError:
    return UserError(f"{name}:{began}: the segment that begins here has no end; {what_came}.")


def segment_text(content: bytes) -> bytes:
    """Returns what stands between two tags as one line, with entities replaced."""
    # Bytes that are not UTF-8 pass through, to be counted with those of other formats.
    text = content.decode("utf-8", "surrogateescape")
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return one_line(text).encode("utf-8", "surrogateescape")


def one_line(text: str) -> str:
    """Returns markup's text as one line: runs of its whitespace are one space, none at the ends."""
    return _WHITESPACE.sub(" ", text).strip(" ")
