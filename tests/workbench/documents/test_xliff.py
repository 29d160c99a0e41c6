"""XLIFF 1 and 2, read again by lxml; what they say of a unit."""

import re

import pytest
from lxml import etree
from refusals import refused

from t2t_keras.workbench.documents import TranslationMemory, read_document, translate_document
from t2t_keras.workbench.documents.document import Suggestion

FIRST = """<?xml version='1.0' encoding='ISO-8859-1'?>
<!-- a comment -->
<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
 <x:file original='a' source-language="en-US" datatype="plaintext"><x:body>
  <x:trans-unit id="codes" approved="yes">
   <x:source>Cl\xefck <x:g id="1">the <x:x id="2"/>r&amp;d</x:g><x:bpt id="3">&lt;b></x:bpt>%s"""
FIRST += """<x:ept id="3">&lt;/b></x:ept> <x:ph id="4">code</x:ph><![CDATA[ <now>]]></x:source>
  </x:trans-unit>
  <x:trans-unit id="segments"><x:source>One. Two.</x:source><x:seg-source><x:mrk mtype="seg" """
FIRST += """mid="0">One.</x:mrk> <x:mrk mtype="seg" mid="1">Two.</x:mrk></x:seg-source>
   <x:target state="new"/></x:trans-unit>
  <x:group translate="no"><x:trans-unit id="no"><x:source>No</x:source></x:trans-unit>
   <x:trans-unit id="kept" translate="yes"><x:source>Kept</x:source>
   <x:target state="final">Da</x:target></x:trans-unit></x:group>
  <x:trans-unit id="empty"><x:source/></x:trans-unit>
 </x:body></x:file></x:xliff>"""
SECOND = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="u">
  <segment>
    <source>Click <pc id="1">here</pc> <sc id="2"/>or<ec startRef="2"/> <ph id="3"/> now</source>
  </segment>
  <ignorable><source> and </source></ignorable>
  <segment id="s" state="initial"><source>Two</source><target>Tw</target></segment>
  <segment><source>Three</source><target>Drei</target></segment>
  <segment><source>Four</source><target/></segment>
