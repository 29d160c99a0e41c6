"""TMX as a document: what a language lacks is added."""

import pytest
from lxml import etree
from refusals import refused

from t2t_keras.workbench.documents import read_document

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-GB"/><body>
  <tu tuid="a">
    <tuv xml:lang="en-GB"><seg>Click <bpt i="1">&lt;b&gt;</bpt>me<ept i="1">x</ept></seg></tuv>
    <tuv xml:lang="fr"><seg>Clic</seg></tuv>
  </tu>
  <tu><tuv xml:lang="EN"><seg>Kept</seg></tuv><tuv xml:lang="de-AT"><seg>Da</seg></tuv></tu>
  <tu><tuv xml:lang="en"><seg>Empty</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>Oui</seg></tuv></tu>
</body></tmx>"""


def test_missing_variants_are_added(translated):
    output = translated("a.tmx", TMX)
    units = etree.fromstring(output.encode()).findall(".//tu")
    segments = [
        {element.get(LANGUAGE): "".join(element.itertext()).strip() for element in unit}
        for unit in units
    ]
    assert segments[0] == {"en-GB": "Click <b>mex", "de": "CLICK <b>MEx", "fr": "Clic"}
    assert segments[1] == {"EN": "Kept", "de-AT": "Da"}
    assert segments[2] == {"en": "Empty", "de": "EMPTY"}
    assert translated.report.left_out == {"units without en": 1}
    # All else is as it was.
    lines = set(output.splitlines()) - set(TMX.splitlines())
    assert len(lines) == 3
    assert "<!DOCTYPE" in output


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\r\n"])
def test_any_white_space_ends_the_name_of_a_tag(translated, space):
    source = f'<tuv{space}xml:lang="en"><seg{space}xml:space="default">One</seg></tuv>'
    tmx = f'<tmx version="1.4"><header srclang="en"/><body><tu>{source}</tu></body></tmx>'
    target = '<tuv xml:lang="de" creationid="t2t_keras"><seg>ONE</seg></tuv>'
    assert translated("a.tmx", tmx.encode()) == tmx.replace(source, source + target).encode()


def test_codes_of_tmx_are_around_text_or_alone(written):
    codes = 'Go <hi x="1">here</hi> <ut>u</ut><it pos="begin">i</it><ph>p</ph> or'
    codes += '<bpt i="2">b</bpt> there<bpt i="1">c</bpt><ept i="2">d</ept><ept i="1">e</ept>'
    content = (
        f'<tmx><header srclang="en"/><tu><tuv xml:lang="en"><seg>{codes}</seg></tuv></tu></tmx>'
    )
    document = read_document(written("a.tmx", content), "en", "de")
    [unit] = document.units
    # Of two that cross, one is around what the other begins or ends with.
    assert unit.source == (
        'Go <g i="0">here</g> <x i="1"/><x i="2"/><x i="3"/> or<x i="4"/> there'
        '<g i="5"><x i="6"/></g>'
    )
    unit.set(unit.source.replace("here", "hier"))
    assert f"<seg>{codes.replace('here', 'hier')}</seg></tuv></tu>" in document.content().decode()


def test_languages_are_those_of_the_header_or_must_be_named(written):
    path = written("a.tmx", TMX)
    assert read_document(path, target="de").languages == ("en-GB", "de")
    units = read_document(path, "en", "de").units
    assert [(unit.context, unit.is_translated) for unit in units] == [
        ("a", False),
        (None, True),
        (None, False),
    ]
    # As the server reads it, before it knows them.
    document = read_document(path)
    document.units[0].set('<g i="0">x</g>')
    with refused("unknown_language", "'en-GB'"):
        document.content()
    with refused("unknown_language", "'de'"):
        read_document(written("c.tmx", TMX.replace("en-GB", "*ALL*", 1)), target="de")
    with refused("other_format", "TMX"):
        read_document(written("b.tmx", "<a/>"))


@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
def test_the_first_variant_of_a_language_counts(translated, attribute):
    variants = (("en", "One"), ("en", "Two"), ("de-AT", ""), ("de-AT", "Da"))
    unit = "".join(f'<tuv {attribute}="{name}"><seg>{text}</seg></tuv>' for name, text in variants)
    content = f'<tmx><header srclang="en"/><body><tu>{unit}</tu></body></tmx>'
    assert translated("a.tmx", content) == content.replace("<seg></seg>", "<seg>ONE</seg>")


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("", '<tuv xml:lang="de" creationid="t2t_keras"><seg>R &amp; D</seg></tuv>'),
        ('<tuv xml:lang="de" x="/>"/>', '<tuv xml:lang="de" x="/>"><seg>R &amp; D</seg></tuv>'),
        ('<tuv xml:lang="de"></tuv>', '<tuv xml:lang="de"><seg>R &amp; D</seg></tuv>'),
        ('<tuv xml:lang="de"><seg/></tuv>', '<tuv xml:lang="de"><seg>R &amp; D</seg></tuv>'),
        (
            '<tuv xml:lang="de"><note>n</note></tuv>',
            '<tuv xml:lang="de"><note>n</note><seg>R &amp; D</seg></tuv>',
        ),
    ],
)
def test_a_variant_gets_its_segment(translated, variant, expected):
    content = '<tmx><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>r &amp; d</seg></tuv>{}'
    content += "</tu></body></tmx>"
    assert translated("a.tmx", content.format(variant)) == content.format(expected)
