"""The toy grammar: correct German, construction by construction."""

import pytest

from t2t_keras.problems import toy_clauses, toy_inflection, toy_lexicon
from t2t_keras.problems.toy_clauses import (
    FRONTED,
    INFINITIVE,
    QUESTION,
    RELATIVE_TO_OBJECT,
    STATEMENT,
    SUBORDINATE,
    Pair,
)

VERBS = {(verb.english + " " + verb.english_particle).strip(): verb for verb in toy_lexicon.VERBS}
BE = toy_lexicon.GOVERNING_VERBS["sein"]
NOUNS = {noun.english: noun for noun in (*toy_lexicon.NOUNS, *toy_lexicon.NAMES)}
ADJECTIVES = {adjective.english: adjective for adjective in toy_lexicon.ADJECTIVES}
MODALS = {modal.english: modal for modal in toy_lexicon.MODALS}
TIMES = {adverb.english: adverb for adverb in toy_lexicon.TIMES}
PRONOUNS = {pronoun.english: pronoun for pronoun in toy_inflection.PRONOUNS}
OPENINGS = {
    "the": toy_inflection.THE,
    "a": toy_inflection.A,
    "this": toy_inflection.THIS,
    "every": toy_inflection.EVERY,
    "any": toy_inflection.NOT_ANY,
    "not a": toy_inflection.NOT_A,
    "": toy_inflection.BARE,
} | {each.english: each for each in toy_inflection.POSSESSIVES}
IN, BEHIND, WITH = (
    next(each for each in toy_lexicon.ADJUNCTS if each.english_preposition == english)
    for english in ("in", "behind", "with")
)


def phrase(opening, noun="", adjective="", plural=False, possessor=None):
    """Builds a noun phrase from dictionary entries: phrase("the", "dog", "old")."""
    if not noun:
        return PRONOUNS.get(opening) or toy_inflection.name(NOUNS[opening])
    return toy_inflection.noun_phrase(
        NOUNS[noun], OPENINGS[opening], ADJECTIVES.get(adjective), plural, possessor
    )


def clause(subject, verb, *objects, frame=0, time="", front=False, modal="", adjunct=None, **how):
    """Builds a clause from dictionary entries; the objects fill the verb's frame in order."""
    entry = VERBS[verb]
    made = toy_clauses.verb_clause(subject, entry, modal=MODALS.get(modal), **how)
    complements = entry.frames[frame]
    for complement, each in zip(complements, objects, strict=False):
        toy_clauses.fill_complement(made, complement, each, has_two=len(complements) > 1)
    if adjunct:
        made.fill("adjunct", toy_clauses.with_preposition(*adjunct))
    if time:
        toy_clauses.fill_time(made, TIMES[time], front)
    return made


def fronted_by(first, second):
    second.fill("front", first + Pair(",", ","))
    return second.words(FRONTED)


def asked(front, made):
    made.fill("front", front)
    return made.words(QUESTION)


MAN, WOMAN, DOG = phrase("the", "man"), phrase("the", "woman"), phrase("the", "dog")
ME, HE, SHE, WE, THEY = (PRONOUNS[each] for each in ("I", "he", "she", "we", "they"))

