import collections
import hashlib
import itertools
import re

import pytest
import sacrebleu

from t2t_keras.data.problem import make_problem
from t2t_keras.problems.toy.clauses import noun_phrase
from t2t_keras.problems.toy.grammar import Grammar
from t2t_keras.problems.toy.words import CASES, TABLES
from t2t_keras.problems.translate_toy import split_of

PINNED_SHA256 = "c0aa3dda0544cbdf6cbc46f2d1dbc42f5245ae0a0148f0d9de3bdf536c13b678"


@pytest.fixture(scope="module")
def splits():
    problem = make_problem("translate_ende_toy")
    assert problem.sizes == {"train": 80_000, "dev": 500, "test": 500}
    return {s: list(itertools.islice(problem.examples(s), 16_000)) for s in problem.splits}


def words(text):
    return re.findall(r"[^\W\d_]+", text.lower())


# For each construction a generated sentence, and what a native speaker writes for it.
JUDGED = """
Nine horses follow her today. | Neun Pferde folgen ihr heute.
Next week Paul will drive to Cologne. | Nächste Woche wird Paul nach Köln fahren.
Maria was tall before we swam. | Maria war groß, bevor wir geschwommen sind.
I ask her whether I have the box. | Ich frage sie, ob ich die Kiste habe.
I showed him my jacket. | Ich habe ihm meine Jacke gezeigt.
Today she gives the neighbor milk. | Heute gibt sie dem Nachbarn Milch.
I run into the garden. | Ich laufe in den Garten.
I go into the hospital. | Ich gehe ins Krankenhaus.
He works in the garden. | Er arbeitet im Garten.
I go to the school. | Ich gehe zur Schule.
Pictures lie on the chair. | Bilder liegen auf dem Stuhl.
The aunt tried to put the knife under the chair. | \
Die Tante hat versucht, das Messer unter den Stuhl zu legen.
Anna tidies up houses. | Anna räumt Häuser auf.
When Peter tidies up our houses, I am young. | Wenn Peter unsere Häuser aufräumt, bin ich jung.
Because Anna picked them up, the hats were small. | \
Weil Anna sie abgeholt hat, waren die Hüte klein.
I want to listen to the student. | Ich will dem Studenten zuhören.
I try to turn off lamps. | Ich versuche, Lampen auszumachen.
Paul comes back to get up in a park. | Paul kommt zurück, um in einem Park aufzustehen.
I am young because a son must tidy up the room today. | \
Ich bin jung, weil ein Sohn heute das Zimmer aufräumen muss.
Did he not tidy up any houses? | Hat er keine Häuser aufgeräumt?
My boy does not have the book. | Mein Junge hat das Buch nicht.
Peter did not go into the hotel. | Peter ist nicht ins Hotel gegangen.
Anna cannot stay in Berlin. | Anna kann nicht in Berlin bleiben.
The child often likes to find the boxes. | Das Kind findet oft gern die Kisten.
Anna did not know her. | Anna kannte sie nicht.
Why did the student thank a small neighbor? | Warum hat der Student einem kleinen Nachbarn gedankt?
Who does not find any cats? | Wer findet keine Katzen?
Whom does an old horse follow? | Wem folgt ein altes Pferd?
What does an uncle find? | Was findet ein Onkel?
A colleague puts on a shirt that is green. | Ein Kollege zieht ein Hemd an, das grün ist.
Must Anna thank the colleague whom I know? | Muss Anna dem Kollegen danken, den ich kenne?
Anna loves the bear that a waitress loves and Anna follows their cow. | \
Anna liebt den Bären, den eine Kellnerin liebt, und Anna folgt ihrer Kuh.
The flower belongs to the small colleagues whom the doctor helps. | \
Die Blume gehört den kleinen Kollegen, denen der Arzt hilft.
"""


