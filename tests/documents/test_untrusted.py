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

from t2t_keras.documents import EXTENSIONS, read_document, reading
from t2t_keras.documents.document import (
    MAX_LINES,
    MAX_TAGS,
    MAX_UNITS,
    Document,
    Unit,
    check_counts,
)
from t2t_keras.errors import UserError
from t2t_keras.text.files import MAX_LINE_BYTES

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
    with pytest.raises(UserError, match="declares the entity"):
        read_document(written(f"a{extension}", content), "en", "de")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<a>\n  <1/></a>", "a.xml:2: not well-formed XML at column 4 "),
        ('<!DOCTYPE a [<!ATTLIST a b CDATA "c">]><a/>', "a default of the attribute 'b'"),
        ('<!DOCTYPE a [<!ATTLIST a b (c|d) "c">]><a/>', "a default of the attribute 'b'"),
        (f'<a b:c="" xmlns:b="{"b" * 1001}"/>', "a namespace of over 1,000 characters"),
        (f"<a>{''.join(f'<b{each}/>' for each in range(100_001))}</a>", "of over 100,000 kinds"),
        (f"<a>{'<b/>' * (1 << 21)}</a>", "at most 2,097,152 tags, got 2,097,154. Split it"),
    ],
)
def test_xml_that_would_become_large_is_refused(written, content, said):
    with pytest.raises(UserError, match=said):
        read_document(written("a.xml", content))


@pytest.mark.parametrize(
    "charset", "undefined punycode utf-7 rot13 idna raw-unicode-escape unicode-escape none".split()
)
def test_codecs_that_are_no_charsets_are_refused_or_utf_8(written, charset):
    with pytest.raises(UserError, match=f"the encoding {charset} is unknown"):
        read_document(written("a.xml", f"<?xml version='1.0' encoding='{charset}'?><a>b</a>"))
    page = f"<meta charset={charset}>\u010d"
    assert read_document(written("a.html", page)).units[0].source == "\u010d"
    header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n'
    document = read_document(written("a.po", header + '\nmsgid "\u010d"\nmsgstr ""\n'))
    assert document.units[0].source == "\u010d"


@pytest.mark.parametrize("extension", ROOTS)
def test_deep_nesting_is_refused(written, extension):
    content = ROOTS[extension].format("<b>" * 100_000)
    with pytest.raises(UserError, match="elements in over 200 others"):
        read_document(written(f"a{extension}", content), "en", "de")


@pytest.mark.parametrize(("depth", "is_refused"), [(200, False), (201, True)])
def test_the_limit_of_nesting(written, depth, is_refused):
    path = written("a.xml", f"{'<b>' * depth}One{'</b>' * depth}")
    with pytest.raises(UserError) if is_refused else contextlib.nullcontext():
        assert read_document(path, "en", "de").units[0].source == "One"


def test_a_line_that_is_just_short_enough_is_read(written):
    path = written("a.txt", "a" * (MAX_LINE_BYTES - 1) + "\n")
    assert len(read_document(path).units) == 1
    path = written("a.docx", bytes(MAX_LINE_BYTES) + archive(**{DOCUMENT: PARAGRAPH}))
    assert len(read_document(path).units) == 1


@pytest.mark.parametrize("extension", sorted(set(EXTENSIONS) - {".docx"}))
def test_a_line_of_16_megabytes_is_refused(written, extension):
    with pytest.raises(UserError, match=":2: expected lines of less than 16,777,216 bytes"):
        read_document(written(f"a{extension}", "\n" + "a" * MAX_LINE_BYTES), "en", "de")


@pytest.mark.parametrize("extension", sorted(set(EXTENSIONS) - {".docx"}))
def test_the_line_of_what_is_no_text_is_named(written, extension):
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(UserError, match=rf"a\{extension}:3 is not valid UTF-8"):
            read_document(written(f"a{extension}", mark + b"\n\na \xff\n"))


