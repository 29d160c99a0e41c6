import gzip
import io

import pytest
from refusals import refused

from t2t_keras.text.formats import read_text_file

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
