"""Beam search, sampling and forbidden words, against plain Python.

The search is exhaustive where the beam is wide. The "model" is a table of logits, see
`table_search`.
"""

import itertools
import math
import re

import numpy as np
import pytest
import table_search
import tensorflow as tf
from refusals import refused

from t2t_keras.decoding.beam import (
    BeamSearch,
    Sampling,
    forbidden_sequences,
    top_symbols,
    word_boundaries,
)
from t2t_keras.decoding.search import BOUNDARY, Constraints
from t2t_keras.text.tokenizer import SentencePieceTokenizer

pytestmark = pytest.mark.usefixtures("eagerly")

PADDING, EOS = 0, 1
# Where the step after each symbol looks: symbols 2 to 4 at a part of the source each, 4 at two.
ATTENTION = np.array(
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.0, 0.5, 0.5]]
)


def make_search(vocab_size, beam_size, xla=False, attention=None, sources=None, **options):
    rule = BeamSearch(beam_size, **{"alpha": 0.6, **options})
    return table_search.Search(rule, vocab_size, xla, attention, sources)


def expected(table, max_length, beam_size, alpha=0.6, penalty=lambda _: 0.0, rule=None):
    def following(before):
        log_probs = table_search.following(table, before)
        if rule:
            rule(before, log_probs)
        return log_probs

    return table_search.plain_beam_search(following, max_length, alpha, beam_size, penalty)


def assert_same(actual, expected):
    """The same sequences in the same order, scores to 1e-5; missing hypotheses are the last."""
    real = [hypothesis for hypothesis in actual if hypothesis[1] > -math.inf]
    assert [symbols for symbols, _ in real] == [symbols for symbols, _ in expected]
    np.testing.assert_allclose(
        [score for _, score in real], [score for _, score in expected], rtol=1e-5, atol=1e-5
    )
    assert actual[len(real) :] == [((), -math.inf)] * (len(actual) - len(real))


def uncovered(beta):
    """Returns -beta times the coverage penalty of symbols (Wu et al., 2016, equation 14)."""

    def penalty(symbols):
        covered = np.sum([np.zeros(3), *(ATTENTION[symbol] for symbol in symbols[:-1])], axis=0)
        return -beta * np.log(np.clip(covered, 1e-9, 1.0)).sum()

    return penalty


