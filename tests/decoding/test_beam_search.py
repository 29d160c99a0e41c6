"""The search against exhaustive search and against a plain Python beam search.

The "model" is a table of logits, see `table_search`.
"""

import itertools
import math

import numpy as np
import pytest

from t2t_keras.decoding.beam_search import BeamSearch
from t2t_keras.decoding.constraints import BOUNDARY, Constraints

PADDING, EOS = 0, 1


@pytest.fixture
def make_search(table_search):
    """Returns a function that makes a search from arguments of `BeamSearch` and `Search`."""

    def make(vocab_size, xla=False, attention=None, **options):
        return table_search.Search(BeamSearch(**options), vocab_size, xla=xla, attention=attention)

    return make


@pytest.fixture
def exhaustive_search(table_search):
    """All finished sequences of at most `max_length` symbols, best first."""

    def search(table, max_length, alpha, penalty=lambda symbols: 0.0):
        found = []
        for length in range(max_length):
            for symbols in itertools.product(range(2, table.shape[-1]), repeat=length):
                sequence = (*symbols, EOS)
                log_prob = sum(
                    table_search.following(table, sequence[:position])[symbol]
                    for position, symbol in enumerate(sequence)
                )
                score = log_prob / ((5 + len(sequence)) / 6) ** alpha - penalty(sequence)
                found.append((sequence, score))
        return sorted(found, key=lambda hypothesis: -hypothesis[1])

    return search


def assert_same(found, expected):
    """The same sequences in the same order, scores to 1e-5; vacant places are the last."""
    real = [hypothesis for hypothesis in found if hypothesis[1] > -math.inf]
    assert [symbols for symbols, _ in real] == [symbols for symbols, _ in expected]
    np.testing.assert_allclose(
        [score for _, score in real], [score for _, score in expected], rtol=1e-5, atol=1e-5
    )
    assert found[len(real) :] == [((), -math.inf)] * (len(found) - len(real))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
def test_wide_beam_is_exhaustive_search(table_search, make_search, exhaustive_search, alpha):
    vocab_size, longest = 5, 4
    widest = 3**3 * 4  # hypotheses with three symbols, times their continuations
    max_lengths = [4, 3, 2, 1, 4, 4, 4, 4]
    tables = table_search.random_logits(7, len(max_lengths), vocab_size, longest)
    search = make_search(vocab_size, beam_size=widest, alpha=alpha, num_hypotheses=20)
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):
        assert_same(found, exhaustive_search(table, max_length, alpha)[:20])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("beam_size", "num_hypotheses"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 5)])
def test_agrees_with_plain_python(
    table_search, make_search, plain_beam_search, alpha, beam_size, num_hypotheses
):
    vocab_size, longest, sentences = 4, 7, 120
    tables = table_search.random_logits(beam_size, sentences, vocab_size, longest)
    tables[sentences // 2 :, :, EOS] += 3.0  # short outputs in one half of the batch
    max_lengths = np.random.default_rng(1).integers(1, longest + 1, sentences)
    search = make_search(
        vocab_size, beam_size=beam_size, alpha=alpha, num_hypotheses=num_hypotheses
    )
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):

        def following(prefix, table=table):
            return table_search.following(table, prefix)

        expected = plain_beam_search(following, max_length, alpha, beam_size)
        assert_same(found, expected[:num_hypotheses])


# Where the step after each symbol looks: symbols 2 to 4 at a part of the source each, 4 at two.
ATTENTION = np.array(
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.0, 0.5, 0.5]]
)


def uncovered(beta):
    """Returns -beta times the coverage penalty of symbols (Wu et al., 2016, equation 14)."""

    def penalty(symbols):
        covered = np.sum([np.zeros(3), *(ATTENTION[symbol] for symbol in symbols[:-1])], axis=0)
        return -beta * np.log(np.clip(covered, 1e-9, 1.0)).sum()

    return penalty


