import gzip
import io
import os
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.text.files import (
    MAX_LINE_BYTES,
    check_readable,
    count_lines,
    has_letters,
    is_blank,
    line_name,
    line_offsets,
    lines_of,
    read_span,
    read_text,
    split_lines,
    trimmed,
)

LINES = [
    "first",
    "windows",
    "",
    "\ufefftwo\u2028separators\u0085 and\x0b\x0c\x1c more",
    "inner\rreturn\r",
    "größer ഊ \U0001f6b2, zero \0 byte",
    "no end",
]
TEXT = f"first\nwindows\r\n\n{LINES[3]}\ninner\rreturn\r\r\n{LINES[5]}\nno end"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_lines_end_at_line_feeds_alone(tmp_path, encoding):
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    (tmp_path / "a").write_bytes((mark + TEXT).encode(encoding))
    assert read_text(tmp_path / "a") == LINES
    assert count_lines(tmp_path / "a") == len(LINES)


@pytest.mark.parametrize("name", ["references.gz", "references"])
def test_gzip_is_unpacked_whatever_its_name(tmp_path, name):
    packed = gzip.compress(TEXT.encode())
    (tmp_path / name).write_bytes(packed)
    assert read_text(tmp_path / name) == LINES
    assert count_lines(tmp_path / name) == len(LINES)
    # Positions are those in the file.
    assert line_offsets(tmp_path / name, 1)[0] == len([*io.BytesIO(packed)])
    for damaged in (packed[:-9], packed[:30] + b"xxxx" + packed[34:], packed[:5]):
        (tmp_path / name).write_bytes(damaged)
        with refused("damaged_gzip", name):
            read_text(tmp_path / name)


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\ufeff" + TEXT, LINES),
        # A last line feed ends a line and begins none.
        ("one\ntwo\n", ["one", "two"]),
        ("", []),
        ("a" * (1 << 21) + "\nb", ["a" * (1 << 21), "b"]),
    ],
    ids=["all", "end", "empty", "long"],
)
def test_chunks_by_offset_give_the_same_lines(tmp_path, text, lines, every):
    (tmp_path / "a").write_bytes(text.encode())
    count, offsets = line_offsets(tmp_path / "a", every)
    assert count == len(lines)
    chunks = [list(read_span(tmp_path / "a", offset, every)) for offset in offsets]
    assert [line.decode() for chunk in chunks for line in chunk] == lines
    assert all(len(chunk) == every for chunk in chunks[:-1])


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
    ("content", "names"),
    [
        (b"fine\nna\xefve\n", ["bad:2 ", " 3 ", "0xef"]),
        ("die Häuser\n".encode("utf-16-le"), ["bad:", "iconv -f UTF-16LE -t UTF-8"]),
        ("die Häuser\n".encode("utf-16-be"), ["bad:", "UTF-16BE"]),
        ("one\ntwo".encode("utf-16")[:-1], ["bad:2 ", "UTF-16"]),
    ],
)
def test_other_encodings_are_named(tmp_path, content, names):
    (tmp_path / "bad").write_bytes(content)
    with refused("not_utf8", *names):
        read_text(tmp_path / "bad")


def test_eight_bytes_tell_that_they_are_utf16(tmp_path):
    (tmp_path / "bad").write_bytes("ab\n".encode("utf-16-le"))
    assert count_lines(tmp_path / "bad") == 2
    (tmp_path / "bad").write_bytes("abc\n".encode("utf-16-le"))
    with refused("not_utf8", "UTF-16"):
        count_lines(tmp_path / "bad")


def test_nul_bytes_do_not_make_utf16(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\0\0\0\0\0\0\0\n")
    assert read_text(tmp_path / "a") == ["\0" * 9]


def test_the_longest_line(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"one\n" + bytes(MAX_LINE_BYTES - 2) + b"\ntwo\n")
    assert count_lines(path) == 3
    assert line_offsets(path, 1) == (3, [0, 4, 4 + MAX_LINE_BYTES - 1])
    path.write_bytes(b"one\n" + bytes(MAX_LINE_BYTES - 1) + b"\n")
    for read in (count_lines, lambda path: line_offsets(path, 1)):
        with refused("too_long", "long:2: "):
            read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_that_is_too_long_is_not_read_whole(tmp_path, encoding):
    path, expected = tmp_path / "long", ("too_long", "long:2: ", " 16,777,216 ")
    path.write_text("one\n", encoding)
    os.truncate(path, 10 * MAX_LINE_BYTES)
    with path.open("rb") as file:
        with refused(*expected):
            list(lines_of(file, path))
        assert file.tell() < 5 * MAX_LINE_BYTES
    with refused(*expected):
        line_offsets(path, 1)


@pytest.mark.parametrize("read", [read_text, count_lines, check_readable])
def test_a_file_that_cannot_be_read(tmp_path, read):
    with refused("not_read", tmp_path / "none"):
        read(tmp_path / "none")
    with refused("not_read", tmp_path):
        read(tmp_path)


def test_lines_are_named_with_their_folder():
    names = [line_name(Path(path), 3) for path in ("/a/news/train.en", "train.en")]
    assert names == ["news/train.en:3", "train.en:3"]


def test_lines_of_a_text():
    assert split_lines(TEXT) == LINES
    assert split_lines("one\n\n") == ["one", ""]
    assert split_lines("") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\u00a0\u3000",
        "\u200b",
        "\ufeff",
        "\u200d",
        "\u2060 \u00ad",
        "\u2800",
        "\u3164",
        "\x1b",
    ],
)
def test_what_shows_nothing_is_blank(text):
    assert is_blank(text)
    assert not is_blank(f"{text}.")


def test_what_shows_something_is_not_blank():
    # A sign that stands for a placeholder, one that is written with digits, and an accent.
    assert not any(map(is_blank, ["\U0010ff00", "\u0600", "\u0301"]))
    assert [has_letters(text) for text in ("42", "\u2014", "_", "4b", "\u4f60")] == [0, 0, 0, 1, 1]


def test_byte_order_marks_and_space_around_a_text_are_left_out():
    assert trimmed("\ufeff \u200bred\u00a0dog\u200f\u2060\n") == "red\u00a0dog\u200f"


def test_a_long_gap_in_a_text_is_read_once():
    # Tried from each of its spaces, it would take hours.
    text = "a" + " " * 1_000_000 + "b"
    assert trimmed(f" {text} ") == text