@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "beta"),
    [(1, 1, 0.0), (2, 1, 0.0), (5, 5, 0.0), (108, 20, 0.0), (1, 1, 2.0), (3, 1, 0.2), (3, 3, 2.0)],
)
def test_agrees_with_plain_python(beam_size, num_hypotheses, beta):
    """The reference goes on until nothing is live: a stop that came too early would show."""
    # The 108 beams of 4 symbols are all that there are.
    vocab_size, longest, sentences = (5, 4, 6) if beam_size == 108 else (5, 6, 40)
    tables = table_search.random_logits(beam_size, sentences, vocab_size, longest)
    tables[sentences // 2 :, :, EOS] += 3.0  # short outputs in one half of the batch
    max_lengths = np.random.default_rng(1).integers(1, longest + 1, sentences)
    search = make_search(
        vocab_size, beam_size, num_hypotheses=num_hypotheses, attention=ATTENTION, beta=beta
    )
    for alpha in (0.6,) if beta else (0.0, 0.6, 2.0):
        outputs = search(tables, max_lengths, alpha=alpha)
        for sentence, table, max_length in zip(outputs, tables, max_lengths, strict=True):
            best = expected(table, max_length, beam_size, alpha, uncovered(beta))
            assert_same(sentence, best[:num_hypotheses])


def test_compiled_by_xla_it_finds_the_same():
    tables = table_search.random_logits(17, 24, 4, 7)
    tables[6:, :, EOS] += 9.0  # most sentences end early, and leave
    max_lengths = np.random.default_rng(4).integers(1, 8, 24)
    plain = make_search(4, 3, num_hypotheses=3)(tables, max_lengths)
    tf.config.run_functions_eagerly(False)
    compiled = make_search(4, 3, xla=True, num_hypotheses=3)(tables, max_lengths)
    for actual, expected in zip(compiled, plain, strict=True):
        assert_same(actual, [hypothesis for hypothesis in expected if hypothesis[1] > -math.inf])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_constraints_of_length_and_prefix(beam_size):
    vocab_size, longest, min_length = 4, 6, 4
    tables = table_search.random_logits(13, 30, vocab_size, longest)
    random = np.random.default_rng(3)
    max_lengths = random.integers(1, longest + 1, len(tables))
    prefixes = random.integers(2, vocab_size, [len(tables), 3])
    prefixes[np.arange(3) >= random.integers(0, 4, len(tables))[:, None]] = PADDING
    actual = make_search(vocab_size, beam_size, constraints=Constraints(min_length))(
        tables, max_lengths, prefixes
    )
    for sentence, table, longest, prefix in zip(actual, tables, max_lengths, prefixes, strict=True):
        # The end that the longest output must have comes at any rate.
        begun = prefix[prefix != PADDING][: longest - 1]

        def rule(before, log_probs, longest=longest, begun=begun):
            if len(before) < min(min_length, longest) - 1:
                log_probs[EOS] = -np.inf
            if len(before) < len(begun):
                log_probs[np.arange(vocab_size) != begun[len(before)]] = -np.inf

        assert_same(sentence, expected(table, longest, beam_size, rule=rule)[:1])
    lengths = [len(symbols) for [(symbols, _)] in actual]
    assert lengths.count(min_length) > 3
    assert max(lengths) > min_length


@pytest.mark.parametrize("xla", [False, True])
def test_forbidden_sequences(xla):
    forbidden = ((2,), (3, 4), (4, 4, 3), (BOUNDARY, 3), (BOUNDARY, 4, 4))
    boundaries = (PADDING, 3)
    tables = table_search.random_logits(23, 30, 5, 6)
    constraints = Constraints(forbidden=forbidden, boundaries=boundaries)

    def rule(before, log_probs):
        begun = (PADDING, *before)
        for first, *phrase in forbidden:
            for start in boundaries if first == BOUNDARY else [first]:
                so_far = (start, *phrase)[:-1]
                if begun[max(len(begun) - len(so_far), 0) :] == so_far:
                    log_probs[(start, *phrase)[-1]] = -np.inf

    tf.config.run_functions_eagerly(not xla)
    actual = make_search(5, 3, xla, constraints=constraints)(tables, [6] * 30)
    for sentence, table in zip(actual, tables, strict=True):
        assert_same(sentence, expected(table, 6, 3, rule=rule)[:1])


class Sums:
    """Lets an output end when its symbols add up to the number that is the source."""

    def start(self, source):
        return {"sum": source[:, 0]}

    def mask(self, logits, live_ids, index, limits, data):
        symbols = tf.range(logits.shape[-1])
        missing = data["sum"][:, None] - tf.reduce_sum(live_ids, axis=2)
        # Symbols from 2 on must be able to add up to the rest, in the places that are left.
        rest = missing[:, :, None] - symbols
        places = (limits.max_lengths - index - 2)[:, None, None]
        can_go_on = (rest == 0) | ((rest >= 2) & (rest <= places * (logits.shape[-1] - 1)))
        can_end = (symbols == EOS) & (missing == 0)[:, :, None]
        return tf.where(tf.where(symbols > EOS, can_go_on, can_end), logits, -np.inf)


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("beam_size", [1, 3, 40])
def test_a_grammar_s_outputs_are_the_best_of_all_that_it_has(beam_size, xla):
    vocab_size, longest = 5, 6
    sums = np.array([2, 5, 9, 12, 20] * 6, np.int32)  # Short outputs leave before the long ones.
    max_lengths = np.where(sums == 5, 3, longest)
    tables = table_search.random_logits(29, len(sums), vocab_size, longest)
    tf.config.run_functions_eagerly(not xla)
    actual = make_search(
        vocab_size, beam_size, xla, sources=sums[:, None], num_hypotheses=beam_size,
        constraints=Constraints(grammars=(Sums(),)),
    )(tables, max_lengths)  # fmt: skip
    for sentence, table, number, longest in zip(actual, tables, sums, max_lengths, strict=True):
        language = {
            (*symbols, EOS)
            for length in range(longest)
            for symbols in itertools.product(range(2, vocab_size), repeat=length)
            if sum(symbols) == number
        }

        def rule(before, log_probs, language=language):
            following = {
                output[len(before)] for output in language if output[: len(before)] == before
            }
            log_probs[[i for i in range(vocab_size) if i not in following]] = -np.inf

        best = expected(table, longest, beam_size, rule=rule)
        best = [hypothesis for hypothesis in best if hypothesis[1] > -np.inf]
        assert_same(sentence, best[:beam_size])
        if beam_size == 40:  # The search is exhaustive.
            assert {symbols for symbols, score in sentence if score > -math.inf} == language


def test_a_grammar_s_samples():
    sources = np.array([[7]], np.int32)
    rule = Sampling(300, constraints=Constraints(grammars=(Sums(),)))
    search = table_search.Search(rule, VOCAB_SIZE, sources=sources)
    [outputs] = search(table_search.random_logits(3, 1, VOCAB_SIZE, LONGEST) / 9, [LONGEST])
    possible = {symbols for n in (2, 3) for symbols in itertools.product((2, 3, 4), repeat=n)}
    expected = {(*symbols, EOS) for symbols in possible if sum(symbols) == 7}
    assert {symbols for symbols, _ in outputs} == expected


@pytest.mark.parametrize("beam_size", [1, 4])
def test_stops_as_soon_as_nothing_can_win(beam_size):
    """A certain end at once: one step, however long the output might be."""
    tables = table_search.random_logits(0, 3, 4, 6)
    tables[:, 0, EOS] = 100.0
    ids, _ = make_search(4, beam_size).ids_and_scores(tables, [6, 5, 4])
    assert ids.shape[-1] == 1


def test_coverage_and_the_stop():
    """A likely end that covers nothing does not stop the search; one that covers all does."""
    table = np.full([1, 5**4, 5], -50.0, np.float32)
    table[0, table_search.prefix_code((), 5), [EOS, 2]] = math.log(0.9), math.log(0.1)
    table[0, table_search.prefix_code((2,), 5), EOS] = 0.0
    table[0, table_search.prefix_code((2,), 5), 4] = math.log(0.01)
    # Nothing is read before the first symbol, everything before the second.
    covering = make_search(5, 2, attention=np.ones([5, 3]), alpha=0.0, beta=0.5)
    assert_same(covering(table, [4])[0], [((2, EOS), math.log(0.1) + math.log(1 / 1.01))])
    ids, _ = covering.ids_and_scores(table, [4])
    assert ids.shape[-1] == 2, "it stops before the longest output"


def test_what_is_as_long_as_allowed_may_yet_win():
    table = np.full([1, 4**3, 4], -50.0, np.float32)
    table[0, table_search.prefix_code((), 4), 1:] = np.log([0.55, 0.4, 0.05])
    table[0, table_search.prefix_code((2,), 4), 2] = 0.0
    table[0, table_search.prefix_code((2, 2), 4), EOS] = 0.0
    score = math.log(0.4) / (8 / 6) ** 2  # Of half the length, it would be below that of the end.
    assert_same(make_search(4, 2, alpha=2.0)(table, [3])[0], [((2, 2, EOS), score)])


def test_probability_one_and_probability_zero_give_no_nan():
    table = np.full([2, 4**4, 4], -np.inf, np.float32)
    table[0, :, 2] = 0.0
    table[0, table_search.prefix_code((2, 2), 4), :] = [-np.inf, 0.0, -np.inf, -np.inf]
    table[1, :, 3] = 1e30
    table[1, :, EOS] = 0.0
    search = make_search(4, 3, num_hypotheses=3)
    first, second = search(table, [4, 3])
    assert_same(first, [((2, 2, EOS), 0.0)])
    assert not any(math.isnan(score) for _, score in second)
    ids, scores = search.ids_and_scores(table[:0], [])
    assert (ids.shape[:2], scores.shape) == ((0, 3), (0, 3)), "there may be no sentences"


@pytest.mark.parametrize("vocab_size", [10, 1000, 4096, 4999, 5000])
@pytest.mark.parametrize("values", [3, 10**6])
def test_top_symbols_are_the_best(vocab_size, values):
    # Of three values most are equal, and the smaller id must go first.
    logits = np.random.default_rng(vocab_size).integers(0, values, [2, 3, vocab_size])
    logits = logits.astype(np.float32)
    logits[0, 0, 7:] = -np.inf
    # One is clearly the best, in a late group; those below are equal.
    logits[1, 2] = 0
    logits[1, 2, vocab_size - 3] = 9
    best, ids = top_symbols(tf.constant(logits), 9)
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., :9]
    np.testing.assert_array_equal(best, np.take_along_axis(logits, expected, axis=-1))
    possible = np.isfinite(best)
    np.testing.assert_array_equal(np.where(possible, ids, 0), np.where(possible, expected, 0))


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
    allowed = sorted(weights, key=weights.get, reverse=True)[: top_k or None]
    whole = sum(weights[i] for i in allowed)
    nucleus, so_far = [], 0.0
    for i in allowed:
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
    tf.config.run_functions_eagerly(False)  # One draw after the other.
    search = table_search.Search(Sampling(DRAWS, seed=1, **options), VOCAB_SIZE)
    actual = search(np.repeat(table, SENTENCES, axis=0), [LONGEST] * SENTENCES)
    outputs = [symbols for sentence in actual for symbols, _ in sentence]
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