</unit><unit id="no" translate="no"><segment><source>No</source></segment></unit></file></xliff>"""
N1 = {"x": "urn:oasis:names:tc:xliff:document:1.2"}
N2 = {
    "x": "urn:oasis:names:tc:xliff:document:2.0",
    "m": "urn:oasis:names:tc:xliff:matches:2.0",
}


def text_of(element):
    return "".join(element.itertext())


def test_targets_of_version_1_are_put_behind_their_sources(translated):
    root = etree.fromstring(translated("a.xlf", FIRST.encode("latin-1")))
    assert root.find(".//x:file", N1).get("target-language") == "de"
    unit = root.find(".//x:trans-unit[@id='codes']", N1)
    target = unit[1]
    assert dict(target.attrib) == {
        "state": "needs-review-translation",
        "state-qualifier": "leveraged-mt",
    }
    assert unit.get("approved") == "no"
    assert text_of(target) == "CLÏCK THE R&D<b>%s</b> code <NOW>"
    tags = [[(element.tag, dict(element.attrib)) for element in side.iter()][1:] for side in unit]
    assert tags[0] == tags[1]
    assert translated.report.left_out == {"marked as not translatable": 1}
    assert (translated.report.translated, translated.report.existing) == (3, 1)
    target = root.find(".//x:trans-unit[@id='kept']/x:target", N1)
    assert (target.text, target.get("state")) == ("Da", "final")


def test_segments_of_version_1_keep_their_marks(translated):
    root = etree.fromstring(translated("a.xlf", FIRST.encode("latin-1"), final=True))
    target = root.find(".//x:trans-unit[@id='segments']/x:target", N1)
    assert target.get("state") == "translated"
    assert root.find(".//x:trans-unit[@id='codes']", N1).get("approved") == "yes"
    actual = [(code.get("mid"), code.text, code.tail) for code in target]
    assert actual == [("0", "ONE.", " "), ("1", "TWO.", None)]


SEGMENTS = """<xliff version="1.2"><file source-language="en"><body><trans-unit id="a">
<source><g id="1">One. Two.</g></source><seg-source><g id="1"><mrk mtype="seg" mid="0">One.</mrk>
<mrk mtype="seg" mid="1">Two.</mrk></g></seg-source><target>{}</target>
</trans-unit></body></file></xliff>"""


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ('<ph>b</ph><g id="1"><mrk mtype="seg" mid="0">Eins.</mrk></g>', "Eins.\nTWO."),
        ('<g id="1"><mrk mtype="seg" mid="5">Eins.</mrk></g>', "Eins."),
        ("Eins. Zwei.", "Eins. Zwei."),
    ],
)
def test_translations_of_version_1_are_never_lost(translated, target, expected):
    root = etree.fromstring(translated("a.xlf", SEGMENTS.format(target)))
    assert text_of(root.find(".//target")) == expected


def test_segments_of_version_2_have_states(translated):
    root = etree.fromstring(translated("a.xliff", SECOND.encode()))
    assert root.get("trgLang") == "de"
    segments = root.findall(".//x:unit[@id='u']/x:segment", N2)
    targets = [text_of(segment.find("x:target", N2)) for segment in segments]
    states = [segment.get("state") for segment in segments]
    assert targets == ["CLICK HERE OR  NOW", "TWO", "Drei", "FOUR"]
    assert states == ["translated", "translated", None, "translated"]
    assert segments[0].get("subState") == "t2t:machine"
    sides = [segments[0].find(f"x:{side}", N2) for side in ("source", "target")]
    assert [code.tag for code in sides[0]] == [code.tag for code in sides[1]]


def test_the_memory_is_shown_beside_the_target(translated):
    memory = TranslationMemory([("Two.", "Zwei."), ("One,", "Eins & so")])
    root = etree.fromstring(translated("a.xlf", FIRST.encode("latin-1"), memory=memory))
    unit = root.find(".//x:trans-unit[@id='segments']", N1)
    assert [element.text for element in unit.find("x:target", N1)] == ["ONE.", "Zwei."]
    [alternative] = unit.findall("x:alt-trans", N1)
    assert (alternative.get("match-quality"), alternative.get("mid")) == ("75%", "0")
    assert [element.text for element in alternative] == ["One,", "Eins & so"]

    memory = TranslationMemory([("Fours", "Vieren")])
    root = etree.fromstring(translated("b.xlf", SECOND.encode(), memory=memory))
    [match] = root.findall(".//m:matches/m:match", N2)
    [segment] = root.findall(".//x:segment[@id='t2t3']", N2)
    assert (match.get("ref"), match.get("similarity")) == ("#t2t3", "88.9")
    assert segment.find("x:source", N2).text == "Four"
    assert root.find(".//x:unit", N2)[0].tag.endswith("matches")


@pytest.mark.parametrize("name", ["a.xlf", "a.xliff"])
def test_suggestions_are_escaped(written, translator, name):
    segment = '<segment id="&quot;">' if name == "a.xliff" else ""
    content = (
        SECOND.split("<segment>")[0]
        + f"{segment}<source>Ropes &amp; sails</source></segment></unit>"
        "</file></xliff>"
        if segment
        else UNIT.format("Ropes &amp; sails")
    )
    document = read_document(written(name, content), "en", "de")
    memory = TranslationMemory([("Ropes & <sails>", "Seile & <Segel>")])
    translate_document(document, translator, memory=memory)
    root = etree.fromstring(document.content())
    [match] = root.findall(".//alt-trans") + root.findall(".//m:match", N2)
    assert [element.text for element in match] == ["Ropes & <sails>", "Seile & <Segel>"]
    assert match.get("ref", '#"') == '#"'


@pytest.mark.parametrize(
    ("outer", "inner", "unit", "is_translated"),
    [
        ("no", "", "", False),
        ("no", "yes", "", True),
        ("yes", "no", "", False),
        ("no", "yes", "no", False),
        ("yes", "no", "yes", True),
        ("no", "", "yes", True),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_innermost_element_decides_what_is_translated(
    written, translator, version, outer, inner, unit, is_translated
):
    def attribute(value):
        return f' translate="{value}"' if value else ""

    groups = f"<group{attribute(outer)}><group{attribute(inner)}>"
    if version == 1:
        content = UNIT.replace("<trans-unit", f"{groups}<trans-unit{attribute(unit)}", 1)
        content = content.replace("</trans-unit>", "</trans-unit></group></group>").format("One")
        behind = '<trans-unit id="b"><source>Two</source></trans-unit></body>'
        content = content.replace("</body>", behind)
    else:
        segment = "<segment><source>{}</source></segment></unit>"
        content = f'{SECOND.split("<unit")[0]}{groups}<unit id="a"{attribute(unit)}>'
        content += segment.format("One") + '</group></group><unit id="b">' + segment.format("Two")
        content += "</file></xliff>"
    document = read_document(written("a.xlf", content), "en", "de")
    report = translate_document(document, translator)
    assert [unit.source for unit in document.units] == ["One"] * is_translated + ["Two"]
    assert sum(report.left_out.values()) == (not is_translated)


def test_an_exact_match_needs_no_review(translated):
    memory = TranslationMemory([("One.", "Eins."), ("Two.", "Zwei.")])
    root = etree.fromstring(translated("a.xlf", FIRST.encode("latin-1"), memory=memory))
    target = root.find(".//x:trans-unit[@id='segments']/x:target", N1)
    assert dict(target.attrib) == {"state": "translated", "state-qualifier": "exact-match"}


@pytest.mark.parametrize("content", [FIRST.encode("latin-1"), SECOND.encode()])
def test_how_sure_the_model_is_stands_beside_the_target(written, translator, content):
    document = read_document(written("a.xlf", content), "en", "de")
    translate_document(document, translator)
    document.units[0].quality = 0.875
    root = etree.fromstring(document.content())
    actual = root.find(".//x:alt-trans", N1), root.find(".//m:match", N2)
    [match] = [element for element in actual if element is not None]
    assert match.get("match-quality") == "88%" or match.get("matchQuality") == "87.5"
    assert text_of(match[-1]).startswith("CL")


def test_a_translation_that_loses_a_code_is_refused(written):
    document = read_document(written("a.xlf", SECOND), "en", "de")
    once = '<g i="0"/><g i="1"/><x i="2"/>'
    for text in ("Hier", f'<g i="0">Hier</g>{once}', f'{once}<x i="3"/>', f"{once[:8]}{once[9:]}"):
        document.units[0].set(text)
        with refused("inline_codes_differ", "3", repr(text)):
            document.content()


def test_lines_stay_where_the_file_says_so(written):
    source = '<source>One <g id="1">two</g>\nThree<x id="2" ctype="lb"/></source>'
    units = (f"<trans-unit{space}>{source}</trans-unit>" for space in ("", ' xml:space="default"'))
    body = f'<file xml:space="preserve"><body>{"".join(units)}</body></file>'
    actual = read_document(
        written("a.xlf", f'<xliff version="1.2">{body}</xliff>'), "en", "de"
    ).units
    assert [unit.keeps_lines for unit in actual] == [True, False]
    # A message's own HTML is not indented by the file.
    message = UNIT.format("One &lt;b>two&lt;/b>\nthree")
    for content, is_kept in (
        (message, True),
        (message.replace("<source", '<source xml:space="default"'), False),
    ):
        [unit] = read_document(written("b.xlf", content), "en", "de").units
        assert (unit.format, unit.keeps_lines) == ("html", is_kept)
    assert actual[0].source.endswith('<x i="1" ctype="lb"/>')


UNIT = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    '<trans-unit id="a"><source>{}</source></trans-unit></body></file></xliff>'
)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        # What stands for the end of a line or a tab divides words.
        ('One<ph id="1">&lt;br/&gt;</ph>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<ph id="1">&lt;w:tab/></ph>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<it id="1" pos="open">&lt;p&gt;</it>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<ph id="1">\\n</ph>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<ph id="1"> </ph>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<ph id="1">&amp;#xA;</ph>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<x id="1" ctype="x-tab"/>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<x id="1" ctype="x-pb"/>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<x id="1" equiv-text="&lt;br>"/>Two', 'One<x i="0" ctype="lb"/>Two'),
        ('One<ph id="1">&lt;b/&gt;</ph>Two', 'One<x i="0"/>Two'),
        ('One<bpt id="1">&lt;br></bpt>Two<ept id="1"/>', 'One<g i="0">Two</g>'),
        ('One<g id="1"/>Two', 'One<x i="0"/>Two'),
        # A pair does not cross the end of an element.
        (
            '<g id="1"><bx id="2"/><bx id="3"/>a</g>b<ex id="2"/>',
            '<g i="0"><x i="1"/><x i="2"/>a</g>b<x i="3"/>',
        ),
        # What is not to be translated says so.
        ('Go <mrk mtype="protected">A b</mrk>', 'Go <g i="0" translate="no">A b</g>'),
        ('Go <mrk translate="no">A b</mrk>', 'Go <g i="0" translate="no">A b</g>'),
        ('Go <mrk translate="yes">A b</mrk>', 'Go <g i="0">A b</g>'),
        # An index is one.
        ('48m<g id="1" ctype="x-superscript">2</g>', '48m<sup i="0">2</sup>'),
        ('H<bpt id="1">&lt;sub></bpt>2<ept id="1"/>O', 'H<sup i="0">2</sup>O'),
        ('48m<g id="1" ctype="bold">2</g>', '48m<g i="0">2</g>'),
        # Signs of programs are of the code that they stand beside.
        ('Run %<x id="1"/>%\\bin now', 'Run <x i="0"/> now'),
        ('At http://<x id="1"/>/a.', 'At <x i="0"/>.'),
        ('{<x id="1"/>}, $<x id="2"/>. 5 <x id="3"/>%', '<x i="0"/>, <x i="1"/>. 5 <x i="2"/>'),
        ('To <x id="1"/>@<x id="2"/>_<x id="3"/>now', 'To <x i="0"/>now'),
        (
            '(<x id="1"/>) "<x id="2"/>" read/<x id="3"/>',
            '(<x i="0"/>) "<x i="1"/>" read<x i="2"/>',
        ),
        ('a@b-<x id="1"/> C:\\a&amp;\\<x id="2"/>', 'a@b-<x i="0"/> C:\\a&amp;<x i="1"/>'),
        ('x <x id="1"/>=5, <x id="2"/>%s', 'x <x i="0"/>, <x i="1"/>s'),
        ('<g id="1">%</g><x id="1"/>%', '<g i="0">%</g><x i="1"/>'),
    ],
)
def test_codes_are_what_they_stand_for(written, source, seen):
    document = read_document(written("a.xlf", UNIT.format(source)), "en", "de")
    [unit] = document.units
    assert unit.source == seen
    for text, end in ((seen, ""), (seen.replace("/>", ">"), " new")):
        unit.set(text + end)
        assert f">{source}{end}</target>" in document.content().decode()


@pytest.mark.parametrize(
    "code",
    [
        '<ph id="1" dataRef="d"/>',
        '<ph id="1" equiv="&#9;"/>',
        '<ph id="1" disp="&lt;br/&gt;"/>',
        '<ph id="1" type="fmt" subType="xlf:lb"/>',
        '<cp hex="000A"/>',
        '<cp hex="2029"/>',
    ],
)
def test_codes_of_version_2_are_what_they_stand_for(written, code):
    original = '<originalData><data id="d">&lt;br/&gt;</data></originalData>'
    other = re.sub("(hex=.).{4}", r"\g<1>0041", code.replace("d", "e"))
    source = f"<source>One{code}Two{other}</source>"
    content = SECOND.replace('<unit id="u">', f'<unit id="u">{original}<segment>{source}</segment>')
    document = read_document(written("a.xliff", content), "en", "de")
    first, rest = document.units[0].source.split("Two")
    assert first == 'One<x i="0" ctype="lb"/>'
    assert rest == ('<x i="1"/>' if "dataRef" in code or "cp" in code else rest)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ('H<pc id="1" dataRefStart="s">2</pc>O', 'H<sup i="0">2</sup>O'),
        ('a<sc id="1"/>b<ec startRef="1"/>', 'a<g i="0">b</g>'),
        ('a<sc id="1"/>b<ec startRef="2"/>', 'a<x i="0"/>b<x i="1"/>'),
    ],
)
def test_pairs_of_version_2(written, source, seen):
    original = '<originalData><data id="s">&lt;sub></data></originalData>'
    unit = f'<unit id="u">{original}<segment><source>{source}</source></segment>'
    content = SECOND.replace('<unit id="u">', unit)
    assert read_document(written("a.xliff", content), "en", "de").units[0].source == seen


@pytest.mark.parametrize(
    ("source", "translation", "target"),
    [
        *(
            ('un<g id="1">believ</g>able<x id="2"/>', f'<g i="0">{word}</g><x i="1"/>', target)
            for word, target in (
                ("unbelievable", 'un<g id="1">believ</g>able<x id="2"/>'),
                ("UNBELIEVABLE", 'UN<g id="1">BELIEV</g>ABLE<x id="2"/>'),
                ("unglaubliche", '<g id="1">unglaubliche</g><x id="2"/>'),
                ("unglaublich", '<g id="1">unglaublich</g><x id="2"/>'),
            )
        ),
        ('Straße<x id="1"/> a', 'STRASSE<x i="0"/> A', 'STRASSE<x id="1"/> A'),
    ],
)
def test_codes_keep_their_letters_if_only_case_changes(written, source, translation, target):
    document = read_document(written("a.xlf", UNIT.format(f"It is {source}.")), "en", "de")
    document.units[0].set(f"It is {translation}.")
    assert f">It is {target}.</target>" in document.content().decode()


def test_languages_must_fit_the_model(written):
    with refused("other_language", "a.xlf", "expected fr", "got en-US"):
        read_document(written("a.xlf", FIRST.encode("latin-1")), "fr", "de")
    other = FIRST.split(">\n", 3)[3].partition("</x:xliff>")[0].replace("en-US", "fr")
    content = FIRST.replace("</x:xliff>", f"{other}</x:xliff>").encode("latin-1")
    with refused("other_language", "a.xlf", "expected en-US", "got fr"):
        read_document(written("a.xlf", content))
    with refused("incomplete_document", "trans-unit"):
        read_document(written("a.xlf", UNIT.replace("<source>{}</source>", "<target/>")))
    with refused("other_format", "XLIFF"):
        read_document(written("b.xlf", "<html/>"))


def test_real_files_change_in_their_targets_only(root, translator, capitals_of):
    paths = sorted((root.parent / "shared/data/localisation/xliff").glob("*.xlf"))
    if not paths:
        pytest.skip("needs ../shared/data/localisation")
    for path in paths:
        document = read_document(path, "en", "de")
        assert document.content() == path.read_bytes()
        translate_document(document, translator, everything=True)
        old, new = etree.parse(path), etree.fromstring(document.content())
        for before, after in zip(old.iter(), new.iter(), strict=True):
            if not before.tag.endswith("target"):
                assert (before.tag, before.text) == (after.tag, after.text)
        assert capitals_of("Close") in {unit.target for unit in document.units} | {"CLOSE"}


ONE_UNIT = UNIT.format("One")
ONE_SEGMENT = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">'
    '<unit id="u"><segment><source>One</source><target>Eins</target></segment></unit></file>'
    "</xliff>"
)
MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
NEW_STATES = ("new", "needs-translation", "needs-adaptation", "needs-l10n")
REVIEWED_FOR = ("translation", "adaptation", "l10n")


@pytest.mark.parametrize(
    ("attributes", "is_translated", "is_reviewed"),
    [
        ("", True, True),
        *((f'state="{state}"', False, True) for state in NEW_STATES),
        *((f'state="needs-review-{kind}"', True, False) for kind in REVIEWED_FOR),
        *((f'state="{state}"', True, True) for state in ("translated", "signed-off", "final")),
    ],
)
def test_states_of_version_1_decide_what_is_translated(
    written, attributes, is_translated, is_reviewed
):
    target = f"</source><target {attributes}>Eins</target>"
    content = ONE_UNIT.replace("</source>", target)
    [unit] = read_document(written("a.xlf", content), "en", "de").units
    assert (unit.is_translated, unit.is_reviewed) == (is_translated, is_reviewed)


@pytest.mark.parametrize(
    ("attributes", "is_translated", "is_reviewed"),
    [
        ("", True, True),
        ('state="initial"', False, True),
        ('state="translated" subState="t2t:machine"', True, False),
        ('state="translated" subState="x:machine"', True, True),
        ('state="reviewed"', True, True),
    ],
)
def test_states_of_version_2_decide_what_is_translated(
    written, attributes, is_translated, is_reviewed
):
    content = ONE_SEGMENT.replace("<segment>", f"<segment {attributes}>")
    [unit] = read_document(written("a.xliff", content), "en", "de").units
    assert (unit.is_translated, unit.is_reviewed) == (is_translated, is_reviewed)


@pytest.mark.parametrize(
    ("version", "match", "qualifier"),
    [
        ("1.0", "machine", ""),
        ("1.1", "machine", ' state-qualifier="leveraged-mt"'),
        ("1.2", "exact", ' state-qualifier="exact-match"'),
    ],
)
def test_a_target_keeps_its_other_attributes(written, version, match, qualifier):
    target = '<target {}{} xml:lang="de"{}'
    old = target.format("state = 'new'", ' state-qualifier="x"', "/>")
    content = ONE_UNIT.replace("</source>", f"</source>{old}").replace("1.2", version)
    document = read_document(written("a.xlf", content), "en", "de")
    document.units[0].set("Eins & zwei", match)
    state = "translated" if match == "exact" else "needs-review-translation"
    new = f'<target xml:lang="de" state="{state}"{qualifier}>Eins &amp; zwei</target>'
    assert document.content().decode() == content.replace(old, new)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        (ONE_UNIT, '<target state="translated" state-qualifier="leveraged-mt">'),
        (ONE_SEGMENT.replace("<target>Eins</target>", ""), "<target>"),
    ],
)
def test_a_target_is_on_its_own_line_like_its_source(translated, content, target):
    indent = "\r\n" + " " * 99 + "\t"
    content = content.replace("<source>", f"{indent}<source>")
    output = translated("a.xlf", content, final=True)
    assert f"<source>One</source>{indent}{target}ONE</target>" in output


def test_headers_stay_and_units_have_their_names(written):
    unit = '<trans-unit id="{}"{}><source>One</source></trans-unit>'
    units = unit.format("a", ' restype="x-gettext-domain-header"'), unit.format("b", "")
    units += unit.format("c", ' resname="menu"'), unit.replace('id="{}"{}', "")
    body = f'<xliff version="1.2"><file source-language="en"><body>{"".join(units)}</body></file>'
    document = read_document(written("a.xlf", f"{body}</xliff>"), "en", "de")
    assert [unit.context for unit in document.units] == ["b", "menu", None]
    assert document.left_out == {"headers": 1}
    content = ONE_SEGMENT.replace('<unit id="u">', '<unit id="u" name="menu"><segment/>')
    content = content.replace('version="2.0"', 'version="2.2"')
    assert read_document(written("a.xliff", content), "en", "de").units[0].context == "menu"


def test_new_matches_precede_old_ones_and_name_their_segments(translated):
    old = f'<mtc:match xmlns:mtc="{MATCHES}" ref="#t2t0"/>'
    content = ONE_SEGMENT.partition("<segment>")[0]
    content += '<z:matches xmlns:z="urn:z"><z:a/></z:matches>'
    content += f'<y:matches xmlns:y="{MATCHES}">{old}</y:matches><segment><source>Fours</source>'
    content += '</segment><ignorable id="t2t1"><source/></ignorable><segment id="t2t0">'
    content += "<source>Fives</source></segment></unit></file></xliff>"
    memory = TranslationMemory([("Four", "Vier"), ("Five", "Fünf")])
    output = translated("a.xliff", content, memory=memory)
    [matches] = etree.fromstring(output.encode()).iter(f"{{{MATCHES}}}matches")
    names = [(match.get("ref"), "".join(match.itertext())) for match in matches]
    assert names == [("#t2t2", "FourVier"), ("#t2t0", "FiveFünf"), ("#t2t0", "")]
    assert '<segment state="translated" subState="t2t:machine" id="t2t2">' in output


@pytest.mark.parametrize("content", [ONE_UNIT, ONE_SEGMENT])
def test_blank_texts_are_no_texts(written, content):
    content = content.replace("<target>Eins</target>", "")
    blank = content.replace("</source>", "</source><target> \n</target>")
    [unit] = read_document(written("a.xlf", blank), "en", "de").units
    assert (unit.target, unit.is_translated) == ("", False)
    for blank in (" \n", '<ph id="1"/>', ' <ph id="1"/>\n'):
        file = written("a.xlf", content.replace("One", blank))
        assert read_document(file, "en", "de").units == []


def test_files_name_their_target_language_also_where_nothing_is_in_them(written):
    content = ONE_UNIT.replace(' version="1.2"', "").replace(' target-language="de"', "")
    content = content.replace("</xliff>", '<file source-language="en" /></xliff>')
    document = read_document(written("a.xlf", content), "en", "de")
    assert document.content().decode() == content
    document.units[0].set("Eins")
    reread = document.content().decode()
    assert '<file source-language="en" target-language="de"><body>' in reread
    assert '<file source-language="en" target-language="de"/></xliff>' in reread


def test_a_new_target_is_replaced_by_its_segments(written):
    segments = """<mrk mtype="seg" mid="&amp;">One.</mrk> <mrk mtype="seg" mid="1">Two.</mrk>"""
    rest = f'</source><seg-source>{segments}</seg-source><target state="new">One. Two.</target>'
    content = ONE_UNIT.replace("</source>", rest)
    document = read_document(written("a.xlf", content), "en", "de")
    first, second = document.units
    assert (first.source, second.source) == ("One.", "Two.")
    first.set("Eins.", "exact")
    first.suggestions.append(Suggestion("One,", "Eins,", 0.75))
    target = etree.fromstring(document.content()).find(".//target")
    assert dict(target.attrib) == {"state": "translated", "state-qualifier": "exact-match"}
    second.set("Zwei.", quality=0.0)
    root = etree.fromstring(document.content())
    assert [element.text for element in root.find(".//target")] == ["Eins.", "Zwei."]
    assert root.find(".//target").get("state") == "needs-review-translation"
    actual = [
        (element.get("mid"), element.get("match-quality")) for element in root.iter("alt-trans")
    ]
    assert actual == [("&", "75%"), ("1", "0%")]
    # Without a target there is one behind the segments.
    content = content.replace('<target state="new">One. Two.</target>', "")
    document = read_document(written("a.xlf", content), "en", "de")
    document.units[0].set("Eins.")
    assert b"</seg-source><target " in document.content()