@pytest.mark.parametrize("extension", sorted(EXTENSIONS))
def test_other_encodings_and_no_text_at_all_are_refused_or_read(written, extension):
    for content in (b"\xff\xfea\x00", b"caf\xe9 \x80\x00", b"", b"\x00" * 1000, b"\xff\xfea"):
        try:
            document = read_document(written(f"a{extension}", content), "en", "de")
        except UserError:
            continue
        assert document.content() == content


@pytest.mark.parametrize("extension", sorted(set(EXTENSIONS) - {".docx"}))
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
    ("content", "said"),
    [
        (b"", "no Word document"),
        (archive(**{DOCUMENT: b"<a/>"})[:-30], "no Word document"),
        *(
            (archive([damage], **{DOCUMENT: PARAGRAPH, "picture.png": b"c"}), "no Word document")
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
        (_changed(archive(**{DOCUMENT: PARAGRAPH}), 30 + len(DOCUMENT)), "no Word document"),
        (archive(a=b"b"), "another kind of archive"),
        (word(f'<w:p xmlns:a="{"a" * 20_000}"/>'), "expected at most 10,000 bytes of namespaces"),
        (word("<w:p/>" * (1 << 21)), "expected at most 2,097,152 tags"),
        (word(f"<w:p>{RUN}</w:p>" * 100), "expected at most 33,554,432 bytes of formats"),
        (archive(**{DOCUMENT: b"<a/>", "../b": b"c"}), "is named '../b'"),
        (archive(**{DOCUMENT: b"<a/>", "/b": b"c"}), "is named '/b'"),
        (archive(**{DOCUMENT: b"<a/>", "a\\..\\b": b"c"}), "is named 'a"),
        (archive(**{DOCUMENT: b"<a/>", "\\b": b"c"}), "is named '"),
        (archive(**{DOCUMENT: b"<a/>", "b": b"c", "z": b"c"}).replace(b"z", b"b"), "comes twice"),
        (archive(**{DOCUMENT: f"{BOMB}<a>&c;</a>"}), "declares a document type"),
        (archive(**{DOCUMENT: f"{FILE}<a>&b;</a>"}), "declares a document type"),
        (archive(**{DOCUMENT: b"<a>" * 100_000}), "not well-formed"),
        (
            archive(
                **{DOCUMENT: f"<?xml version='1.0' encoding='utf-16'?>{PARAGRAPH}".encode("utf-16")}
            ),
            "not well-formed",
        ),
    ],
)
def test_bad_archives_are_refused(written, content, said):
    with pytest.raises(UserError, match=said):
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
    monkeypatch.setattr(reading, "MAX_BYTES", 1 << 20)  # So much is set aside at once.
    path = written(f"a{extension}", content)
    with contextlib.suppress(UserError):
        read_document(written(f"b{extension}", content[:1]))  # It imports packages.
    documents = []  # Kept until it is measured.
    tracemalloc.start()
    before = _resident()
    with contextlib.suppress(UserError):
        documents.append(read_document(path, "en", "de"))
    found = max(tracemalloc.get_traced_memory()[1], _resident() - before)
    tracemalloc.stop()
    assert found < 18_000_000


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
    "lines": "1,048,576 lines",
    "tags": "2,097,152 tags",
    "texts": "524,288 texts",
    "a.xml": "over 1,000 characters",
    "text.docx": "33,554,432 bytes of text",
    "files.docx": "10,000 files",
    "size.docx": "files of 268,435,456 bytes",
    "bytes": "10 bytes",
}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("what", MOST)
def test_what_is_read_has_limits(written, monkeypatch, what, more):
    assert reading.MAX_BYTES == 1 << 26
    with pytest.raises(UserError, match=MOST[what]) if more else contextlib.nullcontext():
        if what in LIMITS:
            LIMITS[what](more)
        elif what in FILES:
            assert len(read_document(written(what, FILES[what](more))).units) == 1
        else:
            monkeypatch.setattr(reading, "MAX_BYTES", 10)
            read_document(written("a.txt", "a" * (10 + more)))


def test_files_that_are_not_there_or_of_no_known_format(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_document(tmp_path / "a.txt")
    with pytest.raises(UserError, match=r"got '.xlif'. Did you mean '.xliff'"):
        read_document(tmp_path / "a.xlif")
