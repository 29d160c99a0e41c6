"""The lexicon, and hints that are drawn by it for training text."""

import collections
import math
import random
import re

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.augmentation import OnlineAugmentation
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.workbench.terms.glossary import MARKS, tokens_of, without_hints
from t2t_keras.workbench.terms.pair_transform import (
    HintDrawer,
    Lexicon,
    estimate_max_pairs,
    learn_lexicon,
)

WORDS = {
    "the": "le",
    "dog": "chien",
    "red": "rouge",
    "house": "maison",
    "sees": "voit",
    "big": "gros",
}


def reference(pairs, direction, iterations=5, tension=4.0, of_none=0.08):
    """IBM model 2 with the prior of Dyer et al. (2013), one word after the other."""
    pairs = [pair[::direction] for pair in pairs]
    table = collections.defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = collections.Counter(), collections.Counter()
        for source, target in pairs:
            for j, word in enumerate(target):
                near = [
                    math.exp(-tension * abs((i + 0.5) / len(source) - (j + 0.5) / len(target)))
                    for i in range(len(source))
                ]
                likely = {None: of_none * table[None, word]}
                for i, maker in enumerate(source):
                    prior = (1 - of_none) * near[i] / sum(near)
                    likely[i] = prior * table[maker, word]
                for i, weight in likely.items():
                    maker = None if i is None else source[i]
                    counts[maker, word] += weight / sum(likely.values())
                    totals[maker] += weight / sum(likely.values())
        table = collections.defaultdict(float)
        table.update({key: count / totals[key[0]] for key, count in counts.items()})
    return table


@pytest.fixture(scope="module")
def pairs():
    """Lines of words, translated one by one; adjectives go behind their nouns."""
    generator, actual = random.Random(1), []
    for _ in range(300):
        source = generator.choices(list(WORDS), k=generator.randint(2, 6))
        target = [WORDS[word] for word in source]
        for i in range(len(target) - 1):
            if source[i] in ("red", "big"):
                target[i : i + 2] = target[i : i + 2][::-1]
        actual.append((" ".join(source), " ".join(target).capitalize()))
    return actual


