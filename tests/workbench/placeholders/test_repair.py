"""A repaired translation has exactly the placeholders of its source."""

import random

import pytest
from counted_work import work_of

from t2t_keras.workbench.placeholders import is_reordered, missing
from t2t_keras.workbench.placeholders.stage import number_broken, repaired

PIECES = (
    "%s %d %1 %2 {0} {name} %% $x ${y} &nbsp; \\n http://a.b/c. x@y.de Wort, haus . ( ) { } % $ &"
).split()


@pytest.mark.parametrize(
    ("source", "target", "alignment", "expected"),
    [
        ("Open %s now", "Öffne jetzt.", [(0, 0), (2, 1)], "Öffne %s jetzt."),
        ("Open %s.", "Öffne.", [(0, 0)], "Öffne %s."),
        ("Open %s now", "Öffne bitte jetzt", [(0, 0), (0, 1), (2, 2)], "Öffne bitte %s jetzt"),
        ("Open %s now", "jetzt öffne", [(0, 1), (2, 0)], "jetzt öffne %s"),
        ("Open %s now", "Öffne bitte jetzt", [(0, 0), (1, 1), (2, 2)], "Öffne bitte %s jetzt"),
        ("See http://a.b now", "Siehe jetzt", [(0, 0), (2, 1)], "Siehe http://a.b jetzt"),
        ("See http://a.b", "Siehe {x}… hier", [], "Siehe http://a.b … hier"),
        ("%s is now", "ist jetzt", [(1, 0), (2, 1)], "%s ist jetzt"),
        ("Error: %s", "Fehler:", [(0, 0)], "Fehler: %s"),
        ("{name} is there", "{Name} ist {0} da.", [], "{name} ist da."),
        ("%(name)s is", "% (Name) s ist", [], "%(name)s ist"),
        ("use %d of %d", "%d von % d", [], "%d von %d"),
        ("%d files in %s", "in %s sind %d Dateien", [], "in %d sind %s Dateien"),
        ("the file %s", "die Datei", [], "die Datei %s"),
        # Without "%s" its neighbours would be another one.
        ("Buy $x now", "Kauf $x%s$& jetzt", [], "Kauf $x & jetzt"),
    ],
)
def test_places(source, target, alignment, expected):
    assert repaired(source, target, alignment) == expected


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("%d in %s", "%d in %s", 0),
        ("%d in %s", "%s in %d", 1),
        ("%s %s", "%d", 2),
        ("%d", "%s %s", 2),
    ],
)
def test_broken_placeholders_are_counted(source, target, count):
    assert number_broken(source, target) == count


def test_a_kept_piece_takes_the_place_of_what_it_became():
    alignment = [(0, 0), (1, 1), (2, 2)]
    assert repaired("a book .", "ein „Buch“ .", alignment, ["book"]) == "ein „book“ ."
    # Not of words that are far apart, and not of a placeholder.
    target = "ein „Buch“ . da war noch eins"
    assert repaired("a book .", target, [(1, 1), (1, 6)], ["book"]) == f"{target} book"
    assert repaired("the book %s", "das %s hier", [(1, 1)], ["book"]) == "das %s book hier"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("e is in a", "eine Rede ist in einer", "eine Rede ist in einer e"),
        ("press E", "Editieren", "Editieren E"),
        ("press E", "Rede e", "Rede E"),
    ],
)
def test_a_kept_piece_leaves_other_words_alone(source, target, expected):
    assert repaired(source, target, [], ["e", "in", "E"]) == expected


@pytest.mark.parametrize("target", ["", "wort " * 99, "% A www.;<B " * 99])
@pytest.mark.parametrize("motif", ["www.;<b ", "www.a;<b ", "%a%b ", "word "])
def test_work_is_in_proportion_to_the_text(motif, target):
    alignment = [(number, number) for number in range(100)]

    def work(count):
        found = repaired(motif * count, target, alignment, ["word"])
        assert missing(motif * count, found, ["word"]) == ([], [])
        return work_of(lambda: repaired(motif * count, target, alignment, ["word"]))

    assert work(400) < 4.4 * work(100)


@pytest.mark.parametrize("count", [64, 65])
def test_at_most_64_lost_placeholders_are_placed(count):
    source = "a " + " ".join(f"%x{number}" for number in range(count)) + " b"
    found = repaired(source, "A B", [(0, 0), (count + 1, 1)])
    assert found.endswith("B") == (count == 64)
    assert missing(source, found) == ([], [])


def test_whatever_a_model_writes():
    draw = random.Random(3)
    for _ in range(3000):
        source = " ".join(draw.choices(PIECES, k=draw.randint(1, 8)))
        target = "".join(draw.choices([*PIECES, *[" "] * 9], k=draw.randint(0, 12)))
        words = len(source.split())
        alignment = [(draw.randrange(words), i) for i in range(len(target.split()))]
        found = repaired(source, target, alignment)
        assert missing(source, found) == ([], []), (source, target)
        assert not is_reordered(source, found)
