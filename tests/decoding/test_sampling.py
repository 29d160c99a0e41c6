import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.constraints import Constraints, Limits
from t2t_keras.decoding.loop import State
from t2t_keras.decoding.sampling import Sampling

EOS = 1
VOCAB_SIZE, LONGEST = 5, 4
DRAWS = 4000


@pytest.fixture
def table(table_search):
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
    [dict(), dict(temperature=0.5), dict(top_k=2), dict(top_p=0.7), dict(top_k=3, top_p=0.8)],
    ids=str,
)
def test_symbols_are_as_frequent_as_they_are_likely(table_search, table, options):
    search = table_search.Search(Sampling(DRAWS, seed=1, **options), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST])
    first = np.bincount([symbols[0] for symbols, _ in outputs], minlength=VOCAB_SIZE)
    expected = allowed_probabilities(table[0, 0], **options)
    # Four standard deviations of the mean of so many draws.
    np.testing.assert_allclose(first / DRAWS, expected, atol=4 * 0.5 / DRAWS**0.5)
    assert (first[np.array(expected) == 0] == 0).all()
    # The second symbol hangs on the first.
    after = max(range(2, VOCAB_SIZE), key=lambda symbol: first[symbol])
    seconds = [symbols[1] for symbols, _ in outputs if symbols[0] == after]
    second = np.bincount(seconds, minlength=VOCAB_SIZE) / len(seconds)
    expected = allowed_probabilities(table[0, after], **options)
    np.testing.assert_allclose(second, expected, atol=4 * 0.5 / len(seconds) ** 0.5)


@pytest.mark.parametrize("options", [dict(), dict(top_k=3), dict(top_k=3, top_p=0.8)], ids=str)
def test_the_vocabulary_is_not_sorted(options):
    vocab_size, none = 4096, tf.zeros([1, 0])
    vacant, ids = tf.zeros([1, 2]), tf.zeros([1, 2, LONGEST], tf.int32)
    state = State(ids, ids[:, :, 0], vacant, vacant > 0, none[None], ids, vacant)
    limits = Limits(tf.constant([LONGEST]), ids[:, 0, :0], tf.constant([0]), none)

    @tf.function(autograph=False)
    def extended(logits):
        return Sampling(2, **options).extended(state, logits, tf.constant(0), limits)

    graph = extended.get_concrete_function(tf.TensorSpec([1, 2, vocab_size])).graph
    ordered = [each for each in graph.get_operations() if each.type in ("TopKV2", "Sort")]
    assert all(each.inputs[0].shape[-1] <= vocab_size // 8 for each in ordered)
    assert bool(ordered) == bool(options)


def test_scores_are_the_model_s(table_search, table):
    search = table_search.Search(Sampling(50, alpha=0.6, temperature=2.0, top_k=3), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST])
    for symbols, score in outputs:
        log_prob = sum(
            table_search.following(table[0], symbols[:i])[symbol]
            for i, symbol in enumerate(symbols)
        )
        assert score == pytest.approx(log_prob / ((5 + len(symbols)) / 6) ** 0.6, abs=1e-5)
        assert symbols.index(EOS) == len(symbols) - 1


def test_one_of_the_likeliest_is_greedy(table_search, table):
    search = table_search.Search(Sampling(3, top_k=1), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST])
    symbols = ()
    while symbols[-1:] != (EOS,):
        log_probs = table_search.following(table[0], symbols)
        symbols += (EOS if len(symbols) == LONGEST - 1 else int(np.argmax(log_probs[1:])) + 1,)
    assert [found for found, _ in outputs] == [symbols] * 3


def test_a_seed_and_a_number_decide(table_search):
    tables = table_search.random_logits(5, 6, VOCAB_SIZE, LONGEST) / 4
    search = table_search.Search(Sampling(4, seed=7), VOCAB_SIZE)
    together = search(tables, [LONGEST] * 6)
    assert search(tables, [LONGEST] * 6) == together
    [alone] = search(tables[4:5], [LONGEST], None, [4])
    assert [symbols for symbols, _ in alone] == [symbols for symbols, _ in together[4]]
    assert search(tables[4:5], [LONGEST], None, [5]) != [alone]
    assert table_search.Search(Sampling(4, seed=8), VOCAB_SIZE)(tables, [LONGEST] * 6) != together


@pytest.mark.parametrize("options", [dict(), dict(top_k=3, top_p=0.8)], ids=str)
def test_compiled_by_xla_it_draws_the_same(table_search, options):
    tables = table_search.random_logits(5, 3, VOCAB_SIZE, LONGEST) / 4
    found, expected = (
        table_search.Search(Sampling(40, seed=7, **options), VOCAB_SIZE, xla=xla)(
            tables, [LONGEST] * 3, None, [4, 0, 9]
        )
        for xla in (True, False)
    )
    for ours, plain in zip(found, expected, strict=True):
        assert [symbols for symbols, _ in ours] == [symbols for symbols, _ in plain]
        assert [score for _, score in ours] == pytest.approx([score for _, score in plain])
    assert len({symbols for symbols, _ in expected[0]}) > 10


def test_constraints(table_search, table):
    constraints = Constraints(min_length=3, forbidden=((2, 3), (4,)))
    search = table_search.Search(Sampling(300, constraints=constraints), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST], [[3]])
    # All that the constraints allow, and nothing else.
    possible = {(3, 2, EOS), (3, 2, 2, EOS), (3, 3, EOS), (3, 3, 2, EOS), (3, 3, 3, EOS)}
    assert {symbols for symbols, _ in outputs} == possible


@pytest.mark.parametrize(
    "options", [dict(temperature=0.0), dict(top_k=-1), dict(top_p=0.0), dict(top_p=1.5)]
)
def test_refuses_what_it_cannot_do(options):
    [name] = options
    with pytest.raises(ValueError, match=f"{name}={options[name]}"):
        Sampling(1, **options)
