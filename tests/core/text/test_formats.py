"""Formats of parallel text."""

import gzip
import io
import tracemalloc

import pytest
from refusals import refused

from t2t_keras.text.formats import read_text_file, translation_units

# What WMT's files have shown: no XML, tags of any case, attributes of any kind, bare & and <.
SGML = """\
<!DOCTYPE refset SYSTEM "ftp://jaguar.ncsl.nist.gov/mt/resources/mteval-xml-v1.3.dtd">
<refset trglang="de" setid="newstest2014" srclang="any">
<DOC sysid="ref" docid="abc.123" genre="news" origlang="de">
<hl><seg id="1">Plain &amp; simple.</seg></hl>
<p>
<SEG ID=2> upper  case, no quotes </SEG><seg id='3'>second on a line</seg>
<seg
  docid="x" id="4">over
several\r
  lines</seg >
<seg>no id: &quot;a&quot; &apos;b&apos; &#228;&#XE4; &uuml; &unknown; AT&T 3 < 4 &copy it</seg>
<seg id="6"></seg><seg id="7"/>
<seg id="7" / >
<segment>not this</segment> nor this
<seg id="8"> \u00a0a\u2028separator, a no-break\u00a0space\u00a0 </seg>
</p>
</DOC>
<doc docid="two"><seg id="1">The end.</seg></doc></refset>"""
EXPECTED = [
    "Plain & simple.",
    "upper case, no quotes",
    "second on a line",
    "over several lines",
    "no id: \"a\" 'b' ää ü &unknown; AT&T 3 < 4 &copy it",
    "",
    "",
    "",
    "\u00a0a\u2028separator, a no-break\u00a0space\u00a0",
    "The end.",
]


def read(content, name):
    rows = list(read_text_file(io.BytesIO(content), name))
    return [[text.decode("utf-8", "surrogateescape") for text in row] for row in rows]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.sgm", SGML.encode(), EXPECTED),
        ("a.sgm", SGML.encode("utf-16"), EXPECTED),
        ("a.sgm", b"<seg>na\xefve &amp;</seg>", ["na\udcefve &"]),
        ("a.sgm", b"<seg>a <seg b</seg>" + b" <seg" * 50_000 + b"<" + b" " * 50_000, ["a <seg b"]),
        ("a.en", b"\xef\xbb\xbfone\r\ntwo", ["\ufeffone\r", "two"]),
        ("a.en", "one\ntwo\n".encode("utf-16"), ["one", "two"]),
    ],
    ids=["sgm", "sgm in utf-16", "invalid", "bare", "plain", "plain in utf-16"],
)
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_text_of_one_language(name, content, expected, packing):
    content = gzip.compress(content) if packing else content
    assert read(content, name + packing) == [[text] for text in expected]


def test_lines_without_two_columns_are_empty_and_counted(capsys):
    columns = [["", ""], ["one", "eins"], ["", ""]]
    assert read(b"no tab\none\teins\r\na\tb\tc\n", "a.tsv") == columns
    assert "a.tsv: 2 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "code", "names"),
    [
        ("a.sgm", b"<doc>\n<seg id=1>one\n</doc>\n", "malformed_sgml", ["a.sgm:2: "]),
        ("a.sgm", b"<seg>one\n<seg>two</seg>", "malformed_sgml", ["a.sgm:1: ", "a.sgm:2"]),
        ("a.sgm", b"<doc>\none</seg>\n", "malformed_sgml", ["a.sgm:2: "]),
        ("a.sgm", b"one\ntwo\n", "malformed_sgml", ["a.sgm ", "<seg>"]),
        ("a.sgm", b"\n" * 1000, "file_too_large", ["a.sgm: ", " 999 "]),
        ("a.tsv", b"a\tb\tc\nd\n", "bad_line", ["a.tsv: ", "line 1", " 3"]),
        ("a.tsv", b"", "bad_line", ["a.tsv: "]),
    ],
)
def test_faults_name_the_line(monkeypatch, name, content, code, names):
    monkeypatch.setattr("t2t_keras.text.formats.MAX_SGML_BYTES", 999)
    with refused(code, *names):
        read(content, name)
    assert read(b"<seg>a</seg>".ljust(999), "a.sgm") == [["a"]]


TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plaintext"/>
<body>
<tu tuid="1"><prop type="x">no text</prop>
  <tuv xml:lang="en-GB"><seg>Colour &amp; size</seg></tuv>
  <tuv xml:lang="DE"><seg>Farbe und Größe</seg></tuv></tu>
