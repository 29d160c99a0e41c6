"""The toy grammar: correct German, construction by construction."""

import pytest

from t2t_keras.problems.toy.clauses import PRONOUNS, Clause, noun_phrase
from t2t_keras.problems.toy.words import CASES, DETERMINERS, TABLES

ADJECTIVES = {each.english: each for each in TABLES["adjectives"]}
NOUNS = {form: each for each in TABLES["nouns"] for form in (each.plural, each.english)}
MODALS = {each.english.split("/")[0]: each for each in TABLES["modals"]}
TIMES = {each.english: each for each in TABLES["times"]}


def phrase(text):
    """Builds a noun phrase from its English: "a big apple", "these men", "him" is "he"."""
    if text in PRONOUNS:
        return PRONOUNS[text]
    *before, head = text.replace("these", "this").split()
    noun = NOUNS[head]
    determiner = before.pop(0) if before and before[0] in DETERMINERS else "bare"
    adjective = ADJECTIVES[before[0]] if before else None
    return noun_phrase(noun, determiner, adjective, plural=head == noun.plural)


def verb(english, complements):
    """Finds a verb by its English infinitive: that with as many complements."""
    base, _, particle = english.partition(" ")
    return next(
        each
        for each in TABLES["verbs"]
        if (each.english.split("/")[0], each.particle) == (base, particle)
        and len(each.complements) == complements
    )


def clause(subject, infinitive, *objects, time="", front="", adjunct="", modal="", **options):
    made = Clause(
        phrase(subject), verb(infinitive, len(objects)), modal=MODALS.get(modal), **options
    )
    for complement, each in zip(made.verb.complements, objects, strict=True):
        made.add(complement, phrase(each))
    for slot, adverb in ((time and TIMES[time].slot, time), ("front", front)):
        if adverb:
            made.fill(slot, (adverb, TIMES[adverb].german))
    if adjunct:
        preposition, _, place = adjunct.partition(": ")
        complements = [each.complements[0] for each in TABLES["adjuncts"]]
        complement = next(each for each in complements if each.preposition == preposition)
        made.add(complement, phrase(place), slot="adjunct")
    return made


STATEMENT, FRONTED = ("STATEMENT", "SECOND"), ("STATEMENT", "FIRST")
QUESTION, SUBORDINATE = ("QUESTION", "FIRST"), ("STATEMENT", "LAST")
INFINITIVE = ("INFINITIVE", "ZU")


