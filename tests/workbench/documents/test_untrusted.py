"""Files that attack their reader are refused, in little time and memory, and nothing is fetched."""

import contextlib
import io
import resource
import socket
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.text.files import MAX_LINE_BYTES
from t2t_keras.workbench.documents import EXTENSIONS, read_document
from t2t_keras.workbench.documents.document import (
    MAX_BYTES,
    MAX_LINES,
    MAX_TAGS,
    MAX_UNITS,
    Document,
    Unit,
    check_counts,
)

BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>'
FILE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>'
NETWORK = '<!DOCTYPE a [<!ENTITY % b SYSTEM "http://127.0.0.1:1/">%b;]>'
ROOTS = {".xml": "<a>{}</a>", ".xlf": '<xliff version="1.2">{}</xliff>', ".tmx": "<tmx>{}</tmx>"}


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """No network, and little time and memory."""

    def refuse(*arguments):
        raise AssertionError("something is fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.monotonic() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


@pytest.mark.parametrize("extension", ROOTS)
@pytest.mark.parametrize("attack", [BOMB, FILE, NETWORK])
def test_declared_entities_are_refused(written, extension, attack):
    content = '<?xml version="1.0"?>' + attack + ROOTS[extension].format("&b;")
    with refused("unsafe_xml"):
        read_document(written(f"a{extension}", content), "en", "de")


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        ("<a>\n  <1/></a>", "malformed_xml", ["a.xml:2: ", "column 4 "]),
        ('<!DOCTYPE a [<!ATTLIST a b CDATA "c">]><a/>', "unsafe_xml", ["'b'"]),
        ('<!DOCTYPE a [<!ATTLIST a b (c|d) "c">]><a/>', "unsafe_xml", ["'b'"]),
        (f'<a b:c="" xmlns:b="{"b" * 1001}"/>', "too_long", ["1,000"]),
        (
            f"<a>{''.join(f'<b{index}/>' for index in range(100_001))}</a>",
            "too_many_values",
            ["100,000"],
        ),
        (f"<a>{'<b/>' * (1 << 21)}</a>", "too_many_values", ["2,097,152", "2,097,154"]),
    ],
)
def test_xml_that_would_become_large_is_refused(written, content, code, named):
    with refused(code, *named):
        read_document(written("a.xml", content))


@pytest.mark.parametrize(
    "charset", "undefined punycode utf-7 rot13 idna raw-unicode-escape unicode-escape none".split()
)
def test_codecs_that_are_no_charsets_are_refused_or_utf_8(written, charset):
    with refused("unknown_encoding", charset):
        read_document(written("a.xml", f"<?xml version='1.0' encoding='{charset}'?><a>b</a>"))
    page = f"<meta charset={charset}>\u010d"
    assert read_document(written("a.html", page)).units[0].source == "\u010d"
    header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n'
    document = read_document(written("a.po", header + '\nmsgid "\u010d"\nmsgstr ""\n'))
    assert document.units[0].source == "\u010d"


@pytest.mark.parametrize("extension", ROOTS)
def test_deep_nesting_is_refused(written, extension):
    content = ROOTS[extension].format("<b>" * 100_000)
    with refused("too_many_values", "200"):
        read_document(written(f"a{extension}", content), "en", "de")


@pytest.mark.parametrize(("depth", "is_refused"), [(200, False), (201, True)])
def test_the_limit_of_nesting(written, depth, is_refused):
    path = written("a.xml", f"{'<b>' * depth}One{'</b>' * depth}")
    with refused("too_many_values") if is_refused else contextlib.nullcontext():
        assert read_document(path, "en", "de").units[0].source == "One"


def test_a_line_that_is_just_short_enough_is_read(written):
    path = written("a.txt", "a" * (MAX_LINE_BYTES - 1) + "\n")
    assert len(read_document(path).units) == 1
    path = written("a.docx", bytes(MAX_LINE_BYTES) + archive(**{DOCUMENT: PARAGRAPH}))
    assert len(read_document(path).units) == 1


@pytest.mark.parametrize("extension", sorted(set(EXTENSIONS) - {".docx"}))
def test_a_line_of_16_megabytes_is_refused(written, extension):
    with refused("too_long", ":2: ", "16,777,216"):
        read_document(written(f"a{extension}", "\n" + "a" * MAX_LINE_BYTES), "en", "de")


