import math

import numpy as np
import pytest
import table_search

from t2t_keras.decoding.beam import Sampling
from t2t_keras.decoding.search import Constraints

EOS = 1
VOCAB_SIZE, LONGEST = 5, 4
SENTENCES, DRAWS = 80, 50


@pytest.fixture
def table():
    """The logits of one sentence; padding is likely, and must not be drawn."""
    table = table_search.random_logits(3, 1, VOCAB_SIZE, LONGEST)
    table[..., 0] = 3.0
    return table / 2


def allowed_probabilities(logits, temperature=1.0, top_k=0, top_p=1.0):
    """By the definitions, symbol by symbol."""
    weights = {i: math.exp(logits[i] / temperature) for i in range(1, VOCAB_SIZE)}
    kept = sorted(weights, key=weights.get, reverse=True)[: top_k or None]
    whole = sum(weights[i] for i in kept)
    nucleus, so_far = [], 0.0
    for i in kept:
        if so_far < top_p:
            nucleus.append(i)
        so_far += weights[i] / whole
    whole = sum(weights[i] for i in nucleus)
    return [weights[i] / whole if i in nucleus else 0.0 for i in range(VOCAB_SIZE)]


@pytest.mark.parametrize(
    "options",
    [dict(), dict(temperature=0.5), dict(top_k=1), dict(top_p=0.7), dict(top_k=3, top_p=0.8)],
    ids=str,
)
def test_symbols_are_as_frequent_as_they_are_likely(table, options):
    search = table_search.Search(Sampling(DRAWS, seed=1, **options), VOCAB_SIZE)
    found = search(np.repeat(table, SENTENCES, axis=0), [LONGEST] * SENTENCES)
    outputs = [symbols for sentence in found for symbols, _ in sentence]
    first = np.bincount([symbols[0] for symbols in outputs], minlength=VOCAB_SIZE)
    # The second symbol depends on the first.
    after = max(range(2, VOCAB_SIZE), key=lambda symbol: first[symbol])
    seconds = [symbols[1] for symbols in outputs if symbols[0] == after]
    second = np.bincount(seconds, minlength=VOCAB_SIZE)
    for counts, logits in ((first, table[0, 0]), (second, table[0, after])):
        expected = allowed_probabilities(logits, **options)
        # Four standard deviations of the mean of so many draws.
        frequencies, tolerance = counts / counts.sum(), 4 * 0.5 / counts.sum() ** 0.5
        np.testing.assert_allclose(frequencies, expected, atol=tolerance)
        assert (counts[np.array(expected) == 0] == 0).all()


def test_scores_are_the_model_s(table):
    search = table_search.Search(Sampling(50, temperature=2.0, top_k=9), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST], alpha=0.6)
    for symbols, score in outputs:
        log_prob = sum(
            table_search.following(table[0], symbols[:i])[symbol]
            for i, symbol in enumerate(symbols)
        )
        assert score == pytest.approx(log_prob / ((5 + len(symbols)) / 6) ** 0.6, abs=1e-5)
        assert symbols.index(EOS) == len(symbols) - 1


@pytest.mark.parametrize("options", [dict(), dict(top_k=3, top_p=0.8)], ids=str)
def test_seed_and_number_alone_decide_also_under_xla(options):
    tables = table_search.random_logits(5, 3, VOCAB_SIZE, LONGEST) / 4
    plain, compiled, reseeded = (
        table_search.Search(Sampling(20, seed=seed, **options), VOCAB_SIZE, xla)
        for seed, xla in ((7, False), (7, True), (8, False))
    )

    def symbols(search, table, numbers):
        found = search(table, [LONGEST] * len(table), None, numbers)
        return [[symbols for symbols, _ in sentence] for sentence in found]

    expected = symbols(plain, tables, [4, 0, 9])
    assert symbols(compiled, tables, [4, 0, 9]) == expected
    assert symbols(plain, tables[1:2], [0]) == expected[1:2]
    assert symbols(plain, tables[1:2], [1]) != expected[1:2]
    assert symbols(reseeded, tables, [4, 0, 9]) != expected
    assert len(set(expected[0])) > 5


def test_constraints(table):
    constraints = Constraints(min_length=3, forbidden=((2, 3), (4,)))
    search = table_search.Search(Sampling(300, constraints=constraints), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST], [[3]])
    # All that the constraints allow, and nothing else.
    possible = {(3, 2, EOS), (3, 2, 2, EOS), (3, 3, EOS), (3, 3, 2, EOS), (3, 3, 3, EOS)}
    assert {symbols for symbols, _ in outputs} == possible
