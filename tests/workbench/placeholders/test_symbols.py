"""Symbols stand for placeholders, and lines come back as they were."""

import random

import pytest

from t2t_keras.workbench.placeholders import find
from t2t_keras.workbench.placeholders.finding import SYMBOLS
from t2t_keras.workbench.placeholders.symbols import shield, shield_pair, with_mark, without_mark

PIECES = ["%s", "{a}", " ", "word", "5 MB", "_A", "&B", "$", "\U0010ff01", "x@y.de", "."]


def test_lines_come_back():
    draw = random.Random(0)
    for _ in range(400):
        line = "".join(draw.choices(PIECES, k=draw.randint(1, 40)))
        actual = shield(line, ["word"], symbols=True)
        assert actual.restore(actual.text) == line
        assert actual.restore(actual.hide(line)) == line
        symbols = [sign for sign in actual.text if sign in SYMBOLS]
        places = find(line, ["word"])
        expected = [place.text for place in places]
        own = [text for text in expected if text in SYMBOLS]
        different = len(expected) - max(len(own) - 1, 0)
        assert len(set(symbols)) == min(different, len(SYMBOLS))
        # Those beyond the symbols are checked as they are.
        left = expected.count("word") - list(actual.originals.values()).count("word")
        assert actual.verbatim == ("word",) * min(left, 1)
        # Of every place outside of placeholders, the rest of the line is behind it.
        for place in range(len(line) + 1):
            if all(not span.start < place < span.end for span in places):
                assert actual.restore(actual.text[actual.offset(place) :]) == line[place:]


def test_an_unknown_symbol_of_an_output_is_left_out():
    actual = shield("open %(n)s", symbols=True)
    assert actual.offset(7) == actual.offset(10) == 6, "inside of it is its end"
    assert shield("\ud800 %s", symbols=True).text[-1] in SYMBOLS
    [own] = set(actual.text) & set(SYMBOLS)
    other = next(sign for sign in SYMBOLS if sign != own)
    assert actual.restore(f"öffne {own}{other}") == "öffne %(n)s"


def test_pairs_have_symbols_for_what_both_sides_have():
    source, target = shield_pair("_Open %s, %s in 5 MB", "_Öffne %s und %s (%d), 6 MB")
    symbols = [sign for sign in source if sign in SYMBOLS]
    assert len(symbols) == 2
    assert source == "Open {}, {} in 5 MB".format(*symbols)
    assert target == "Öffne {} und {} (%d), 6 MB".format(*symbols)
    for sides in (("%s %s", "%s"), ("%s", "%s %s")):
        actual = shield_pair(*sides)
        assert [[sign in SYMBOLS for sign in side.split()] for side in actual] == [
            [True, False][: len(side.split())] for side in sides
        ]
        assert actual[0][0] == actual[1][0]
    source = "%s " * (len(SYMBOLS) + 1)
    assert [shield_pair(source, source)[side].count("%s") for side in (0, 1)] == [1, 1]
    # As in translating, where only the source is known.
    assert shield("_Open %s, %s in", symbols=True).text.startswith("_Open ")
    assert shield_pair("_Open", "Öffnen") == ("_Open", "Öffnen")
    assert shield_pair("_Open", "Ö_ffnen ö_ffnen") == ("_Open", "Ö_ffnen ö_ffnen")
    assert shield_pair("_Open", "jetzt ö_ffnen") == ("Open", "jetzt öffnen")
    assert shield_pair("the file", "file_name") == ("the file", "file_name")


def test_every_symbol_is_used():
    first = {shield(f"{word} %s", symbols=True).text[-1] for word in map(str, range(300))}
    assert first == set(SYMBOLS)


@pytest.mark.parametrize(
    ("text", "bare", "put_back"),
    [
        ("_File", "File", "Datei ö_ffnen"),
        ("&Do", "Do", "&Datei öffnen"),
        ("E_xit", "Exit", "_Datei öffnen"),
        ("Save _As...", "Save As...", "D_atei öffnen"),
        ("%s of &Open", "%s of Open", "Datei &öffnen"),
    ],
)
def test_accelerators(text, bare, put_back):
    actual, accelerator = without_mark(text)
    assert actual == bare
    if accelerator.letter != "O":
        assert with_mark("Datei öffnen", accelerator) == put_back
    assert (
        with_mark("文件…", accelerator) == f"文件({accelerator.mark}{accelerator.letter.upper()})…"
    )


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Load From &File", "LOAD FROM FILE", "LOAD FROM &FILE"),
        ("Function &1:", "Funktion 1:", "Funktion &1:"),
        ("Function &1:", "Funktion:", "&Funktion:"),
        ("&File", "Profil f", "Profil &f"),
        ("&File", "  ", "  "),
        ("&File", "%file f5", "%file &f5"),
        ("&File", "文件。", "文件(&F)。"),
    ],
)
def test_a_mark_stands_before_the_same_sign(text, translation, expected):
    _, accelerator = without_mark(text)
    assert with_mark(translation, accelerator) == expected


@pytest.mark.parametrize(
    ("text", "has_one"),
    [
        ("_" + "a" * 199, True),
        ("_" + "a" * 200, False),
        ("_a. b", False),
        ("_a\nb", False),
        ("Cut &&Paste", False),
        ("E_x1t", False),
    ],
)
def test_labels_are_short_and_not_sentences(text, has_one):
    assert (without_mark(text)[1] is not None) == has_one


@pytest.mark.parametrize(
    "text",
    [
        "R&D",
        "AT&T",
        "Search & Replace",
        "snake_case",
        "__init__",
        "&amp;x",
        "a _b _c",
        "To _x.",
        "_www.a.b",
    ],
)
def test_what_is_no_accelerator(text):
    assert without_mark(text) == (text, None)
