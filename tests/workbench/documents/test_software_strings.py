"""Messages of programs: tags, accelerators of menus, and branches of ICU's."""

import pytest

from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.documents import read_document, translate_document
from t2t_keras.workbench.documents.software_strings import pieces_of


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("<b>Both</b> match<br>here", "html"),
        ("<p>One<p>Two", "html"),
        ("long<wbr>name<hr>and <br> more", "html"),
        ("<ul><li>One<li>Two</ul>", "html"),
        ("It failed.<p>Try again.", "html"),
        ("<dt>Name<dd>What it is", "html"),
        ("<b>R&amp;D</b> now", "html"),
        ("An <img src='%s'></img> and an <icon/>", "html"),
        ("An <img/> without attributes", "html"),
        ("Run the <script> before the build", "text"),
        ("Use <style> for the output", "text"),
        ("The <title> of a page, <script/> too", "text"),
        ("Copy <b>all</b> from <source> to <file>", "text"),
        ("Now you can use a tag <p> here", "text"),
        ("Use <script/> here", "text"),
        ("the end</b>", "text"),
        ("By <a@b.org> <1>", "text"),
        ("<a href='b>c", "text"),
    ],
)
def test_a_message_is_html_where_its_tags_match(written, translator, capitals_of, message, kind):
    document = read_document(written("a.po", f'msgid "{message}"\nmsgstr ""\n'), "en", "de")
    translate_document(document, translator)
    [unit] = document.units
    assert (unit.format, unit.keeps_lines) == (kind, True)
    assert translator.calls[0][1] == kind
    assert unit.target == capitals_of(message)


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
    actual, seen = translations(written, translator, {source: "", "Done": ""})
    assert (actual[source], seen) == (source.upper(), [source, "Done"])
    content = '<xliff version="1.2"><file source-language="en"><body><trans-unit id="a"><source>'
    content += f"{expected}</source></trans-unit></body></file></xliff>"
    output = translated("a.xlf", content)
    assert f">{source.upper().replace('&', '&amp;')}</target>" in output


def test_labels_have_their_marks_back(written, translator):
    labels = {"_Open...": "", "Save _As": "", "E_xit": "", "R&D": "", "To the _end.": ""}
    actual, seen = translations(written, translator, labels)
    assert list(actual.values()) == ["_OPEN...", "SAVE _AS", "E_XIT", "R&D", "TO THE _END."]
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
    actual, seen = translations(written, translator, {**entries, "To &Paste": ""})
    assert seen == ["To Paste" if is_used else "To &Paste"]
    assert actual["To &Paste"] == "TO &PASTE"


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
    actual, _ = translations(written, translator, message, header.replace("_", "&"))
    assert list(actual.values()) == ["&1 {n, plural, other {BOATS}}"]


def test_a_sign_that_is_not_the_mark_stays(written, translator):
    header = '"X-Accelerator-Marker: &\\n"\n'
    actual, seen = translations(written, translator, {"&Save _as": ""}, header)
    assert (actual, seen) == ({"&Save _as": "&SAVE _AS"}, ["Save _as"])


def test_a_translation_that_has_its_mark_keeps_it(written, translator):
    translator.translate = lambda lines, **options: [
        Translation("Datei ö_ffnen", 0.0) for _ in lines
    ]
    actual, _ = translations(written, translator, {"_Open": ""})
    assert actual["_Open"] == "Datei ö_ffnen"


XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    '<trans-unit id="a"><source>{}</source></trans-unit></body></file></xliff>'
)


