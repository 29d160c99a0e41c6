"""The toy problem: no leakage, and nothing that a dictionary could translate."""

import collections
import hashlib
import re

import pytest
import sacrebleu

from t2t_keras import registry
from t2t_keras.problems.toy.grammar import Grammar

PINNED_SHA256 = "c0aa3dda0544cbdf6cbc46f2d1dbc42f5245ae0a0148f0d9de3bdf536c13b678"


@pytest.fixture(scope="module")
def splits():
    problem = registry.problem("translate_ende_toy")
    return {split: list(problem.examples(split)) for split in problem.splits}


def words(text):
    return re.findall(r"[^\W\d_]+", text.lower())


def test_sizes_and_no_sentence_in_two_splits(splits):
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sizes == {"train": 80_000, "dev": 500, "test": 500}
    for side in (0, 1):
        train, dev, test = ({pair[side] for pair in splits[s]} for s in ("train", "dev", "test"))
        assert not train & dev
        assert not train & test
        assert not dev & test


def test_an_english_sentence_has_one_translation():
    # Not from the problem, which drops English sentences that it has seen.
    grammar, translation = Grammar(seed=7), {}
    for _ in range(20_000):
        english, german = grammar.sentence()
        assert translation.setdefault(english, german) == german


def test_every_word_is_trained(splits):
    counts = [
        collections.Counter(word for pair in splits["train"] for word in words(pair[side]))
        for side in (0, 1)
    ]
    assert len(counts[0]) >= 450
    assert len(counts[1]) >= 750
    assert min(counts[0].values()) >= 40
    for side, count in enumerate(counts):
        assert min(count[word] for pair in splits["test"] for word in words(pair[side])) >= 5


def dictionary(pairs, iterations=4):
    """Learns which word translates which, by expectation maximisation: IBM model 1.

    Brown et al., "The Mathematics of Statistical Machine Translation", section 4.1.
    """
    probability = collections.defaultdict(lambda: 1.0)
    for _ in range(iterations):
        count, total = collections.Counter(), collections.Counter()
        for source, target in pairs:
            for word in target:
                norm = sum(probability[each, word] for each in source)
                for each in source:
                    share = probability[each, word] / norm
                    count[each, word] += share
                    total[each] += share
        probability = {pair: share / total[pair[0]] for pair, share in count.items()}
    best = {}
    for (source, target), share in sorted(probability.items()):
        if share > best.get(source, ("", 0))[1]:
            best[source] = (target, share)
    return {source: target for source, (target, _) in best.items()}


def test_copying_and_a_dictionary_do_not_translate_it(splits):
    def tokens(text):
        return re.findall(r"\w+|[^\w\s]", text)

    sources, references = zip(*splits["test"], strict=True)
    best = dictionary([tuple(map(tokens, pair)) for pair in splits["train"][:3000]])
    assert (best["drinks"], best["boy"]) == ("trinkt", "Junge")
    by_word = [" ".join(best.get(word, word) for word in tokens(line)) for line in sources]
    by_word = [re.sub(r" ([,.?])", r"\1", line[0].upper() + line[1:]) for line in by_word]
    assert sacrebleu.corpus_bleu(sources, [references]).score < 40
    assert 5 < sacrebleu.corpus_bleu(by_word, [references]).score < 40


def test_text_is_the_same_everywhere():
    grammar = Grammar(seed=1)
    text = "\n".join("\t".join(grammar.sentence()) for _ in range(2000))
    assert hashlib.sha256(text.encode()).hexdigest() == PINNED_SHA256
