"""The toy problem: no leakage, and nothing that a dictionary could translate."""

import collections
import hashlib
import itertools
import re

import pytest
import sacrebleu

from t2t_keras import registry
from t2t_keras.problems.toy.grammar import Grammar

PINNED_SHA256 = "c0aa3dda0544cbdf6cbc46f2d1dbc42f5245ae0a0148f0d9de3bdf536c13b678"


@pytest.fixture(scope="module")
def splits():
    """The splits, the training set cut short."""
    problem = registry.problem("translate_ende_toy")
    assert problem.sizes == {"train": 80_000, "dev": 500, "test": 500}
    return {s: list(itertools.islice(problem.examples(s), 16_000)) for s in problem.splits}


def words(text):
    return re.findall(r"[^\W\d_]+", text.lower())


def test_no_sentence_is_in_two_splits(splits):
    assert len(splits["dev"]) == len(splits["test"]) == 500
    for side in (0, 1):
        sides = [{pair[side] for pair in pairs} for pairs in splits.values()]
        assert all(one.isdisjoint(other) for one, other in itertools.combinations(sides, 2))


def test_an_english_sentence_has_one_translation():
    # Not from the problem, which drops English sentences that it has seen.
    grammar, translation = Grammar(seed=7), {}
    for _ in range(8000):
        english, german = grammar.sentence()
        assert translation.setdefault(english, german) == german


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
    best = {}
    for pair in sorted(both, key=lambda pair: both[pair] ** 2 / counts[pair[1]]):
        best[pair[0]] = pair[1]
    assert (best["drinks"], best["boy"]) == ("trinkt", "junge")
    sources, references = (map(str.lower, side) for side in zip(*splits["test"], strict=True))
    by_word = [" ".join(best.get(word, word) for word in words(line)) for line in sources]
    assert 5 < sacrebleu.corpus_bleu(by_word, [list(references)]).score < 40


def test_text_is_the_same_everywhere():
    grammar = Grammar(seed=1)
    text = "\n".join("\t".join(grammar.sentence()) for _ in range(2000))
    assert hashlib.sha256(text.encode()).hexdigest() == PINNED_SHA256
