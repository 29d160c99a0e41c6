import io
import tracemalloc

import pytest

from t2t_keras.data.tmx import translation_units
from t2t_keras.errors import UserError

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plaintext"/>
<body>
<tu tuid="1"><prop type="x">no text</prop>
  <tuv xml:lang="en-GB"><seg>Colour &amp; size</seg></tuv>
  <tuv xml:lang="DE"><seg>Farbe und Größe</seg></tuv></tu>
<tu><tuv lang="de_AT"><seg>Ein
      Satz</seg></tuv><tuv lang="en"><seg>One <bpt>{{\\b <sub>code</sub></bpt>bold<ept>}}</ept>
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


def read(content, languages=("en", "de")):
    units = translation_units(io.BytesIO(content), "some.tmx", languages)
    return [tuple(side.decode() for side in pair) for pair in units]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_units(encoding):
    content = TMX.format(encoding=encoding).encode(encoding)
    assert read(content) == EXPECTED
    assert read(content, ("de", "en")) == [pair[::-1] for pair in EXPECTED]


def test_a_region_that_is_asked_for():
    content = TMX.format(encoding="utf-8").encode()
    assert [pair[0] for pair in read(content, ("en-gb", "de"))] == ["Colour & size", "", "", ""]


def test_faults_name_the_line():
    content = TMX.format(encoding="utf-8").encode()
    with pytest.raises(UserError, match=r"some\.tmx:11: not well-formed XML at column 1 \(no ele"):
        read(content[: content.index(b'<tu><tuv xml:lang="fr')])
    with pytest.raises(UserError, match=r"no translation unit in es and de; it has de, de-at, en"):
        read(content, ("es", "de"))
    bomb = b'<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx><body>&b;</body></tmx>'
    with pytest.raises(UserError, match=r"some\.tmx declares entities"):
        read(bomb)


class Endless(io.RawIOBase):
    """A TMX file of so many units, made as it is read."""

    def __init__(self, units):
        unit = b'<tu><tuv lang="en"><seg>a</seg></tuv><tuv lang="de"><seg>b</seg></tuv></tu>\n'
        self._parts = iter([b"<tmx><body>", *[unit] * units, b"</body></tmx>"])

    def read(self, size=-1):
        return next(self._parts, b"")


def test_memory_does_not_grow_with_the_file():
    peaks = []
    for units in (300, 6000):
        stream = Endless(units)
        tracemalloc.start()
        assert sum(1 for _ in translation_units(stream, "some.tmx", ("en", "de"))) == units
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 6,000 units kept would be megabytes.
    assert peaks[1] < peaks[0] + 100_000
