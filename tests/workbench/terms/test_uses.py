import functools

import pytest
from counted_work import work_of

from t2t_keras.text.alignment import split_words
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import insert_term
from t2t_keras.workbench.terms.uses import find_uses, same_stem

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
        ("gut", "gutes", True),
        ("gut", "guters", False),
        ("an", "ans", False),
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
        ("dog dog dog", "Hund und Hund", [(0, 0), (1, 0), (2, 0)], "exact exact missing"),
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


@pytest.mark.parametrize(
    ("source", "target", "kinds"),
    [
        ("red house, dog", "die roten Häuser", "inflected missing"),
        ("red house, dog", "die Häuser, rote", "missing missing"),
        ("dog dog", "Hunde", "inflected missing"),
        ("dog", "Hund", "exact"),
    ],
)
def test_other_forms_anywhere(source, target, kinds):
    uses = find_uses(source, GLOSSARY.matches(source), target, anywhere=True)
    assert [use.kind for use in uses] == kinds.split()


@pytest.mark.parametrize(
    ("term", "target", "kind"),
    [
        (("password", "Passwort"), "Mein password ist alt.", "missing"),
        (("password", "Passwort"), "Meine passwords sind alt.", "missing"),
        (("password", "Passwort"), "Meine Passwörter sind alt.", "inflected"),
        (("product", "Produkt"), "des Products", "missing"),
        (("product", "Produkt"), "des Produkts", "inflected"),
        (("server", "Server"), "den Servern", "inflected"),
        (("system", "Systeme"), "das System", "inflected"),
        (("x", "Haus " * 16), "Häuser " * 16, "inflected"),
        (("x", "Haus " * 17), "Häuser " * 17, "missing"),
    ],
)
def test_an_untranslated_word_is_not_a_form_of_a_term(term, target, kind):
    glossary, every_word = Glossary.of([term]), [(0, number) for number in range(17)]
    for options in (dict(alignment=every_word), dict(anywhere=True)):
        [use] = find_uses(term[0], glossary.matches(term[0]), target, **options)
        assert use.kind == kind


@pytest.mark.parametrize(
    ("terms", "source", "target"),
    [
        ([("a", "b")], "a ", "x "),
        ([("a", "b")], "a ", "b "),
        ([("a", "b b b b b b b")], "a-", "b "),
        ([(f"word{n}", f"aaab{n}") for n in range(400)], "", "aaac "),
        ([("a " * n, "b " * n) for n in range(1, 21)], "a ", "b "),
        (
            [
                (
                    "".join(
                        sign.upper() if n >> i & 1 else sign for i, sign in enumerate("xabcdefghij")
                    ),
                    "b",
                )
                for n in range(2, 1024, 2)
            ],
            "xabcdefghij ",
            "b ",
        ),
    ],
)
def test_work_is_in_proportion_to_the_texts(terms, source, target):
    glossary = Glossary.of(terms)

    def work(count):
        text = source * count or " ".join(term[0] for term in terms[:count])
        alignment = [(number // 2, number) for number in range(count)]
        matches = glossary.matches(text)
        steps = work_of(lambda: glossary.matches(text))
        for options in (dict(alignment=alignment), dict(anywhere=True), {}):
            find = functools.partial(find_uses, text, matches, target * count, **options)
            steps += work_of(find)
        return steps

    assert work(400) < 4.4 * work(100)


@pytest.mark.parametrize(
    ("target", "alignment", "beginnings", "full_texts"),
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
        # Of three places, the longest and the first.
        (
            "Kater und Katze mit Karl Kasimir",
            [(1, 0), (1, 2), (1, 4), (1, 5)],
            [
                "Kater und Katze mit Hund",
                "Hund",
                "Hund und",
                "Kater und Katze mit Karl Kasimir Hund",
            ],
            [
                "Kater und Katze mit Hund",
                "Hund und Katze mit Karl Kasimir",
                "Kater und Katze mit Karl Kasimir Hund",
            ],
        ),
        (
            "Der - ruht.",
            [(1, 1)],
            ["Der -Hund", "Der -Hund ruht.", "Der - Hund", "Der - Hund ruht."],
            ["Der -Hund ruht.", "Der - Hund ruht."],
        ),
        ("Ja, er ruht.", [(0, 0)], ["Ja, Hund", "Ja, Hund er"], ["Ja, Hund er ruht."]),
        # Where nothing is, behind the translation of the word before; in front of the full stop.
        ("Der ruht.", [(0, 0), (2, 1)], ["Der Hund", "Der Hund ruht."], ["Der Hund ruht."]),
        ("Er ist da.", [(0, 2)], ["Er ist da Hund", "Er ist da Hund."], ["Er ist da Hund."]),
        ("Er ist da.", [], ["Hund", "Hund Er"], ["Hund Er ist da."]),
        ("", [], ["Hund"], ["Hund"]),
    ],
)
def test_a_missing_term_is_put_in(target, alignment, beginnings, full_texts):
    source = "The dog sleeps"
    [match] = GLOSSARY.matches(source)
    assert insert_term(match, source, target, alignment) == (beginnings, full_texts)


def test_a_term_follows_the_translation_of_the_nearest_word_in_front():
    source = "see the big dog"
    [match] = GLOSSARY.matches(source)
    actual = insert_term(match, source, "sehe den großen da", [(0, 0), (2, 2)])
    assert actual.full_texts == ["sehe den großen Hund da"]


def test_a_capital_at_the_beginning():
    [match] = Glossary.of([("big", "grOß")]).matches("big dogs")
    actual = insert_term(match, "big dogs", "Kleine Hunde", [(0, 0), (1, 1)])
    assert actual.full_texts == ["GrOß Hunde", "Kleine grOß Hunde"]
    assert insert_term(match, "big dogs", "kleine Hunde", [(0, 0)]).full_texts[0] == "grOß Hunde"


def test_words_are_divided_by_ascii_white_space():
    assert split_words(" a\u00a0b\tc\u2028d  e ") == ["a\u00a0b", "c\u2028d", "e"]