def test_probabilities_are_those_of_the_model(pairs, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.terms.pair_transform._MAX_BLOCK_CELLS", 50)
    some = pairs[:40]
    lexicon = learn_lexicon(some)
    words = [[side.casefold().split() for side in pair] for pair in some]
    forward, backward = reference(words, 1), reference(words, -1)
    for word in WORDS:
        expected = {
            other: forward[word, other] * backward[other, word]
            for other in WORDS.values()
            if min(forward[word, other], backward[other, word]) >= 0.01
        }
        translations = lexicon.translations(word)
        assert translations == pytest.approx(expected, abs=1e-5)
        assert list(translations.values()) == sorted(translations.values(), reverse=True)
        assert lexicon.count(word.title()) == sum(source.count(word) for source, _ in words)
    assert lexicon.count("never read") == 0


def test_links(pairs):
    lexicon = learn_lexicon(pairs)
    for source, target in pairs[:50]:
        sides = tokens_of(source), tokens_of(target)
        links = lexicon.align(*sides)
        assert all(WORDS[sides[0][i].text] == sides[1][j].text.casefold() for i, j in links)
        assert {sides[0][i].text for i, _ in links} == set(source.split())
        assert len({j for _, j in links}) == len(links)
    assert lexicon.align([], tokens_of("le chien")) == []
    twice = lexicon.align(tokens_of("dog the dog"), tokens_of("chien le chien"))
    assert twice == [(0, 0), (1, 1), (2, 2)]
    unknown = lexicon.align(tokens_of("a THE cat"), tokens_of("un chat LE"))
    assert unknown == [(1, 2)]


def test_it_is_kept_bit_for_bit_and_without_words(pairs):
    lexicon = learn_lexicon(pairs)
    content = lexicon.to_bytes()
    assert learn_lexicon(pairs).to_bytes() == content
    again = Lexicon.from_bytes(content)
    assert again.to_bytes() == content
    assert again.translations("Dog") == lexicon.translations("dog") != {}
    fewer = again.without(["Dog", "never read"], ["maison"])
    assert fewer.translations("dog") == {}
    assert "maison" not in fewer.translations("house")
    assert fewer.translations("red") == lexicon.translations("red")


def test_a_hundred_words_are_read():
    assert learn_lexicon([("a " * 100, "b")]).translations("a").keys() == {"b"}
    assert learn_lexicon([("b", "a " * 100)]).translations("b").keys() == {"a"}


def test_little_text():
    for nothing in ([], [("", "")], [("a " * 101, "b")], [("b", "a " * 101)]):
        lexicon = learn_lexicon(nothing)
        assert len(lexicon) == 0
        assert lexicon.translations("a") == {}
        assert lexicon.align(tokens_of("a"), tokens_of("b")) == []
        assert Lexicon.from_bytes(lexicon.to_bytes()).sources == []
    one = learn_lexicon([("dog", "chien")])
    assert one.translations("dog") == pytest.approx({"chien": 1.0})


def test_so_many_pairs_as_memory_holds(pairs, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.terms.pair_transform._MAX_CELLS", 400)
    cells = np.cumsum([len(source.split()) * len(target.split()) for source, target in pairs])
    fit = int((cells <= 400).sum())
    assert learn_lexicon(pairs).to_bytes() == learn_lexicon(pairs[:fit]).to_bytes()
    assert estimate_max_pairs(pairs) == 400 * len(pairs) // cells[-1]
    assert estimate_max_pairs([]) == 1


PAIRS = [
    ("The dog sees the red house.", "Der Hund sieht das rote Haus."),
    ("The red dog sleeps.", "Der rote Hund schläft."),
    ("A house sleeps.", "Ein Haus schläft."),
    ("The dogs see the red houses.", "Die Hunde sehen die roten Häuser."),
    ("The dog eats.", "Der Hund frisst."),
    ("The big house of the dog", "Das große Haus des Hundes"),
]
SETTINGS = "source_language=en,target_language=de,vocab_size=330,transforms=terms"


@pytest.fixture(scope="module")
def drawer():
    return HintDrawer(learn_lexicon(PAIRS * 5))


def drawn(drawer, pair, count=300):
    actual = [drawer(*pair, random.Random(seed)) for seed in range(count)]
    assert {without_hints(source) for source, _ in actual} == {pair[0]}
    assert {target for _, target in actual} == {pair[1]}
    return [re.findall("⟪ [^⟪⟫]*?(\\w+) ⟪ ([^⟪⟫]+) ⟫", source) for source, _ in actual]


def test_hints_are_the_references_words_behind_those_they_translate(drawer):
    actual = drawn(drawer, ("The red dog eats.", "Der rote Hund frisst."))
    assert {len(hints) for hints in actual} == {1, 2, 3, 4}
    every = {hint for hints in actual for hint in hints}
    assert {("dog", "Hund"), ("eats", "frisst"), ("The", "Der")} <= every
    # Another form of the corpus; a phrase; and the first word as a glossary would have it.
    assert {("red", "rote"), ("red", "roten"), ("dog", "Hundes"), ("The", "der")} <= every
    assert ("dog", "rote Hund") in every
    # Only forms of the word, and no other case inside a sentence.
    assert {text for word, text in every if word == "dog" and " " not in text} == {"Hund", "Hundes"}


def test_rare_words_are_hinted_more_often(drawer):
    first = [hints[0][0] for hints in drawn(drawer, PAIRS[4]) if len(hints) == 1]
    assert first.count("eats") > 1.2 * first.count("The") > 0


def test_what_has_no_hints(drawer):
    same = random.Random(1)
    for pair in (
        ("cat", "Katze"),
        ("%dog", "Hund"),
        ("dog", "{Hund}"),
        ("", ""),
        ("A ⟪ dog ⟪ Hund ⟫", "Ein Hund"),
        ("%dog {house} <dog> dog_house", "%Hund {Haus} <Hund> Hund_Haus"),
    ):
        assert drawer(*pair, same) == pair


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    for split in ("train", "dev"):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in PAIRS * 20)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    problem = make_problem("parallel_text", SETTINGS)
    generate(problem, folder / "data", folder)
    return open_generated(problem, folder / "data")


def test_data_has_the_marks_and_a_lexicon(generated):
    pieces = generated.tokenizer.vocabulary()
    assert all(f"▁{mark}" in pieces for mark in MARKS)
    hinted, _ = generated.augmentations["terms"]("The dog", "Der Hund", random.Random(0))
    assert "dog ⟪ Hund ⟫" in hinted
    hinted = "The ⟪ dog ⟪ Hund ⟫, too"
    [ids] = generated.tokenizer.encode([hinted])
    assert generated.tokenizer.decode([ids]) == [hinted]
    assert {pieces["▁⟪"], pieces["▁⟫"]} <= set(ids.tolist())


@pytest.mark.parametrize("sampling", [0, 0.2])
def test_a_training_reads_hints(generated, sampling):
    store, numbers = generated.open_examples("train"), np.arange(120)
    vary = OnlineAugmentation(
        generated.tokenizer,
        1,
        sampling,
        augment={"terms": 0.4},
        transform_changes=generated.augmentations,
    )
    actual = vary.examples(store, numbers, 3)
    sources = generated.tokenizer.decode(actual.padded(np.arange(120), "source"))
    targets = generated.tokenizer.decode(actual.padded(np.arange(120), "target"))
    assert list(zip(map(without_hints, sources), targets, strict=True)) == PAIRS * 20
    share = sum(source != without_hints(source) for source in sources) / 120
    assert share == pytest.approx(0.4, abs=0.12)


def test_what_is_refused():
    with refused("conflicting_settings", "transforms=terms"):
        make_problem("parallel_text", "augment={upper: 0.1, terms: 0.3}")
    with refused("conflicting_settings", "augment={terms: 0.3}", "transforms=terms"):
        make_problem("translate_ende_toy", "augment={terms: 0.3}")
    assert make_problem("parallel_text", f"{SETTINGS},augment={{terms: 0.3}}").pair_transforms
    with refused("unknown_name", "augmentation 'placeholders'"):
        make_problem("parallel_text", "augment={placeholders: 1}")
    with refused("conflicting_settings", "transforms=[placeholders]", "parsing_trees"):
        make_problem("parsing_trees", "transforms=placeholders")
    with refused("unknown_name", "pair transform 'placeholder'", "'placeholders'"):
        make_problem("parallel_text", "transforms=placeholder")
