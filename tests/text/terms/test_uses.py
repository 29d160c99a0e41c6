import pytest

from t2t_keras.text.alignment import split_words
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.terms.forcing import put_term
from t2t_keras.text.terms.uses import find_uses, may_be_inflected, same_stem

GLOSSARY = Glossary.of(
    [("dog", "Hund"), ("house", "Haus"), ("red house", "rotes Haus"), ("company", "GmbH")]
)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Haus", "Häuser", True),
        ("haus", "Hauses", True),
        ("schlafen", "schläft", True),
        ("cheval", "chevaux", True),
        ("Hund", "Hundert", False),
        ("Kind", "Kindergarten", False),
        ("im", "in", False),
        ("an", "AN", True),
    ],
)
def test_forms_of_a_word(one, other, same):
    assert same_stem(one, other) == same_stem(other, one) == same


@pytest.mark.parametrize(
    ("source", "target", "alignment", "kinds"),
    [
        ("a dog", "ein hund.", [], "exact"),
        ("a dog", "ein Hund", None, "exact"),
        ("a dog", "die Hundehütte", [(1, 1)], "missing"),
        # Another form counts where the source word is, and only there.
        ("a dog", "des Hundes Haus", [(1, 1)], "inflected"),
        ("a dog", "des Hundes Haus", [(0, 1)], "inflected"),
        ("a big dog", "des Hundes Haus", [(0, 1), (2, 2)], "missing"),
        ("a dog", "des Hundes Haus", None, "missing"),
        # Each occurrence is of one term.
        ("dog dog", "Hund", [], "exact missing"),
        ("dog dog", "Hund Hunde", [(0, 0), (1, 1)], "exact inflected"),
        ("house, red house", "Haus, rotes Haus", [], "exact exact"),
        ("house, red house", "rotes Haus", [], "missing exact"),
        ("red house", "roten Hauses", [(0, 0), (1, 1)], "inflected"),
        ("red house", "roten alten Hauses", [(0, 0), (1, 2)], "missing"),
        # Capitals inside count.
        ("company", "eine gmbh", [(0, 1)], "inflected"),
        ("company", "eine GmbH", [], "exact"),
        ("nothing", "nichts", [], ""),
    ],
)
def test_what_became_of_terms(source, target, alignment, kinds):
    uses = find_uses(source, GLOSSARY.matches(source), target, alignment)
    assert [use.kind for use in uses] == kinds.split()


def test_only_what_has_a_form_need_be_aligned():
    uses = find_uses("red house, dog", GLOSSARY.matches("red house, dog"), "die Häuser, rote")
    assert [may_be_inflected(use, "die Häuser, rote") for use in uses] == [True, False]
    [use] = find_uses("dog", GLOSSARY.matches("dog"), "Hund")
    assert not may_be_inflected(use, "Hund")


@pytest.mark.parametrize(
    ("target", "alignment", "beginnings", "wholes"),
    [
        # In the place of what is aligned; signs around it stay.
        (
            "Der „Kater“ schläft.",
            [(0, 0), (1, 1), (2, 2)],
            ["Der „Hund", "Der „Hund“ schläft.", "Der „Kater“ Hund", "Der „Kater“ Hund schläft."],
            ["Der „Hund“ schläft.", "Der „Kater“ Hund schläft."],
        ),
        (
            "Ich sehe Kater.",
            [(1, 2)],
            ["Ich sehe Hund", "Ich sehe Hund.", "Ich sehe Kater Hund", "Ich sehe Kater Hund."],
            ["Ich sehe Hund.", "Ich sehe Kater Hund."],
        ),
        # Of words beside each other one, of several places each.
        (
            "Der Kater Karlo ist so.",
            [(1, 1), (1, 2)],
            ["Der Hund", "Der Hund ist", "Der Kater Karlo Hund", "Der Kater Karlo Hund ist"],
            ["Der Hund ist so.", "Der Kater Karlo Hund ist so."],
        ),
        (
            "Kater und Katze",
            [(1, 0), (1, 2)],
            ["Hund", "Hund und", "Kater und Hund", "Kater und Katze Hund"],
            ["Hund und Katze", "Kater und Hund", "Kater und Katze Hund"],
        ),
        # Where nothing is, behind the translation of the word before; in front of the full stop.
        ("Der ruht.", [(0, 0), (2, 1)], ["Der Hund", "Der Hund ruht."], ["Der Hund ruht."]),
        ("Er ist da.", [(0, 2)], ["Er ist da Hund", "Er ist da Hund."], ["Er ist da Hund."]),
        ("Er ist da.", [], ["Hund", "Hund Er"], ["Hund Er ist da."]),
        ("", [], ["Hund"], ["Hund"]),
    ],
)
def test_a_missing_term_is_put_in(target, alignment, beginnings, wholes):
    source = "The dog sleeps"
    [match] = GLOSSARY.matches(source)
    assert put_term(match, source, target, alignment) == (beginnings, wholes)


def test_a_capital_at_the_beginning():
    [match] = Glossary.of([("big", "groß")]).matches("big dogs")
    found = put_term(match, "big dogs", "Kleine Hunde", [(0, 0), (1, 1)])
    assert found.wholes == ["Groß Hunde", "Kleine groß Hunde"]


def test_words_are_divided_by_ascii_white_space():
    assert split_words(" a\u00a0b\tc\u2028d  e ") == ["a\u00a0b", "c\u2028d", "e"]
