import io
import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.text.files import (
    MAX_LINE_BYTES,
    check_readable,
    count_lines,
    line_offsets,
    lines_of,
    read_span,
    read_text,
)

LINES = [
    "first",
    "windows",
    "",
    "two\u2028separators\u0085 and\x0b\x0c\x1c more",
    "inner\rreturn\r",
    "größer ഊ \U0001f6b2",
    "no end",
]
TEXT = f"first\nwindows\r\n\n{LINES[3]}\ninner\rreturn\r\r\n{LINES[5]}\nno end"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_lines_end_at_line_feeds_alone(tmp_path, encoding):
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    (tmp_path / "a").write_bytes((mark + TEXT).encode(encoding))
    assert read_text(tmp_path / "a") == LINES
    assert count_lines(tmp_path / "a") == len(LINES)


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_chunks_by_offset_give_the_same_lines(tmp_path, every):
    (tmp_path / "a").write_bytes(("\ufeff" + TEXT).encode())
    count, offsets = line_offsets(tmp_path / "a", every)
    assert count == len(LINES)
    chunks = [list(read_span(tmp_path / "a", offset, every)) for offset in offsets]
    assert [line.decode() for chunk in chunks for line in chunk] == LINES
    assert all(len(chunk) == every for chunk in chunks[:-1])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"one\ntwo\n", (2, [0, 4])),
        (b"", (0, [])),
        (b"a" * (1 << 21) + b"\nb", (2, [0, 1 + (1 << 21)])),
    ],
)
def test_a_last_line_feed_ends_a_line_and_begins_none(tmp_path, content, expected):
    (tmp_path / "a").write_bytes(content)
    assert line_offsets(tmp_path / "a", 1) == expected


def test_pipes(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    assert read_text(f"/dev/fd/{reading}") == ["one", "two"]
    os.close(reading)
    # What only looks at a pipe that nobody writes to yet would wait, or break it.
    os.mkfifo(tmp_path / "pipe")
    check_readable(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\nna\xefve\n", r"bad:2 .*byte 3 .*0xef"),
        ("die Häuser\n".encode("utf-16-le"), r"bad: .*UTF-16 without a byte order mark"),
        ("die Häuser\n".encode("utf-16-be"), r"bad: .*UTF-16 without a byte order mark"),
        ("one\ntwo".encode("utf-16")[:-1], r"bad:2 .*UTF-16"),
    ],
)
def test_other_encodings_are_named(tmp_path, content, message):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_text(tmp_path / "bad")


def test_nul_bytes_do_not_make_utf16(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\0\0\0\0\0\0\0\nzero \0 byte\n")
    assert read_text(tmp_path / "a") == ["\0" * 9, "zero \0 byte"]


class Endless(io.RawIOBase):
    """A line without end; reading more than five times what is allowed fails."""

    def __init__(self, start):
        self._start, self._size = start, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        content, self._start = self._start or b"a\0" * (len(buffer) // 2), b""
        self._size += len(content)
        assert self._size < 5 * MAX_LINE_BYTES
        buffer[: len(content)] = content
        return len(content)


@pytest.mark.parametrize("start", [b"one\n", "one\n".encode("utf-16")])
def test_a_line_that_is_too_long_is_not_read_whole(start):
    with pytest.raises(UserError, match=r"long\.txt:2: .*less than 16,777,216 bytes"):
        list(lines_of(io.BufferedReader(Endless(start)), "long.txt"))


def test_a_line_that_is_too_long_has_no_offset(tmp_path):
    (tmp_path / "long").write_bytes(b"one\n" + b"a" * MAX_LINE_BYTES + b"\nthree\n")
    with pytest.raises(UserError, match=r"long:2: .*less than 16,777,216 bytes"):
        line_offsets(tmp_path / "long", 1)


@pytest.mark.parametrize("read", [read_text, count_lines, check_readable])
def test_a_file_that_cannot_be_read(tmp_path, read):
    with pytest.raises(UserError, match="none cannot be read: No such file"):
        read(tmp_path / "none")
    with pytest.raises(UserError, match="Is a directory"):
        read(tmp_path)
