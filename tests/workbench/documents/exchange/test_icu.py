"""ICU's messages: branches are translated, and all around them stays."""

import pytest

from t2t_keras.workbench.documents import read_document, translate_document
from t2t_keras.workbench.documents.exchange.messages import pieces_of

XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    '<trans-unit id="a"><source>{}</source></trans-unit></body></file></xliff>'
)


def written(message, change):
    pieces = pieces_of(message)
    return "".join(
        piece if isinstance(piece, str) else piece.written(change(piece.text)) for piece in pieces
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
    found = [piece.text for piece in pieces_of(message) if not isinstance(piece, str)]
    assert found == texts
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
    found = translated("a.xlf", XLIFF.format(message))
    assert f">{expected}</target>" in found
    if "<x" not in message:
        found = translated("a.po", f'msgid "{message}"\nmsgstr ""\n')
        assert f'"{expected}"' in found


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