# Every German sentence here was written by hand.
GOLD = [
    (
        clause(MAN, "see", DOG, time="today").words(STATEMENT),
        "The man sees the dog today.",
        "Der Mann sieht heute den Hund.",
    ),
    (
        clause(SHE, "buy", phrase("a", "apple", "big")).words(STATEMENT),
        "She buys a big apple.",
        "Sie kauft einen großen Apfel.",
    ),
    (
        clause(phrase("a", "horse", "old"), "eat", phrase("", "apple", plural=True)).words(
            STATEMENT
        ),
        "An old horse eats apples.",
        "Ein altes Pferd isst Äpfel.",
    ),
    (
        clause(ME, "drink", phrase("", "milk", "cold")).words(STATEMENT),
        "I drink cold milk.",
        "Ich trinke kalte Milch.",
    ),
    (
        clause(phrase("this", "student", plural=True), "help", phrase("my", "aunt")).words(
            STATEMENT
        ),
        "These students help my aunt.",
        "Diese Studenten helfen meiner Tante.",
    ),
    (
        clause(WE, "thank", phrase("our", "neighbor", plural=True), past=True).words(STATEMENT),
        "We thanked our neighbors.",
        "Wir haben unseren Nachbarn gedankt.",
    ),
    (
        clause(HE, "show", phrase("the", "boy"), phrase("the", "knife", plural=True)).words(
            STATEMENT
        ),
        "He shows the boy the knives.",
        "Er zeigt dem Jungen die Messer.",
    ),
    (
        clause(
            phrase("the", "mouse", plural=True), "run", phrase("the", "garden"), past=True
        ).words(STATEMENT),
        "The mice ran into the garden.",
        "Die Mäuse sind in den Garten gelaufen.",
    ),
    (
        clause(WOMAN, "work", adjunct=(IN, phrase("the", "garden"))).words(STATEMENT),
        "The woman works in the garden.",
        "Die Frau arbeitet im Garten.",
    ),
    (
        clause(HE, "put", phrase("the", "book"), phrase("the", "table")).words(STATEMENT),
        "He puts the book on the table.",
        "Er legt das Buch auf den Tisch.",
    ),
    (
        clause(phrase("the", "book"), "lie", phrase("the", "table")).words(STATEMENT),
        "The book lies on the table.",
        "Das Buch liegt auf dem Tisch.",
    ),
    (
        clause(ME, "go", phrase("the", "school"), frame=1).words(STATEMENT),
        "I go to the school.",
        "Ich gehe zur Schule.",
    ),
    (
        clause(THEY, "drive", phrase("Munich"), time="tomorrow", front=True, modal="will").words(
            FRONTED
        ),
        "Tomorrow they will drive to Munich.",
        "Morgen werden sie nach München fahren.",
    ),
    (
        clause(phrase("Anna"), "open", phrase("the", "window")).words(STATEMENT),
        "Anna opens the window.",
        "Anna macht das Fenster auf.",
    ),
    (
        clause(SHE, "pick up", HE, past=True).words(STATEMENT),
        "She picked him up.",
        "Sie hat ihn abgeholt.",
    ),
    (
        clause(MAN, "sleep", past=True).words(STATEMENT)
        + Pair("because", ", weil")
        + clause(phrase("the", "child", plural=True), "tidy up", phrase("the", "room")).words(
            SUBORDINATE
        ),
        "The man slept because the children tidy up the room.",
        "Der Mann hat geschlafen, weil die Kinder das Zimmer aufräumen.",
    ),
    (
        fronted_by(
            Pair("although", "obwohl")
            + clause(SHE, "repair", phrase("the", "car", "cheap"), past=True).words(SUBORDINATE),
            clause(HE, "have", phrase("not a", "bicycle"), negative=True),
        ),
        "Although she repaired the cheap car, he does not have a bicycle.",
        "Obwohl sie das billige Auto repariert hat, hat er kein Fahrrad.",
    ),
    (
        clause(phrase("the", "doctor"), "buy", phrase("any", "egg", plural=True), negative=True)
        .words(STATEMENT),
        "The doctor does not buy any eggs.",
        "Der Arzt kauft keine Eier.",
    ),
    (
        clause(phrase("the", "bear"), "see", phrase("the", "boy"), negative=True).words(STATEMENT),
        "The bear does not see the boy.",
        "Der Bär sieht den Jungen nicht.",
    ),
    (
        clause(phrase("Peter"), "swim", modal="can", negative=True).words(STATEMENT),
        "Peter cannot swim.",
        "Peter kann nicht schwimmen.",
    ),
    (
        clause(phrase("every", "teacher"), "remember", phrase("the", "student"), time="today",
               front=True).words(FRONTED),
        "Today every teacher remembers the student.",
        "Heute erinnert sich jeder Lehrer an den Studenten.",
    ),
    (
        clause(ME, "rest", time="on Sunday", front=True, past=True).words(FRONTED),
        "On Sunday I rested.",
        "Am Sonntag habe ich mich ausgeruht.",
    ),
    (
        clause(phrase("the", "girl"), "sing", likes_to=True, time="often").words(STATEMENT),
        "The girl often likes to sing.",
        "Das Mädchen singt oft gern.",
    ),
    (
        clause(WOMAN, "know", phrase("his", "uncle"), past=True, question=True).words(QUESTION),
        "Did the woman know his uncle?",
        "Kannte die Frau seinen Onkel?",
    ),
    (
        asked(Pair("where", "wo"), clause(phrase("the", "sister", plural=True), "arrive",
                                          past=True, question=True)),
        "Where did the sisters arrive?",
        "Wo sind die Schwestern angekommen?",
    ),
    (
        clause(phrase("the", "car", "new", possessor=phrase("the", "teacher")), "belong",
               phrase("a", "actress", "famous"), past=True).words(STATEMENT),
        "The teacher's new car belonged to a famous actress.",
        "Das neue Auto des Lehrers gehörte einer berühmten Schauspielerin.",
    ),
    (
        clause(HE, "run", phrase("my", "park"), past=True).words(STATEMENT)
        + Pair("to", ", um")
        + clause(HE, "turn off", phrase("the", "lamp", "red")).words(INFINITIVE),
        "He ran into my park to turn off the red lamp.",
        "Er ist in meinen Park gelaufen, um die rote Lampe auszumachen.",
    ),
    (
        clause(ME, "go", phrase("the", "park")).words(STATEMENT)
        + Pair("to", ", um")
        + clause(ME, "rest").words(INFINITIVE),
        "I go into the park to rest.",
        "Ich gehe in den Park, um mich auszuruhen.",
    ),
]  # fmt: skip