def test_wide_beam_with_coverage_is_exhaustive_search(table_search, make_search, exhaustive_search):
    vocab_size, longest, alpha, beta = 5, 4, 0.6, 0.4
    max_lengths = [4, 3, 2, 1, 4, 4, 4, 4]
    tables = table_search.random_logits(29, len(max_lengths), vocab_size, longest)
    search = make_search(
        vocab_size, attention=ATTENTION, beam_size=108, alpha=alpha, num_hypotheses=20, beta=beta
    )
    changed = 0
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):
        expected = exhaustive_search(table, max_length, alpha, uncovered(beta))
        assert_same(found, expected[:20])
        changed += expected[0][0] != exhaustive_search(table, max_length, alpha)[0][0]
    assert changed > 2


@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "beta"), [(1, 1, 2.0), (3, 1, 0.2), (3, 3, 2.0)]
)
def test_coverage_agrees_with_plain_python(
    table_search, make_search, plain_beam_search, beam_size, num_hypotheses, beta
):
    """The reference goes on until nothing is live: a stop that came too early would show."""
    vocab_size, longest, sentences = 5, 6, 60
    tables = table_search.random_logits(beam_size, sentences, vocab_size, longest)
    tables[sentences // 2 :, :, EOS] += 3.0  # short outputs in one half of the batch
    max_lengths = np.random.default_rng(6).integers(1, longest + 1, sentences)
    options = dict(beam_size=beam_size, alpha=0.6, num_hypotheses=num_hypotheses)
    search = make_search(vocab_size, attention=ATTENTION, beta=beta, **options)
    changed = 0
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):

        def following(prefix, table=table):
            return table_search.following(table, prefix)

        expected = plain_beam_search(following, max_length, 0.6, beam_size, uncovered(beta))
        assert_same(found, expected[:num_hypotheses])
        free = plain_beam_search(following, max_length, 0.6, beam_size)
        changed += [symbols for symbols, _ in free] != [symbols for symbols, _ in expected]
    assert changed > 3 or beam_size == 1


def test_beam_of_one_is_greedy(table_search, make_search):
    vocab_size, longest, sentences = 6, 5, 50
    tables = table_search.random_logits(3, sentences, vocab_size, longest)
    search = make_search(vocab_size, beam_size=1, alpha=0.6)
    for table, [(symbols, _)] in zip(tables, search(tables, [longest] * sentences), strict=True):
        expected = ()
        while expected[-1:] != (EOS,):
            following = table[table_search.prefix_code(expected, vocab_size)].copy()
            following[PADDING] = -np.inf
            at_last = len(expected) == longest - 1
            expected += (EOS if at_last else int(np.argmax(following)),)
        assert symbols == expected


def test_batch_equals_single_and_repeats_itself(table_search, make_search):
    vocab_size, longest, sentences = 4, 6, 20
    tables = table_search.random_logits(11, sentences, vocab_size, longest)
    max_lengths = np.random.default_rng(2).integers(1, longest + 1, sentences)
    search = make_search(vocab_size, beam_size=3, alpha=0.6, num_hypotheses=3)
    together = search(tables, max_lengths)
    assert together == search(tables, max_lengths)
    for sentence in range(sentences):
        one = slice(sentence, sentence + 1)
        [alone] = search(tables[one], max_lengths[one])
        assert_same(alone, [found for found in together[sentence] if found[1] > -math.inf])


def test_maximum_length_is_each_sentences_own(table_search, make_search):
    vocab_size, longest = 4, 7
    tables = table_search.random_logits(5, 7, vocab_size, longest)
    tables[..., EOS] -= 20.0  # none ends by itself
    search = make_search(vocab_size, beam_size=2, alpha=0.6)
    found = search(tables, [1, 2, 3, 4, 5, 6, 7])
    assert [len(symbols) for [(symbols, _)] in found] == [1, 2, 3, 4, 5, 6, 7]
    assert all(symbols.index(EOS) == len(symbols) - 1 for [(symbols, _)] in found)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_minimum_length(table_search, make_search, plain_beam_search, beam_size):
    vocab_size, longest, min_length = 4, 6, 4
    tables = table_search.random_logits(13, 30, vocab_size, longest)
    max_lengths = np.random.default_rng(3).integers(1, longest + 1, len(tables))
    search = make_search(
        vocab_size, beam_size=beam_size, alpha=0.6, constraints=Constraints(min_length)
    )
    lengths = []
    for [(symbols, score)], table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):

        def following(prefix, table=table):
            log_probs = table_search.following(table, prefix)
            # The end that the longest output must have comes at any rate.
            if len(prefix) < min(min_length, max_length) - 1:  # noqa: B023
                log_probs[EOS] = -np.inf
            return log_probs

        [expected, *_] = plain_beam_search(following, max_length, 0.6, beam_size)
        assert_same([(symbols, score)], [expected])
        lengths.append(len(symbols))
    assert lengths.count(min_length) > 3
    assert all(
        n >= min(min_length, longest) for n, longest in zip(lengths, max_lengths, strict=True)
    )


