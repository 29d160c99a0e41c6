"""Accelerators of menus: found in labels, where a catalogue uses them."""

import pytest

from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.documents import read_document, translate_document

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n'


def translations(written, translator, entries, header=""):
    """The translations of a catalogue by msgid: those of its own, and those that it is given."""
    rows = (f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in entries.items())
    content = HEADER + header + "\n" + "".join(rows)
    document = read_document(written("a.po", content), "en", "de")
    translate_document(document, translator)
    return {unit.source: unit.target for unit in document.units}, [
        text for texts, _ in translator.calls for text in texts
    ]


@pytest.mark.parametrize(
    "source",
    [
        "Set Max_size to 5.",
        "Set Max_size to 5",
        "Tests live in the _test folder.",
        "the _test folder",
        "Smith &Sons sell shoes",
    ],
)
def test_prose_is_no_menu(written, translator, translated, source):
    expected = source.replace("&", "&amp;")
    found, seen = translations(written, translator, {source: "", "Done": ""})
    assert (found[source], seen) == (source.upper(), [source, "Done"])
    content = '<xliff version="1.2"><file source-language="en"><body><trans-unit id="a"><source>'
    content += f"{expected}</source></trans-unit></body></file></xliff>"
    found = translated("a.xlf", content)
    assert f">{source.upper().replace('&', '&amp;')}</target>" in found


def test_labels_have_their_marks_back(written, translator):
    labels = {"_Open...": "", "Save _As": "", "E_xit": "", "R&D": "", "To the _end.": ""}
    found, seen = translations(written, translator, labels)
    assert list(found.values()) == ["_OPEN...", "SAVE _AS", "E_XIT", "R&D", "TO THE _END."]
    assert seen == ["Open...", "Save As", "Exit", "R&D", "To the _end."]


@pytest.mark.parametrize(
    ("entries", "is_used"),
    [
        ({"&Cut": "&Ausschneiden"}, True),
        ({"&Cut": "Ausschneiden"}, False),
        ({"&Cut": "&Ausschneiden", "&Copy": "Kopieren"}, False),
        ({"&Cut": "&Ausschneiden", "&Copy": "Kopieren", "&Go": "&Los"}, True),
        ({"_Cut": "_Ausschneiden"}, False),
        ({"&Open": "ö&ffnen"}, True),
    ],
)
def test_translations_reveal_whether_a_catalogue_uses_accelerators(
    written, translator, entries, is_used
):
    found, seen = translations(written, translator, {**entries, "To &Paste": ""})
    assert seen == ["To Paste" if is_used else "To &Paste"]
    assert found["To &Paste"] == "TO &PASTE"


@pytest.mark.parametrize(
    ("label", "is_used"),
    [
        ("_Save all my files", True),
        ("_Save all my new files", False),
        ("_save", False),
        ("To _Save", False),
        ("_Save it.", False),
    ],
)
def test_short_labels_reveal_accelerators_if_nothing_is_translated(
    written, translator, label, is_used
):
    _, seen = translations(written, translator, {label: "", "the _end": ""})
    assert ("the end" in seen) == is_used


def test_fuzzy_labels_reveal_no_accelerators(written):
    content = '#, fuzzy\nmsgid "&Cut"\nmsgstr "Schnitt"\n\nmsgid "To &Paste"\nmsgstr ""\n'
    units = read_document(written("a.po", content), "en", "de").units
    assert [piece.text for unit in units for piece in unit.pieces] == ["Cut", "To Paste"]


def test_a_header_names_the_mark(written, translator):
    header = '"X-Accelerator-Marker: _\\n"\n'
    _, seen = translations(written, translator, {"the _end": "", "&Cut": ""}, header)
    assert seen == ["the end", "&Cut"]
    message = {"&1 {n, plural, other {boats}}": ""}
    found, _ = translations(written, translator, message, header.replace("_", "&"))
    assert list(found.values()) == ["&1 {n, plural, other {BOATS}}"]


def test_a_sign_that_is_not_the_mark_stays(written, translator):
    header = '"X-Accelerator-Marker: &\\n"\n'
    found, seen = translations(written, translator, {"&Save _as": ""}, header)
    assert (found, seen) == ({"&Save _as": "&SAVE _AS"}, ["Save _as"])


def test_a_translation_that_has_its_mark_keeps_it(written, translator):
    translator.translate = lambda lines, **options: [
        Translation("Datei ö_ffnen", 0.0) for _ in lines
    ]
    found, _ = translations(written, translator, {"_Open": ""})
    assert found["_Open"] == "Datei ö_ffnen"
