import io
import tracemalloc

import pytest
from refusals import refused

from t2t_keras.text.formats import translation_units

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
EXPECTED = [
    ("Colour & size", "Farbe und Größe"),
    ("One bold word here", "Ein Satz"),
    ("only half", ""),
    ("colour", "Farbe"),
]
UNIT = '<tu><tuv lang="en"><seg>{}</seg></tuv><tuv lang="de"><seg>b</seg></tuv></tu>\n'


def read(content, languages=("en", "de")):
    units = translation_units(io.BytesIO(content), "some.tmx", languages)
    return [tuple(side.decode() for side in pair) for pair in units]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_units(encoding):
    content = TMX.format(encoding=encoding).encode(encoding)
    assert read(content) == EXPECTED
    assert read(content, ("de", "en")) == [pair[::-1] for pair in EXPECTED]
    assert [pair[0] for pair in read(content, ("en-gb", "de"))] == ["Colour & size", "", "", ""]


def test_of_several_texts_in_a_language_the_first_counts():
    texts = {"en-US": "color", "de": "Farbe", "en_GB": "colour", "DE": "Kolorit"}
    unit = "".join(
        f"<tuv xml:lang='{code}'><seg>{text}</seg></tuv>" for code, text in texts.items()
    )
    content = f"<tmx><body><tu>{unit}</tu></body></tmx>".encode()
    assert read(content) == [("color", "Farbe")]
    assert read(content, ("en-gb", "de")) == [("colour", "Farbe")]
    # A language whose code begins with the same letters is another one.
    other = content.replace(b"en-US", b"enm").replace(b"en_GB", b"en-GB")
    assert read(other) == [("colour", "Farbe")]
    # XML's own attribute counts, as of TMX 1.4, before that of TMX 1.1.
    assert read(content.replace(b"xml:lang='de'", b"lang='fr' xml:lang='de'"))[0][1] == "Farbe"


def test_deeply_nested_tags():
    text = "<hi>" * 100_000 + "a" + "</hi>" * 100_000
    assert read(f"<tmx><body>{UNIT.format(text)}</body></tmx>".encode()) == [("a", "b")]


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
        read(content, languages)


def test_memory_does_not_grow_with_the_file(monkeypatch):
    monkeypatch.setattr("t2t_keras.text.formats.MAX_LINE_BYTES", 200_000)  # Of a unit, not of all.
    stream = io.BytesIO(b"<tmx><body>%b</body></tmx>" % (UNIT.format("a").encode() * 6000))
    tracemalloc.start()
    assert sum(1 for _ in translation_units(stream, "some.tmx", ("en", "de"))) == 6000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # All units kept would be megabytes.