def test_compiled_by_xla_it_finds_the_same(table_search, make_search):
    vocab_size, longest, sentences = 4, 7, 24
    tables = table_search.random_logits(17, sentences, vocab_size, longest)
    tables[6:, :, EOS] += 9.0  # most sentences end early, and leave
    max_lengths = np.random.default_rng(4).integers(1, longest + 1, sentences)
    options = dict(beam_size=3, alpha=0.6, num_hypotheses=3)
    for found, expected in zip(
        make_search(vocab_size, xla=True, **options)(tables, max_lengths),
        make_search(vocab_size, **options)(tables, max_lengths),
        strict=True,
    ):
        assert_same(found, [each for each in expected if each[1] > -math.inf])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_prefixes(table_search, make_search, plain_beam_search, beam_size):
    vocab_size, longest = 4, 6
    tables = table_search.random_logits(19, 40, vocab_size, longest)
    random = np.random.default_rng(5)
    prefixes = random.integers(2, vocab_size, [len(tables), 4])
    prefixes[np.arange(4) >= random.integers(0, 5, len(tables))[:, None]] = PADDING
    search = make_search(vocab_size, beam_size=beam_size, alpha=0.6)
    for [found], table, prefix in zip(
        search(tables, [longest] * len(tables), prefixes), tables, prefixes, strict=True
    ):
        given = prefix[prefix != PADDING].tolist()

        def following(before, table=table, given=given):
            log_probs = table_search.following(table, before)
            if len(before) < len(given):
                others = np.arange(vocab_size) != given[len(before)]
                log_probs = np.where(others, -np.inf, log_probs)
            return log_probs

        [expected, *_] = plain_beam_search(following, longest, 0.6, beam_size)
        assert expected[0][: len(given)] == tuple(given)
        assert_same([found], [expected])


@pytest.mark.parametrize("xla", [False, True])
def test_forbidden_sequences(table_search, make_search, plain_beam_search, xla):
    vocab_size, longest = 5, 6
    forbidden = ((2,), (3, 4), (4, 4, 3), (BOUNDARY, 3), (BOUNDARY, 4, 4))
    boundaries = (PADDING, 3)
    tables = table_search.random_logits(23, 40, vocab_size, longest)
    constraints = Constraints(forbidden=forbidden, boundaries=boundaries)
    search = make_search(vocab_size, xla, beam_size=3, alpha=0.6, constraints=constraints)
    changed = 0
    for [found], [free], table in zip(
        search(tables, [longest] * len(tables)),
        make_search(vocab_size, beam_size=3, alpha=0.6)(tables, [longest] * len(tables)),
        tables,
        strict=True,
    ):

        def following(before, table=table):
            log_probs = table_search.following(table, before)
            begun = (PADDING, *before)
            for phrase in forbidden:
                is_inside = phrase[0] == BOUNDARY
                for first in boundaries if is_inside else [None]:
                    so_far = (first, *phrase[1:-1]) if is_inside else phrase[:-1]
                    if begun[max(len(begun) - len(so_far), 0) :] == so_far:
                        log_probs[phrase[-1]] = -np.inf
            return log_probs

        [expected, *_] = plain_beam_search(following, longest, 0.6, 3)
        assert_same([found], [expected])
        changed += found != free
    assert changed > 10


def test_padding_is_never_chosen(table_search, make_search):
    tables = table_search.random_logits(5, 4, 4, 5)
    tables[..., PADDING] += 20.0
    ids, scores = make_search(4, beam_size=3, alpha=0.6, num_hypotheses=3).ids_and_scores(
        tables, ([5, 5, 4, 3])
    )
    lengths = np.count_nonzero(ids, axis=-1)
    ends = np.argmax(ids == EOS, axis=-1) + 1
    np.testing.assert_array_equal(lengths, ends)
    assert np.isfinite(scores).all()