def test_seed_and_number_alone_decide_also_under_xla():
    tables = table_search.random_logits(5, 3, VOCAB_SIZE, LONGEST) / 4
    plain, compiled, reseeded = (
        table_search.Search(Sampling(20, seed=seed, top_k=3, top_p=0.8), VOCAB_SIZE, xla)
        for seed, xla in ((7, False), (7, True), (8, False))
    )

    def symbols(search, table, numbers):
        outputs = search(table, [LONGEST] * len(table), None, numbers)
        return [[symbols for symbols, _ in sentence] for sentence in outputs]

    expected = symbols(plain, tables, [4, 0, 9])
    assert symbols(plain, tables[1:2], [0]) == expected[1:2]
    assert symbols(plain, tables[1:2], [1]) != expected[1:2]
    assert symbols(reseeded, tables, [4, 0, 9]) != expected
    assert len(set(expected[0])) > 5
    tf.config.run_functions_eagerly(False)
    assert symbols(compiled, tables, [4, 0, 9]) == expected


def test_constraints(table):
    constraints = Constraints(min_length=3, forbidden=((2, 3), (4,)))
    search = table_search.Search(Sampling(300, constraints=constraints), VOCAB_SIZE)
    [outputs] = search(table, [LONGEST], [[3]])
    # All that the constraints allow, and nothing else.
    possible = {(3, 2, EOS), (3, 2, 2, EOS), (3, 3, EOS), (3, 3, 2, EOS), (3, 3, 3, EOS)}
    assert {symbols for symbols, _ in outputs} == possible


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(["a ab abc b bc c (a) ca cab"] * 9, vocab_size=274)