def written(message, change):
    pieces = pieces_of(message)
    return "".join(
        piece if isinstance(piece, str) else piece.write(change(piece.text)) for piece in pieces
    )


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ("{0, plural, one {# boat is here} other {# boats}}", ["{#} boat is here", "{#} boats"]),
        (
            "{n, plural, offset : 1 =0 {nobody} one {# and {name}}\n other {#} }",
            ["nobody", "{#} and {name}"],
        ),
        (
            "{g, select, he {{n, selectordinal, other {his #th}}} other {a #hash}}",
            ["his {#}th", "a #hash"],
        ),
        ("{n, plural, other {{g, select, he {his # of <b/>}}}}", ["his {#} of <b/>"]),
        ("{n, plural, one {<file>} other {file}}", ["file"]),
        ("{n, plural, other {it''s # o''clock}}", ["it's {#} o'clock"]),
        ("{n, plural, other {it''s # o'clock}}", ["it''s {#} o'clock"]),
        ("{n, plural, other {a '#' and #}}", ["a '#' and #"]),
        ("{n, plural, other {a '{' and # '{b}' }}", ["a '{' and # '{b}' "]),
        (
            '<b>{n, plural, other {<x i="0"/> of <g i="1">#</g>}}</b>',
            ['<x i="0"/> of <g i="1">{#}</g>'],
        ),
    ],
)
def test_branches_are_text(message, texts):
    actual = [piece.text for piece in pieces_of(message) if not isinstance(piece, str)]
    assert actual == texts
    assert written(message, str) == message
    assert written(message, lambda text: "{") == message, "no program could read it"


@pytest.mark.parametrize(
    "message",
    [
        "You have {n, plural, one {# boat} other {# boats}}.",
        "{n, plural, one {# boat}} {m, plural, other {here}} now",
        "{n, plural, one {# boat} other {# boats}",
        "{n, plural, one {# boat}}}",
        "{n, plural, one # boat}",
        "{n, plural,}",
        "{0, choice, 0#no files|1#one file}",
        "{n, plural, one {<B># boat} other {#</B> boats}}",
        "{n, plural, other {<b><i>boat</b></i>}}",
        "{a, select, a {" * 21 + "b" + "}}" * 21,
    ],
)
def test_what_cannot_be_translated_by_branches_has_no_pieces(message):
    assert pieces_of(message) == []


def test_messages_without_branches_are_not_icu():
    assert pieces_of("{name} has {0, number} files, {plural}") is None
    deepest = "{a, select, a {" * 20 + "b" + "}}" * 20
    assert written(deepest, str.upper) == deepest.replace("b", "B")


def test_apostrophes_of_a_translation_quote_nothing():
    assert written("{n, plural, other {of # by {a}}}", lambda text: "l'{#} d'ici l'{a}") == (
        "{n, plural, other {l''# d'ici l''{a}}}"
    )
    assert written("{n, plural, other {it''s #}}", lambda text: "d'ici {#}") == (
        "{n, plural, other {d''ici #}}"
    )
    assert written("{g, select, other {a #b by {c}}}", lambda text: "l'#b by {c}") == (
        "{g, select, other {l''#b by {c}}}"
    )


def test_arguments_may_change_places():
    message = "{n, plural, other {{a} of {b}}}"
    assert written(message, lambda text: "{b} von {a}") == "{n, plural, other {{b} von {a}}}"
    assert written(message, lambda text: "{b} von {c}") == message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "{n, plural, one {# boat of {name}} other {# boats}}",
            "{n, plural, one {# BOAT OF {name}} other {# BOATS}}",
        ),
        (
            '{V, plural, =1 {one} other {<x id="I"/> minutes}}',
            '{V, plural, =1 {ONE} other {<x id="I"/> MINUTES}}',
        ),
    ],
)
def test_catalogues_have_their_branches_translated(translated, message, expected):
    output = translated("a.xlf", XLIFF.format(message))
    assert f">{expected}</target>" in output
    if "<x" not in message:
        output = translated("a.po", f'msgid "{message}"\nmsgstr ""\n')
        assert f'"{expected}"' in output


@pytest.mark.parametrize("name", ["a.po", "a.xlf"])
def test_messages_that_stay_are_counted(written, translator, name):
    message = "You have {n, plural, one {# boat} other {# boats}}."
    content = f'msgid "{message}"\nmsgstr ""\n' if name == "a.po" else XLIFF.format(message)
    document = read_document(written(name, content), "en", "de")
    report = translate_document(document, translator)
    assert document.content().decode() == content
    assert (report.translated, sum(report.left_out.values())) == (0, 1)


def test_a_long_tag_that_does_not_end_is_read_once():
    # Tried from each of its characters, it would take hours.
    branch = "<" + "a" * 1_000_000
    pieces = pieces_of(f"{{n, plural, one {{{branch}}} other {{x}}}}")
    assert [piece.text for piece in pieces if not isinstance(piece, str)] == [branch, "x"]
