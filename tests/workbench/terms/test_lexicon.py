import collections
import math
import random

import numpy as np
import pytest

from t2t_keras.workbench.terms.glossary import tokens_of
from t2t_keras.workbench.terms.pair_transform import Lexicon, affordable_pairs, learn_lexicon

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
            for j, made in enumerate(target):
                near = [
                    math.exp(-tension * abs((i + 0.5) / len(source) - (j + 0.5) / len(target)))
                    for i in range(len(source))
                ]
                likely = {None: of_none * table[None, made]}
                for i, maker in enumerate(source):
                    prior = (1 - of_none) * near[i] / sum(near)
                    likely[i] = prior * table[maker, made]
                for i, each in likely.items():
                    maker = None if i is None else source[i]
                    counts[maker, made] += each / sum(likely.values())
                    totals[maker] += each / sum(likely.values())
        table = collections.defaultdict(float)
        table.update({key: count / totals[key[0]] for key, count in counts.items()})
    return table


@pytest.fixture(scope="module")
def pairs():
    """Lines of words, translated one by one; adjectives go behind their nouns."""
    generator, found = random.Random(1), []
    for _ in range(300):
        source = generator.choices(list(WORDS), k=generator.randint(2, 6))
        target = [WORDS[word] for word in source]
        for i in range(len(target) - 1):
            if source[i] in ("red", "big"):
                target[i : i + 2] = target[i : i + 2][::-1]
        found.append((" ".join(source), " ".join(target).capitalize()))
    return found


def test_probabilities_are_those_of_the_model(pairs, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.terms.pair_transform._CELLS_AT_ONCE", 50)
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
        found = lexicon.translations(word)
        assert found == pytest.approx(expected, abs=1e-5)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert lexicon.count(word.title()) == sum(source.count(word) for source, _ in words)
    assert lexicon.count("never read") == 0


def test_links(pairs):
    lexicon = learn_lexicon(pairs)
    for source, target in pairs[:50]:
        sides = tokens_of(source), tokens_of(target)
        links = lexicon.links(*sides)
        assert all(WORDS[sides[0][i].text] == sides[1][j].text.casefold() for i, j in links)
        assert {sides[0][i].text for i, _ in links} == set(source.split())
        assert len({j for _, j in links}) == len(links)
    assert lexicon.links([], tokens_of("le chien")) == []
    twice = lexicon.links(tokens_of("dog the dog"), tokens_of("chien le chien"))
    assert twice == [(0, 0), (1, 1), (2, 2)]
    unknown = lexicon.links(tokens_of("a THE cat"), tokens_of("un chat LE"))
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
        assert lexicon.links(tokens_of("a"), tokens_of("b")) == []
        assert Lexicon.from_bytes(lexicon.to_bytes()).sources == []
    one = learn_lexicon([("dog", "chien")])
    assert one.translations("dog") == pytest.approx({"chien": 1.0})


def test_so_many_pairs_as_memory_holds(pairs, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.terms.pair_transform._MOST_CELLS", 400)
    cells = np.cumsum([len(source.split()) * len(target.split()) for source, target in pairs])
    fit = int((cells <= 400).sum())
    assert learn_lexicon(pairs).to_bytes() == learn_lexicon(pairs[:fit]).to_bytes()
    assert affordable_pairs(pairs) == 400 * len(pairs) // cells[-1]
    assert affordable_pairs([]) == 1
