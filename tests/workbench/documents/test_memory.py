"""Translation memories: what is the same, and what is similar."""

import pytest
from rapidfuzz.distance import Indel
from refusals import refused

from t2t_keras.workbench.documents import TranslationMemory, read_document, translate_document
from t2t_keras.workbench.documents.document import Unit

TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>Open the file
now</seg></tuv><tuv xml:lang="de"><seg>Datei öffnen
jetzt</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Close</seg></tuv><tuv xml:lang="fr"><seg>Fermer</seg></tuv></tu>
</body></tmx>"""
XLIFF_1 = (
    '<xliff version="1.2"><file source-language="en"><body><trans-unit id="a"><source>Open it'
    "</source></trans-unit></body></file></xliff>"
)
XLIFF_2 = (
    '<xliff version="2.0" srcLang="en"><file><unit id="a"><segment><source>Open it</source>'
    "</segment></unit></file></xliff>"
)
PO = 'msgid "Open"\nmsgstr "Öffnen"\n\n#, fuzzy\nmsgid "Close"\nmsgstr "Zu"\n'


def test_the_same_text_is_found_whatever_space_is_around_it():
    memory = TranslationMemory([(" Open ", "Öffnen"), ("Open", "Auf"), ("Empty", " ")])
    assert memory.exact("Open\n") == "Öffnen"
    assert memory.exact("open") is None
    assert memory.exact("Empty") is None


def test_texts_are_compared_in_nfc():
    memory = TranslationMemory([("Cafe\u0301", "Kaffee"), ("Die ganze na\u00efve Welt", "All")])
    assert memory.exact("Caf\u00e9") == memory.exact("Cafe\u0301") == "Kaffee"
    assert memory.fuzzy("Die ganze nai\u0308ve Welt")[2] == 1.0


def test_lines_are_found_one_by_one_where_both_sides_have_as_many():
    memory = TranslationMemory([("One\nTwo", "Eins\nZwei"), ("Three\nFour", "Drei Vier")])
    assert memory.exact("Two") == "Zwei"
    assert memory.exact("Four") is None


def test_the_most_similar_text_is_found(tmp_path):
    words = "open close the a file folder window now".split()
    sources = [f"{a} {b} {c}" for a in words for b in words for c in words]
    memory = TranslationMemory([(source, source.upper()) for source in sources])
    for text in ("open teh file", "closing a window", "now"):
        ratios = {source: Indel.normalized_similarity(text, source) for source in sources}
        best = max(ratios.values())
        actual = memory.fuzzy(text, least=0.7)
        if best < 0.7:
            assert actual is None
        else:
            source, target, ratio = actual
            assert (ratios[source], target) == (best, source.upper())
            assert ratio == pytest.approx(best)


@pytest.mark.parametrize(
    ("long", "short", "ratio"), [("ab" * 500, "ab" * 300, 0.75), ("Open files", "Open", 8 / 14)]
)
def test_shorter_and_longer_texts_are_similar(long, short, ratio):
    for known, text in ((long, short), (short, long)):
        memory = TranslationMemory([("x" * 7, "0"), (known, "1"), ("y" * 2000, "2")])
        assert memory.fuzzy(text, least=ratio) == (known, "1", pytest.approx(ratio))
        assert memory.fuzzy(text, least=ratio + 0.001) is None


def test_nothing_is_similar_where_none_is_asked_for():
    memory = TranslationMemory([("Open", "Öffnen")])
    assert (memory.fuzzy("Open", least=0), memory.fuzzy(" ")) == (None, None)


@pytest.mark.parametrize(("length", "is_compared"), [(1000, True), (1001, False)])
def test_long_texts_are_not_compared(length, is_compared):
    memory = TranslationMemory([("a" * length, "1"), ("a" * 999, "2")])
    assert (memory.fuzzy("a" * length) is not None) == is_compared
    assert memory.fuzzy("a" * 1000) == (
        "a" * (1000 if is_compared else 999),
        *memory.fuzzy("a" * 1000)[1:],
    )


@pytest.mark.parametrize(("name", "content"), [("m.tmx", TMX), ("m.po", PO)])
def test_files_are_read(written, name, content):
    memory = TranslationMemory.read(written(name, content), "en", "de")
    assert memory.exact("Close") is None
    known = "Open the file\nnow" if name == "m.tmx" else "Open"
    assert memory.exact(known) == {"m.tmx": "Datei öffnen\njetzt", "m.po": "Öffnen"}[name]


def test_units_give_what_is_certain():
    rows = [
        ("a", "Öffnen", "menu", None),
        ("a", "Offen", "state", None),
        ("b\nb", "Datei\nDatei", "", 0),
        ("b\nb", "Dateien\nDateien", "", 1),
        ("c", "Zu", "menu", None),
        ("d", "Auf", "same", None),
        ("d", "Hoch", "same", None),
    ]
    units = [Unit(s, t, context=context, form=form) for s, t, context, form in rows]
    memory = TranslationMemory((), [Unit("c", "Roh", is_reviewed=False), *units])
    assert [memory.exact(*row[:1], *row[2:]) for row in rows] == [
        *(row[1] for row in rows[:5]),
        None,
        None,
    ]
    assert memory.exact("b", "", 1) == "Dateien"
    assert [memory.exact(text, "other") for text in "abcd"] == [None, None, "Zu", None]
    assert memory.fuzzy("a") == ("a", "Öffnen", 1)


def test_an_empty_context_is_not_the_same_as_none(written, translated):
    entries = 'msgctxt ""\nmsgid "Open"\nmsgstr "{}"\n\nmsgid "Open"\nmsgstr "{}"\n'
    old = PO.partition("\n\n")[2] + "\n" + entries.format("Offen", "Öffnen")
    memory = TranslationMemory.read(written("m.po", old), "en", "de")
    assert len(memory) == 2
    assert (memory.exact("Open", ""), memory.exact("Open")) == ("Offen", "Öffnen")
    output = translated("a.po", entries.format("", ""), memory=memory)
    assert output.endswith(entries.format("Offen", "Öffnen"))


@pytest.mark.parametrize("name", ["m.xlf", "m.xliff"])
def test_what_this_program_wrote_is_suggested_until_it_is_reviewed(written, translator, name):
    content = (XLIFF_1 if name == "m.xlf" else XLIFF_2).encode()
    path = written(name, content)
    for final in (False, True):
        document = read_document(path, "en", "de")
        translate_document(document, translator, everything=True, final=final)
        document.save(path.with_stem("new"))
        memory = TranslationMemory.read(path.with_stem("new"), "en", "de")
        assert memory.fuzzy("Open it") == ("Open it", "OPEN IT", 1)
        assert memory.exact("Open it") == ("OPEN IT" if final else None)


def test_a_file_without_translations_is_no_memory(written):
    with refused("no_documents", "m.txt"):
        TranslationMemory.read(written("m.txt", "Open"), "en", "de")
