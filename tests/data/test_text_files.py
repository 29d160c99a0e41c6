import os

import pytest

from t2t_keras.data.text_files import check_readable, line_offsets, read_lines, read_text
from t2t_keras.errors import UserError

CONTENT = (
    "\ufefffirst\n"
    "windows\r\n"
    "\n"
    "two\u2028separators\u0085 and\x0b\x0c\x1c more\n"
    "inner\rreturn\r\r\n"
    "größer\n"
    "no end"
).encode()
LINES = [
    "first",
    "windows",
    "",
    "two\u2028separators\u0085 and\x0b\x0c\x1c more",
    "inner\rreturn\r",
    "größer",
    "no end",
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(CONTENT)
    return path


def test_lines_end_at_newlines_alone(path):
    assert read_text(path) == LINES


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_chunks_by_offset_give_the_same_lines(path, every):
    count, offsets = line_offsets(path, every)
    assert count == len(LINES)
    chunks = [list(read_lines(path, offset, every)) for offset in offsets]
    assert [line.decode() for chunk in chunks for line in chunk] == LINES
    assert all(len(chunk) == every for chunk in chunks[:-1])


def test_what_cannot_seek():
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    assert read_text(f"/dev/fd/{reading}") == ["one", "two"]
    os.close(reading)


def test_a_pipe_keeps_its_reader(tmp_path):
    """What only looks at a pipe that nobody writes to yet would wait, or break it."""
    os.mkfifo(tmp_path / "pipe")
    check_readable(tmp_path / "pipe")
    with pytest.raises(UserError, match="none cannot be read: No such file"):
        check_readable(tmp_path / "none")


def test_a_last_newline_ends_a_line_and_begins_none(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"")
    assert line_offsets(tmp_path / "a", 1) == (2, [0, 4])
    assert line_offsets(tmp_path / "b", 1) == (0, [])


def test_invalid_utf8_is_named(tmp_path):
    (tmp_path / "bad").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"bad:2 is not UTF-8 \(byte 3 of the line is 0xef\)"):
        read_text(tmp_path / "bad")


@pytest.mark.parametrize("read", [read_text, lambda path: line_offsets(path, 1)])
def test_a_file_that_cannot_be_read(tmp_path, read):
    with pytest.raises(UserError, match="none cannot be read: No such file"):
        read(tmp_path / "none")