# Every German sentence here was written by hand.
@pytest.mark.parametrize(
    ("made", "orders", "english", "german"),
    [
        (clause("the man", "see", "the dog", time="today"), STATEMENT,
         "the man sees the dog today", "der Mann sieht heute den Hund"),
        (clause("she", "buy", "a big apple"), STATEMENT,
         "she buys a big apple", "sie kauft einen großen Apfel"),
        (clause("a old horse", "eat", "apples"), STATEMENT,
         "an old horse eats apples", "ein altes Pferd isst Äpfel"),
        (clause("I", "drink", "cold milk"), STATEMENT,
         "I drink cold milk", "ich trinke kalte Milch"),
        (clause("these students", "help", "my aunt"), STATEMENT,
         "these students help my aunt", "diese Studenten helfen meiner Tante"),
        (clause("we", "thank", "our neighbors", past=True), STATEMENT,
         "we thanked our neighbors", "wir haben unseren Nachbarn gedankt"),
        (clause("he", "show", "the boy", "the knives"), STATEMENT,
         "he shows the boy the knives", "er zeigt dem Jungen die Messer"),
        (clause("the mice", "run", "the garden", past=True), STATEMENT,
         "the mice ran into the garden", "die Mäuse sind in den Garten gelaufen"),
        (clause("the woman", "work", adjunct="in: the garden"), STATEMENT,
         "the woman works in the garden", "die Frau arbeitet im Garten"),
        (clause("he", "put", "the book", "the table"), STATEMENT,
         "he puts the book on the table", "er legt das Buch auf den Tisch"),
        (clause("the book", "lie", "the table"), STATEMENT,
         "the book lies on the table", "das Buch liegt auf dem Tisch"),
        (clause("they", "fly", "Munich", front="tomorrow", modal="will"), FRONTED,
         "tomorrow they will fly to Munich", "morgen werden sie nach München fliegen"),
        (clause("Anna", "open", "the window"), STATEMENT,
         "Anna opens the window", "Anna macht das Fenster auf"),
        (clause("she", "pick up", "he", past=True), STATEMENT,
         "she picked him up", "sie hat ihn abgeholt"),
        (clause("the children", "tidy up", "the room"), SUBORDINATE,
         "the children tidy up the room", "die Kinder das Zimmer aufräumen"),
        (clause("she", "repair", "the new car", past=True), SUBORDINATE,
         "she repaired the new car", "sie das neue Auto repariert hat"),
        (clause("he", "have", "no bicycle", negative=True), FRONTED,
         "he does not have a bicycle", "hat er kein Fahrrad"),
        (clause("the doctor", "buy", "no eggs", negative=True), STATEMENT,
         "the doctor does not buy any eggs", "der Arzt kauft keine Eier"),
        (clause("the bear", "see", "the boy", negative=True), STATEMENT,
         "the bear does not see the boy", "der Bär sieht den Jungen nicht"),
        (clause("Peter", "swim", modal="can", negative=True), STATEMENT,
         "Peter can not swim", "Peter kann nicht schwimmen"),
        (clause("the girl", "sing", modal="like to", time="often"), STATEMENT,
         "the girl often likes to sing", "das Mädchen singt oft gern"),
        (clause("we", "sleep", modal="want to", negative=True), STATEMENT,
         "we do not want to sleep", "wir wollen nicht schlafen"),
        (clause("the woman", "know", "his uncle", past=True, question=True), QUESTION,
         "did the woman know his uncle", "kannte die Frau seinen Onkel"),
        (clause("who", "turn off", "the red lamp"), STATEMENT,
         "who turns off the red lamp", "wer macht die rote Lampe aus"),
        (clause("he", "turn off", "the red lamp"), INFINITIVE,
         "turn off the red lamp", "die rote Lampe auszumachen"),
        (clause("I", "listen", "the teacher", modal="should"), STATEMENT,
         "I should listen to the teacher", "ich sollte dem Lehrer zuhören"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)  # fmt: skip
def test_constructions_are_what_a_native_speaker_writes(made, orders, english, german):
    assert made.read(*orders) == (english, german)


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("the lazy dog", ["der faule Hund", "den faulen Hund", "dem faulen Hund"]),
        ("a lazy dog", ["ein fauler Hund", "einen faulen Hund", "einem faulen Hund"]),
        ("my dirty shirt", ["mein schmutziges Hemd"] * 2 + ["meinem schmutzigen Hemd"]),
        ("this dark room", ["dieses dunkle Zimmer"] * 2 + ["diesem dunklen Zimmer"]),
        ("a dark kitchen", ["eine dunkle Küche"] * 2 + ["einer dunklen Küche"]),
        ("hot soup", ["heiße Suppe"] * 2 + ["heißer Suppe"]),
        ("cold cheese", ["kalter Käse", "kalten Käse", "kaltem Käse"]),
        ("the young children", ["die jungen Kinder"] * 2 + ["den jungen Kindern"]),
        ("young children", ["junge Kinder"] * 2 + ["jungen Kindern"]),
        ("our expensive cars", ["unsere teuren Autos"] * 2 + ["unseren teuren Autos"]),
        ("three tired women", ["drei müde Frauen"] * 2 + ["drei müden Frauen"]),
        ("every colleague", ["jeder Kollege", "jeden Kollegen", "jedem Kollegen"]),
    ],
)  # fmt: skip
def test_noun_phrases_are_inflected(english, german):
    assert [phrase(english).german[case] for case in CASES] == german
