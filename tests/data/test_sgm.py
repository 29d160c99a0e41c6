import pytest

from t2t_keras.data.sgm import segments
from t2t_keras.errors import UserError

# What WMT's files have shown: no XML, tags of any case, attributes of any kind, bare & and <.
QUIRKS = """\
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
<seg>no id: &quot;a&quot; &apos;b&apos; &#228;&#xE4; &uuml; &unknown; AT&T 3 < 4 &copy it</seg>
<seg id="6"></seg><seg id="7"/>
<segment>not this</segment> nor this
<seg id="8">a\u2028separator, a no-break\u00a0space</seg>
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
    "a\u2028separator, a no-break\u00a0space",
    "The end.",
]


def read(text):
    return list(segments(text.encode().splitlines(keepends=True), "some.sgm"))


def test_quirks():
    assert [segment.decode() for segment in read(QUIRKS)] == EXPECTED


def test_what_is_no_utf8_stays_to_be_counted():
    assert list(segments([b"<seg>na\xefve &amp;</seg>"], "some.sgm")) == [b"na\xefve &"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<doc>\n<seg id=1>one\n</doc>\n", r"some\.sgm:2: the segment that begins here has no end"),
        ("<seg>one\n<seg>two</seg>", r"some\.sgm:1: .* another begins in line 2"),
        ("<doc>\none</seg>\n", r"some\.sgm:2: a segment ends here, but none began"),
        ("one\ntwo\n", r"some\.sgm has no <seg>"),
        ("", r"some\.sgm has no <seg>"),
    ],
)
def test_faults_name_the_line(text, message):
    with pytest.raises(UserError, match=message):
        read(text)