def test_stops_as_soon_as_nothing_can_win(table_search, make_search):
    """A certain end at once: one step, however long the output might be."""
    tables = table_search.random_logits(0, 3, 4, 6)
    tables[:, 0, EOS] = 100.0
    steps = []
    for beam_size in (1, 4):
        ids, _ = make_search(4, beam_size=beam_size, alpha=0.6).ids_and_scores(tables, ([6, 5, 4]))
        steps.append(ids.shape[-1])
    assert steps == [1, 1]


def test_goes_on_while_a_longer_one_can_win(table_search, make_search):
    """An early end that is likelier at first, and a longer one that wins by its length alone."""
    table = np.full([1, 4**5, 4], -50.0, np.float32)
    table[0, table_search.prefix_code((), 4), [EOS, 2]] = math.log(0.55), math.log(0.45)
    for length in range(1, 4):
        table[0, table_search.prefix_code((2,) * length, 4), 2] = 0.0
    table[0, table_search.prefix_code((2, 2, 2, 2), 4), EOS] = 0.0
    for alpha, expected in ((0.0, (EOS,)), (1.0, (2, 2, 2, 2, EOS))):
        [[(symbols, score)]] = make_search(4, beam_size=2, alpha=alpha)(table, [5])
        assert symbols == expected
        assert score == pytest.approx(
            {0.0: math.log(0.55), 1.0: math.log(0.45) / (10 / 6)}[alpha], abs=1e-5
        )


def test_coverage_and_the_stop(table_search, make_search):
    """A likely end that covers nothing does not stop the search; one that covers all does."""
    table = np.full([1, 5**4, 5], -50.0, np.float32)
    table[0, table_search.prefix_code((), 5), [EOS, 2]] = math.log(0.9), math.log(0.1)
    table[0, table_search.prefix_code((2,), 5), EOS] = 0.0
    table[0, table_search.prefix_code((2,), 5), 4] = math.log(0.01)
    # Nothing is read before the first symbol, everything before the second.
    covering = make_search(5, attention=np.ones([5, 3]), beam_size=2, alpha=0.0, beta=0.5)
    [[(symbols, score)]] = covering(table, [4])
    assert symbols == (2, EOS)
    assert score == pytest.approx(math.log(0.1) + math.log(1 / 1.01), abs=1e-5)
    ids, _ = covering.ids_and_scores(table, [4])
    assert ids.shape[-1] == 2, "it stops before the longest output"


def test_probability_one_and_probability_zero_give_no_nan(table_search, make_search):
    table = np.full([2, 4**4, 4], -np.inf, np.float32)
    table[0, :, 2] = 0.0
    table[0, table_search.prefix_code((2, 2), 4), :] = [-np.inf, 0.0, -np.inf, -np.inf]
    table[1, :, 3] = 1e30
    table[1, :, EOS] = 0.0
    ids, scores = make_search(4, beam_size=3, alpha=0.6, num_hypotheses=3).ids_and_scores(
        table, ([4, 3])
    )
    assert not np.isnan(scores).any()
    np.testing.assert_array_equal(ids[0, 0], [2, 2, EOS])
    assert scores[0, 0] == 0.0
    np.testing.assert_array_equal(scores[0, 1:], [-np.inf, -np.inf])
    np.testing.assert_array_equal(ids[0, 1:], np.zeros_like(ids[0, 1:]))


def test_no_sentences(make_search):
    ids, scores = make_search(4, beam_size=2, alpha=0.6).ids_and_scores(
        np.zeros([0, 4, 4], np.float32), np.zeros([0], np.int32)
    )
    assert ids.shape[:2] == (0, 1)
    assert scores.shape == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(alpha=-0.1), "alpha=-0.1"),
        (dict(alpha=math.nan), "alpha=nan"),
        (dict(alpha=0.6, num_hypotheses=3), "not in 1 .. beam_size=2"),
    ],
)
def test_refuses_what_it_cannot_do(options, message):
    with pytest.raises(ValueError, match=message):
        BeamSearch(beam_size=2, **options)