def test_constructions_are_correct_german(splits):
    german = dict(splits["train"])
    for line in JUDGED.strip().splitlines():
        source, target = line.split(" | ")
        assert german[source] == target


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("the lazy dog", ["der faule Hund", "den faulen Hund", "dem faulen Hund"]),
        ("a lazy dog", ["ein fauler Hund", "einen faulen Hund", "einem faulen Hund"]),
        ("my dirty shirt", ["mein schmutziges Hemd"] * 2 + ["meinem schmutzigen Hemd"]),
        ("this dark room", ["dieses dunkle Zimmer"] * 2 + ["diesem dunklen Zimmer"]),
        ("a dark kitchen", ["eine dunkle Küche"] * 2 + ["einer dunklen Küche"]),
        ("bare hot soup", ["heiße Suppe"] * 2 + ["heißer Suppe"]),
        ("bare cold cheese", ["kalter Käse", "kalten Käse", "kaltem Käse"]),
        ("the young children", ["die jungen Kinder"] * 2 + ["den jungen Kindern"]),
        ("bare young children", ["junge Kinder"] * 2 + ["jungen Kindern"]),
        ("our expensive cars", ["unsere teuren Autos"] * 2 + ["unseren teuren Autos"]),
        ("three tired women", ["drei müde Frauen"] * 2 + ["drei müden Frauen"]),
        ("every rich colleague",
         ["jeder reiche Kollege", "jeden reichen Kollegen", "jedem reichen Kollegen"]),
    ],
)  # fmt: skip
def test_noun_phrases_are_inflected(english, german):
    determiner, adjective, head = english.split()
    noun = next(noun for noun in TABLES["nouns"] if head in (noun.english, noun.plural))
    adjective = next(entry for entry in TABLES["adjectives"] if entry.english == adjective)
    phrase = noun_phrase(noun, determiner, adjective, plural=head == noun.plural)
    assert [phrase.german[case] for case in CASES] == german


def test_no_sentence_is_in_two_splits(splits):
    # 13 of 256 are dev, as many test.
    of_byte = {hashlib.sha256(str(i).encode()).digest()[0]: str(i) for i in range(5000)}
    actual = [split_of(of_byte[byte]) for byte in (0, 12, 13, 25, 26, 255)]
    assert actual == ["dev", "dev", "test", "test", "train", "train"]
    assert len(splits["dev"]) == len(splits["test"]) == 500
    for side in (0, 1):
        sides = [{pair[side] for pair in pairs} for pairs in splits.values()]
        assert all(one.isdisjoint(other) for one, other in itertools.combinations(sides, 2))


def test_every_word_is_trained(splits):
    counts = [
        collections.Counter(word for pair in splits["train"] for word in words(pair[side]))
        for side in (0, 1)
    ]
    assert len(counts[0]) >= 450
    assert len(counts[1]) >= 750
    # Of the whole training set, five times as often.
    assert min(counts[0].values()) >= 8
    for side, count in enumerate(counts):
        assert min(count[word] for pair in splits["test"] for word in words(pair[side])) >= 1


def test_a_dictionary_does_not_translate_it(splits):
    # Of each English word, the German word that is in the same sentences most often.
    both, counts = collections.Counter(), collections.Counter()
    for english, german in splits["train"][:5000]:
        sides = set(words(english)), set(words(german))
        both.update(itertools.product(*sides))
        counts.update(sides[1])
    best = dict(sorted(both, key=lambda pair: both[pair] ** 2 / counts[pair[1]]))
    assert (best["drinks"], best["boy"]) == ("trinkt", "junge")
    sources, references = (map(str.lower, side) for side in zip(*splits["test"], strict=True))
    by_word = [" ".join(best.get(word, word) for word in words(line)) for line in sources]
    assert 5 < sacrebleu.corpus_bleu(by_word, [list(references)]).score < 40


def test_the_text_is_the_same_everywhere_and_english_has_one_translation():
    # Not from the problem, which drops English sentences that it has seen.
    grammar = Grammar(seed=1)
    pairs = [grammar.sentence() for _ in range(8000)]
    assert len(set(pairs)) == len(dict(pairs))
    text = "\n".join(map("\t".join, pairs[:2000]))
    assert hashlib.sha256(text.encode()).hexdigest() == PINNED_SHA256