def _mark(pair):
    verbs = ("did ", "where ")
    return toy_clauses.punctuated(pair, "?" if pair.english.startswith(verbs) else ".")


@pytest.mark.parametrize(("made", "english", "german"), GOLD, ids=[each[1] for each in GOLD])
def test_constructions_are_what_a_native_speaker_writes(made, english, german):
    assert _mark(made) == (english, german)


@pytest.mark.parametrize(
    ("head", "role", "german"),
    [
        (phrase("the", "man"), None, "der"),
        (phrase("the", "man"), "look", "den"),
        (phrase("the", "man"), "help", "dem"),
        (phrase("the", "girl"), None, "das"),
        (phrase("the", "woman"), "help", "der"),
        (phrase("the", "boy", plural=True), "see", "die"),
        (phrase("the", "boy", plural=True), "help", "denen"),
    ],
)
def test_relative_pronouns_agree(head, role, german):
    complement = VERBS[role].frames[0][0] if role else None
    pronoun = toy_clauses.relative_pronoun(head, complement)
    assert pronoun == Pair("whom" if role else "who", german)


def test_relative_clause_ends_with_its_verb():
    seen = clause(WE, "throw away", past=True)
    complement = VERBS["throw away"].frames[0][0]
    seen.fill("front", toy_clauses.relative_pronoun(phrase("the", "bottle"), complement))
    assert seen.words(RELATIVE_TO_OBJECT) == Pair("that we threw away", "die wir weggeworfen haben")


@pytest.mark.parametrize(
    ("adjective", "forms"),
    [
        ("the", ["der alte Hund", "den alten Hund", "dem alten Hund", "des alten Hundes"]),
        ("a", ["ein alter Hund", "einen alten Hund", "einem alten Hund", "eines alten Hundes"]),
        ("", ["alter Hund", "alten Hund", "altem Hund", "alten Hundes"]),
    ],
)  # fmt: skip
def test_weak_mixed_and_strong_adjectives(adjective, forms):
    assert list(phrase(adjective, "dog", "old").german.values()) == forms


@pytest.mark.parametrize(
    ("made", "dative"),
    [
        (phrase("the", "child", "young", plural=True), "den jungen Kindern"),
        (phrase("", "child", "young", plural=True), "jungen Kindern"),
        (phrase("our", "car", "expensive", plural=True), "unseren teuren Autos"),
        (phrase("the", "woman", plural=True), "den Frauen"),
        (phrase("this", "room", "dark"), "diesem dunklen Zimmer"),
        (phrase("a", "kitchen", "dark"), "einer dunklen Küche"),
        (phrase("the", "colleague", "tired"), "dem müden Kollegen"),
        (phrase("", "soup", "hot"), "heißer Suppe"),
    ],
)
def test_datives(made, dative):
    assert made.german["dative"] == dative


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (37, "thirty-seven", "siebenunddreißig"),
    ],
)
def test_numbers(number, english, german):
    assert toy_inflection.number_words(number) == (english, german)