def test_every_spelling_of_a_word(tokenizer):
    pieces = tokenizer.vocabulary()
    normal = [i for piece, i in pieces.items() if i > 2 and not piece.startswith("<0x")]
    sequences = forbidden_sequences(["abc"], tokenizer)
    for text, actual in (
        ("▁abc", {ids for ids in sequences if ids[0] != BOUNDARY}),
        ("abc", {ids[1:] for ids in sequences if ids[0] == BOUNDARY}),
    ):
        expected = {
            ids
            for length in range(1, 5)
            for ids in itertools.product(normal, repeat=length)
            if "".join(tokenizer.pieces(ids)) == text
        }
        assert len(expected) > 1
        assert actual == expected


def test_no_output_holds_the_word_behind_whatever_sign(tokenizer):
    pieces = tokenizer.vocabulary()
    chosen = [pieces[piece] for piece in ("▁", "▁(", "(", "<0x2D>", "▁ab", "a", "b", "c", "ab")]
    outputs = np.array(list(itertools.product(chosen, repeat=4)), np.int32)
    constraints = Constraints(
        forbidden=forbidden_sequences(["abc"], tokenizer), boundaries=word_boundaries(tokenizer)
    )
    possible = np.full(len(outputs), True)
    logits = tf.zeros([len(outputs), 1, tokenizer.vocab_size])
    for index, chosen_last in enumerate(outputs.T):
        allowed = constraints.mask_forbidden(logits, outputs[:, None], tf.constant(index))
        possible &= np.isfinite(allowed.numpy()[np.arange(len(outputs)), 0, chosen_last])
    texts = tokenizer.decode(outputs)
    holds = np.array([bool(re.search(r"(?<![a-z])abc(?![a-z])", text)) for text in texts])
    assert not (holds & possible).any()
    # Longer words are forbidden as well, but nothing else.
    begins = np.array([bool(re.search(r"(?<![a-z])abc", text)) for text in texts])
    assert possible[~begins].all()
    assert holds.sum() > 100


def test_a_word_can_begin_behind_what_ends_in_no_letter_or_digit(tokenizer):
    boundaries = set(tokenizer.pieces(word_boundaries(tokenizer)))
    assert {"<pad>", "▁", "(", "▁(", "<0x2D>", "<0x9E>"} <= boundaries
    assert not {"a", "▁ab", "<0x41>", "<0x30>"} & boundaries


def test_phrases_and_characters_that_are_no_pieces(tokenizer):
    sequences = forbidden_sequences(["  a   é "], tokenizer)
    texts = {tokenizer.decode([[i for i in ids if i != BOUNDARY]])[0] for ids in sequences}
    assert "a é" in texts
    assert forbidden_sequences(["a e\u0301"], tokenizer) == sequences
    assert forbidden_sequences([], tokenizer) == ()


def test_long_words_have_a_limited_number_of_spellings(tokenizer):
    assert len(forbidden_sequences(["abcab" * 20], tokenizer)) == 2 * 1000


def test_what_cannot_be_forbidden(tokenizer):
    characters = SentencePieceTokenizer.train(["abc"] * 9, vocab_size=50, kind="char")
    many = [f"{'abc' * 12} {number}" for number in range(60)]
    for vocabulary, words, code, named in (
        (tokenizer, [" "], "blank", []),
        (characters, ["xyz"], "not_spelled", ["xyz"]),
        (tokenizer, ["ab" * 50 + "c"], "too_long", ["100", "101"]),
        (tokenizer, many, "too_many_values", ["60", "100,000"]),
    ):
        with refused(code, *named):
            forbidden_sequences(words, vocabulary)