@pytest.mark.parametrize("extension", sorted(set(EXTENSIONS) - {".docx"}))
def test_the_line_of_what_is_no_text_is_named(written, extension):
    for mark in (b"", b"\xef\xbb\xbf"):
        with refused("not_utf8", f"a{extension}:3 "):
            read_document(written(f"a{extension}", mark + b"\n\na \xff\n"))


@pytest.mark.parametrize("extension", sorted(EXTENSIONS))
def test_other_encodings_and_no_text_at_all_are_refused_or_read(written, extension):
    for content in (b"\xff\xfea\x00", b"caf\xe9 \x80\x00", b"", b"\x00" * 1000, b"\xff\xfea"):
        try:
            document = read_document(written(f"a{extension}", content), "en", "de")
        except UserError:
            continue
        assert document.content() == content


@pytest.mark.parametrize("extension", sorted({*EXTENSIONS} - {".docx", ".htm", ".pot", ".xliff"}))
@pytest.mark.parametrize(
    "text",
    [
        *"<&[*`|%",
        "<a ",
        '<a "',
        "<!--",
        "![",
        "\n",
        "\r",
        " ",
        "\t\n",
        '"',
        "- ",
        "{\\",
        "1\n",
        "00:00:00,000 --> ",
        "<![CDATA[",
        "]]>",
        "a\n",
        "_a_",
        "\\",
    ],
)
def test_repeated_syntax_takes_linear_time(written, extension, text):
    content = (text * 300 + "\n") * (60_000 // (300 * len(text)))
    with contextlib.suppress(UserError):
        document = read_document(written(f"a{extension}", content), "en", "de")
        assert document.content() == content.encode()


def archive(last=(), **files):
    """Returns an archive of files; the directory says of the last one what `last` has."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in files.items():
            new.writestr(name, content)
        for attribute, value in last:
            setattr(new.infolist()[-1], attribute, value)
    return written.getvalue()


def _changed(content, place):
    """Returns a file with another byte at a place."""
    return content[:place] + b"\xff" + content[place + 1 :]


DOCUMENT = "word/document.xml"
SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PARAGRAPH = f'<w:p xmlns:w="{SPACE}"><w:r><w:t>a</w:t></w:r></w:p>'
# A format that each of many tabs has.
RUN = f"<w:r><w:rPr>{'<w:b/>' * 3000}</w:rPr><w:t>a</w:t>{'<w:tab/>' * 1000}</w:r>"


def word(body):
    return archive(**{DOCUMENT: f'<w:document xmlns:w="{SPACE}">{body}</w:document>'})


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        (b"", "not_a_word_document", []),
        (archive(**{DOCUMENT: b"<a/>"})[:-30], "not_a_word_document", []),
        *(
            (
                archive([damage], **{DOCUMENT: PARAGRAPH, "picture.png": b"c"}),
                "not_a_word_document",
                [],
            )
            for damage in (
                ("file_size", 0),
                ("flag_bits", 1),
                ("compress_type", 99),
                ("compress_type", zipfile.ZIP_LZMA),
                ("compress_type", zipfile.ZIP_BZIP2),
                ("header_offset", 1),
                ("filename", "other.png"),
            )
        ),
        (_changed(archive(**{DOCUMENT: PARAGRAPH}), 30 + len(DOCUMENT)), "not_a_word_document", []),
        (archive(a=b"b"), "not_a_word_document", []),
        (word(f'<w:p xmlns:a="{"a" * 20_000}"/>'), "file_too_large", ["10,000"]),
        (word("<w:p/>" * (1 << 21)), "too_many_values", ["2,097,152"]),
        (word(f"<w:p>{RUN}</w:p>" * 100), "file_too_large", ["33,554,432"]),
        (archive(**{DOCUMENT: b"<a/>", "../b": b"c"}), "unsafe_archive", ["'../b'"]),
        (archive(**{DOCUMENT: b"<a/>", "/b": b"c"}), "unsafe_archive", ["'/b'"]),
        (archive(**{DOCUMENT: b"<a/>", "a\\..\\b": b"c"}), "unsafe_archive", ["'a"]),
        (archive(**{DOCUMENT: b"<a/>", "\\b": b"c"}), "unsafe_archive", []),
        (
            archive(**{DOCUMENT: b"<a/>", "b": b"c", "z": b"c"}).replace(b"z", b"b"),
            "given_twice",
            [],
        ),
        (archive(**{DOCUMENT: f"{BOMB}<a>&c;</a>"}), "unsafe_xml", [DOCUMENT]),
        (archive(**{DOCUMENT: f"{FILE}<a>&b;</a>"}), "unsafe_xml", [DOCUMENT]),
        (archive(**{DOCUMENT: b"<a>" * 100_000}), "malformed_xml", [DOCUMENT]),
        (
            archive(
                **{DOCUMENT: f"<?xml version='1.0' encoding='utf-16'?>{PARAGRAPH}".encode("utf-16")}
            ),
            "malformed_xml",
            [DOCUMENT],
        ),
    ],
)
def test_bad_archives_are_refused(written, content, code, named):
    with refused(code, *named):
        read_document(written("a.docx", content))


@pytest.mark.parametrize(
    ("extension", "content"),
    [
        (".docx", word(f"<w:p>{RUN}</w:p>")),
        (".docx", word("<w:p/>" * 30_000)),
        (".xlf", f'<trans-unit xmlns="{"a" * 900}">{"<b/>" * 15_000}</trans-unit>'),
    ],
)
def test_little_does_not_become_much(written, monkeypatch, extension, content):
    monkeypatch.setattr(
        f"{Document.__module__}.MAX_BYTES", 1 << 20
    )  # So much is set aside at once.
    path = written(f"a{extension}", content)
    with contextlib.suppress(UserError):
        read_document(written(f"b{extension}", content[:1]))  # It imports packages.
    documents = []  # Kept until it is measured.
    tracemalloc.start()
    before = _resident()
    with contextlib.suppress(UserError):
        documents.append(read_document(path, "en", "de"))
    actual = max(tracemalloc.get_traced_memory()[1], _resident() - before)
    tracemalloc.stop()
    assert actual < 18_000_000


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


LIMITS = {
    "lines": lambda more: check_counts(Path("a"), "\n" * (MAX_LINES + more)),
    "tags": lambda more: check_counts(Path("a"), b"<" * (MAX_TAGS + more)),
    "texts": lambda more: Document(Path("a"), ("", "")).add_units([Unit("")] * (MAX_UNITS + more)),
}
FILES = {
    "a.xml": lambda more: f'<a xmlns:b="{"b" * (1000 + more)}">c</a>',
    "text.docx": lambda more: archive([("file_size", (1 << 25) + more)], **{DOCUMENT: PARAGRAPH}),
    "files.docx": lambda more: archive(
        **{DOCUMENT: PARAGRAPH}, **{str(number): b"" for number in range(9_999 + more)}
    ),
    "size.docx": lambda more: archive(
        [("file_size", (1 << 28) - len(PARAGRAPH) + more)], **{DOCUMENT: PARAGRAPH, "b": b""}
    ),
}


MOST = {
    "lines": ("too_many_values", "1,048,576"),
    "tags": ("too_many_values", "2,097,152"),
    "texts": ("too_many_values", "524,288"),
    "a.xml": ("too_long", "1,000"),
    "text.docx": ("file_too_large", "33,554,432"),
    "files.docx": ("file_too_large", "10,001"),
    "size.docx": ("file_too_large", "268,435,456"),
    "bytes": ("file_too_large", "10"),
}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("what", MOST)
def test_what_is_read_has_limits(written, monkeypatch, what, more):
    assert MAX_BYTES == 1 << 26
    with refused(*MOST[what]) if more else contextlib.nullcontext():
        if what in LIMITS:
            LIMITS[what](more)
        elif what in FILES:
            assert len(read_document(written(what, FILES[what](more))).units) == 1
        else:
            monkeypatch.setattr(f"{Document.__module__}.MAX_BYTES", 10)
            read_document(written("a.txt", "a" * (10 + more)))


def test_files_that_are_not_there_or_of_no_known_format(tmp_path):
    with refused("not_read", tmp_path / "a.txt"):
        read_document(tmp_path / "a.txt")
    with refused("unknown_extension", "'.xlif'", "'.xliff'"):
        read_document(tmp_path / "a.xlif")