<tu><tuv lang="de_AT"><seg>Ein
      Satz</seg></tuv><tuv lang="en"><seg>One <bpt>{{<hi>b</hi>c</bpt>bold<ept>}}</ept>
  <hi type="b">word<ph>%s</ph></hi> here</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Une phrase</seg></tuv><tuv xml:lang="en"><seg>only half</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>color</seg></tuv><tuv xml:lang="en"><seg>colour</seg></tuv>
    <tuv xml:lang="de"><seg>Farbe</seg></tuv></tu>
</body></tmx>
"""
EXPECTED_UNITS = [
    ("Colour & size", "Farbe und Größe"),
    ("One bold word here", "Ein Satz"),
    ("only half", ""),
    ("colour", "Farbe"),
]
UNIT = '<tu><tuv lang="en"><seg>{}</seg></tuv><tuv lang="de"><seg>b</seg></tuv></tu>\n'


def read_units(content, languages=("en", "de")):
    units = translation_units(io.BytesIO(content), "some.tmx", languages)
    return [tuple(side.decode() for side in pair) for pair in units]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_units(encoding):
    content = TMX.format(encoding=encoding).encode(encoding)
    assert read_units(content) == EXPECTED_UNITS
    assert read_units(content, ("de", "en")) == [pair[::-1] for pair in EXPECTED_UNITS]
    assert [pair[0] for pair in read_units(content, ("en-gb", "de"))] == [
        "Colour & size",
        "",
        "",
        "",
    ]


def test_of_several_texts_in_a_language_the_first_counts():
    texts = {"en-US": "color", "de": "Farbe", "en_GB": "colour", "DE": "Kolorit"}
    unit = "".join(
        f"<tuv xml:lang='{code}'><seg>{text}</seg></tuv>" for code, text in texts.items()
    )
    content = f"<tmx><body><tu>{unit}</tu></body></tmx>".encode()
    assert read_units(content) == [("color", "Farbe")]
    assert read_units(content, ("en-gb", "de")) == [("colour", "Farbe")]
    # A language whose code begins with the same letters is another one.
    other = content.replace(b"en-US", b"enm").replace(b"en_GB", b"en-GB")
    assert read_units(other) == [("colour", "Farbe")]
    # XML's own attribute counts, as of TMX 1.4, before that of TMX 1.1.
    assert (
        read_units(content.replace(b"xml:lang='de'", b"lang='fr' xml:lang='de'"))[0][1] == "Farbe"
    )


def test_deeply_nested_tags():
    text = "<hi>" * 100_000 + "a" + "</hi>" * 100_000
    assert read_units(f"<tmx><body>{UNIT.format(text)}</body></tmx>".encode()) == [("a", "b")]


BOMB = b'<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx><body>&b;</body></tmx>'
CUT = TMX.format(encoding="utf-8").partition('<tu><tuv xml:lang="fr')[0].encode()


@pytest.mark.parametrize(
    ("content", "languages", "code", "names"),
    [
        (CUT, ("en", "de"), "malformed_xml", ["some.tmx:11: ", " 1 "]),
        (
            TMX.format(encoding="utf-8").encode(),
            ("es", "de"),
            "missing_language",
            [" es ", " de, de-at, en"],
        ),
        (BOMB, ("en", "de"), "unsafe_xml", ["some.tmx "]),
        (
            b'<?xml version="1.0" encoding="GB2312"?><tmx/>',
            ("en", "de"),
            "unknown_encoding",
            ["some.tmx "],
        ),
        (
            b'<?xml version="1.0" encoding="foo"?><tmx/>',
            ("en", "de"),
            "unknown_encoding",
            ["some.tmx "],
        ),
        (
            b"<tmx><body><tu>" + b"<!-- a -->" * 20_000,
            ("en", "de"),
            "too_long",
            ["some.tmx: ", "99,999"],
        ),
    ],
    ids=["cut", "languages", "bomb", "multi-byte", "unknown encoding", "large"],
)
def test_faults(content, languages, code, names, monkeypatch):
    monkeypatch.setattr("t2t_keras.text.formats.MAX_LINE_BYTES", 99_999)
    with refused(code, *names):
        read_units(content, languages)


def test_memory_does_not_grow_with_the_file(monkeypatch):
    monkeypatch.setattr("t2t_keras.text.formats.MAX_LINE_BYTES", 200_000)  # Of a unit, not of all.
    stream = io.BytesIO(b"<tmx><body>%b</body></tmx>" % (UNIT.format("a").encode() * 6000))
    tracemalloc.start()
    assert sum(1 for _ in translation_units(stream, "some.tmx", ("en", "de"))) == 6000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # All units kept would be megabytes.
