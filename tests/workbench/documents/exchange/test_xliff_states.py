"""What XLIFF says of a unit: its state, its name and what is like it."""

import pytest
from lxml import etree

from t2t_keras.workbench.documents import TranslationMemory, read_document
from t2t_keras.workbench.documents.document import Suggestion

FIRST = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    '<trans-unit id="a"><source>One</source></trans-unit></body></file></xliff>'
)
SECOND = (
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
    content = FIRST.replace("</source>", target)
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
    content = SECOND.replace("<segment>", f"<segment {attributes}>")
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
    content = FIRST.replace("</source>", f"</source>{old}").replace("1.2", version)
    document = read_document(written("a.xlf", content), "en", "de")
    document.units[0].set("Eins & zwei", match)
    state = "translated" if match == "exact" else "needs-review-translation"
    new = f'<target xml:lang="de" state="{state}"{qualifier}>Eins &amp; zwei</target>'
    assert document.content().decode() == content.replace(old, new)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        (FIRST, '<target state="translated" state-qualifier="leveraged-mt">'),
        (SECOND.replace("<target>Eins</target>", ""), "<target>"),
    ],
)
def test_a_target_is_on_its_own_line_like_its_source(translated, content, target):
    indent = "\r\n" + " " * 99 + "\t"
    content = content.replace("<source>", f"{indent}<source>")
    found = translated("a.xlf", content, final=True)
    assert f"<source>One</source>{indent}{target}ONE</target>" in found


def test_headers_stay_and_units_have_their_names(written):
    unit = '<trans-unit id="{}"{}><source>One</source></trans-unit>'
    units = unit.format("a", ' restype="x-gettext-domain-header"'), unit.format("b", "")
    units += unit.format("c", ' resname="menu"'), unit.replace('id="{}"{}', "")
    body = f'<xliff version="1.2"><file source-language="en"><body>{"".join(units)}</body></file>'
    document = read_document(written("a.xlf", f"{body}</xliff>"), "en", "de")
    assert [found.context for found in document.units] == ["b", "menu", None]
    assert document.left_out == {"headers": 1}
    content = SECOND.replace('<unit id="u">', '<unit id="u" name="menu"><segment/>')
    content = content.replace('version="2.0"', 'version="2.2"')
    assert read_document(written("a.xliff", content), "en", "de").units[0].context == "menu"


def test_new_matches_precede_old_ones_and_name_their_segments(translated):
    old = f'<mtc:match xmlns:mtc="{MATCHES}" ref="#t2t0"/>'
    content = SECOND.partition("<segment>")[0]
    content += '<z:matches xmlns:z="urn:z"><z:a/></z:matches>'
    content += f'<y:matches xmlns:y="{MATCHES}">{old}</y:matches><segment><source>Fours</source>'
    content += '</segment><ignorable id="t2t1"><source/></ignorable><segment id="t2t0">'
    content += "<source>Fives</source></segment></unit></file></xliff>"
    memory = TranslationMemory([("Four", "Vier"), ("Five", "Fünf")])
    found = translated("a.xliff", content, memory=memory)
    [matches] = etree.fromstring(found.encode()).iter(f"{{{MATCHES}}}matches")
    names = [(each.get("ref"), "".join(each.itertext())) for each in matches]
    assert names == [("#t2t2", "FourVier"), ("#t2t0", "FiveFünf"), ("#t2t0", "")]
    assert '<segment state="translated" subState="t2t:machine" id="t2t2">' in found


@pytest.mark.parametrize("content", [FIRST, SECOND])
def test_blank_texts_are_no_texts(written, content):
    content = content.replace("<target>Eins</target>", "")
    blank = content.replace("</source>", "</source><target> \n</target>")
    [unit] = read_document(written("a.xlf", blank), "en", "de").units
    assert (unit.target, unit.is_translated) == ("", False)
    for blank in (" \n", '<ph id="1"/>', ' <ph id="1"/>\n'):
        file = written("a.xlf", content.replace("One", blank))
        assert read_document(file, "en", "de").units == []


def test_files_name_their_target_language_also_where_nothing_is_in_them(written):
    content = FIRST.replace(' version="1.2"', "").replace(' target-language="de"', "")
    content = content.replace("</xliff>", '<file source-language="en" /></xliff>')
    document = read_document(written("a.xlf", content), "en", "de")
    assert document.content().decode() == content
    document.units[0].set("Eins")
    found = document.content().decode()
    assert '<file source-language="en" target-language="de"><body>' in found
    assert '<file source-language="en" target-language="de"/></xliff>' in found


def test_a_new_target_is_replaced_by_its_segments(written):
    segments = """<mrk mtype="seg" mid="&amp;">One.</mrk> <mrk mtype="seg" mid="1">Two.</mrk>"""
    rest = f'</source><seg-source>{segments}</seg-source><target state="new">One. Two.</target>'
    content = FIRST.replace("</source>", rest)
    document = read_document(written("a.xlf", content), "en", "de")
    first, second = document.units
    assert (first.source, second.source) == ("One.", "Two.")
    first.set("Eins.", "exact")
    first.suggestions.append(Suggestion("One,", "Eins,", 0.75))
    target = etree.fromstring(document.content()).find(".//target")
    assert dict(target.attrib) == {"state": "translated", "state-qualifier": "exact-match"}
    second.set("Zwei.", quality=0.0)
    root = etree.fromstring(document.content())
    assert [each.text for each in root.find(".//target")] == ["Eins.", "Zwei."]
    assert root.find(".//target").get("state") == "needs-review-translation"
    found = [(each.get("mid"), each.get("match-quality")) for each in root.iter("alt-trans")]
    assert found == [("&", "75%"), ("1", "0%")]
    # Without a target there is one behind the segments.
    content = content.replace('<target state="new">One. Two.</target>', "")
    document = read_document(written("a.xlf", content), "en", "de")
    document.units[0].set("Eins.")
    assert b"</seg-source><target " in document.content()
