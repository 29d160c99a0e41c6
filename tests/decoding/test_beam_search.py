"""The search against exhaustive search and against a plain Python beam search.

The "model" is a table: for every sentence, random log-probabilities of the next symbol for every
prefix. `step` learns the prefix only from the slots of its cache that it is told to go back to, so
a wrong one of these gives wrong scores.
"""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import Cache, beam_search

PADDING, EOS = 0, 1


def random_logits(seed, sentences, vocab_size, longest):
    """[sentences, prefixes, vocab_size]: logits after each prefix, see `prefix_code`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0.0, 2.0, [sentences, vocab_size**longest, vocab_size])
    return logits.astype(np.float32)


def prefix_code(prefix, vocab_size):
    """Symbols are >= 1, so the digits of the number tell prefixes of all lengths apart."""
    code = 0
    for symbol in prefix:
        code = code * vocab_size + int(symbol)
    return code


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    highest = logits.max()
    return logits - highest - math.log(np.exp(logits - highest).sum())


def written(kept, slots, new):
    """Writes new [B, 1, K] at slots [K] of kept [B, 1, slots]."""
    here = tf.range(tf.shape(kept)[2])[:, None] == slots
    there = tf.reduce_sum(tf.where(here, new[:, :, None], 0), axis=3)
    return tf.where(tf.reduce_any(here, axis=1), there, kept)


class TableSearch:
    """`beam_search` over a table of logits, compiled once for all sentences and seeds."""

    def __init__(self, vocab_size, room=3, **options):
        self.room, self.options = room, options
        self.search = tf.function(
            self._search,
            input_signature=[
                tf.TensorSpec([None, None, vocab_size], tf.float32),
                tf.TensorSpec([None], tf.int32),
            ],
        )

    def _search(self, table, max_lengths):
        vocab_size, beam_size = table.shape[-1], self.options["beam_size"]

        def step(previous, index, place, legal, cache):
            slots = place * beam_size + tf.range(beam_size)
            new = {
                "symbol": previous[:, None],
                "position": tf.fill(tf.shape(previous), index)[:, None],
            }
            [recent] = cache.recent["layers"]
            recent = {name: written(recent[name], slots, new[name]) for name in new}
            kept = {
                name: tf.concat([cache.past["layers"][0][name], recent[name]], axis=2)
                for name in new
            }
            # The first symbol before is none; later digits are smaller.
            digits = tf.where(
                legal & (kept["position"] > 0),
                kept["symbol"] * vocab_size ** tf.maximum(index - kept["position"], 0),
                0,
            )
            code = tf.reduce_sum(digits, axis=2)  # [B, K]
            return tf.gather(cache.sentence["table"], code, batch_dims=1), {"layers": [recent]}

        def slots(positions):
            shape = [tf.shape(table)[0], 1, positions * beam_size]
            # What a slot holds before it is written must not matter.
            return {"layers": [{name: tf.fill(shape, 77) for name in ("symbol", "position")}]}

        cache = Cache(sentence={"table": table}, past=slots(0), recent=slots(self.room))
        return beam_search(step, cache, max_lengths, room=self.room, **self.options)

    def __call__(self, table, max_lengths):
        """Returns, for each sentence, [(symbols with the end, score), ...]."""
        ids, scores = self.search(table, tf.constant(max_lengths, tf.int32))
        return [
            [
                (tuple(row[row != PADDING].tolist()), float(score))
                for row, score in zip(*found, strict=True)
            ]
            for found in zip(ids.numpy(), scores.numpy(), strict=True)
        ]


def exhaustive_search(table, max_length, alpha):
    """All finished sequences of at most `max_length` symbols, best first."""
    vocab_size = table.shape[-1]
    found = []
    for length in range(max_length):
        for symbols in itertools.product(range(2, vocab_size), repeat=length):
            sequence = (*symbols, EOS)
            log_prob = sum(
                log_softmax(table[prefix_code(sequence[:position], vocab_size)])[symbol]
                for position, symbol in enumerate(sequence)
            )
            found.append((sequence, log_prob / ((5 + len(sequence)) / 6) ** alpha))
    return sorted(found, key=lambda hypothesis: -hypothesis[1])


def assert_same(found, expected):
    """The same sequences in the same order, scores to 1e-5; vacant places are the last."""
    real = [hypothesis for hypothesis in found if hypothesis[1] > -math.inf]
    assert [symbols for symbols, _ in real] == [symbols for symbols, _ in expected]
    np.testing.assert_allclose(
        [score for _, score in real], [score for _, score in expected], rtol=1e-5, atol=1e-5
    )
    assert found[len(real) :] == [((), -math.inf)] * (len(found) - len(real))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
def test_wide_beam_is_exhaustive_search(alpha):
    vocab_size, longest = 5, 4
    widest = 3**3 * 4  # hypotheses with three symbols, times their continuations
    max_lengths = [4, 3, 2, 1, 4, 4, 4, 4]
    tables = random_logits(7, len(max_lengths), vocab_size, longest)
    search = TableSearch(vocab_size, beam_size=widest, alpha=alpha, num_hypotheses=20)
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):
        assert_same(found, exhaustive_search(table, max_length, alpha)[:20])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("beam_size", "num_hypotheses"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 5)])
def test_agrees_with_plain_python(plain_beam_search, alpha, beam_size, num_hypotheses):
    vocab_size, longest, sentences = 4, 7, 120
    tables = random_logits(beam_size, sentences, vocab_size, longest)
    tables[sentences // 2 :, :, EOS] += 3.0  # short outputs in one half of the batch
    max_lengths = np.random.default_rng(1).integers(1, longest + 1, sentences)
    search = TableSearch(
        vocab_size, beam_size=beam_size, alpha=alpha, num_hypotheses=num_hypotheses
    )
    for found, table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):

        def following(prefix, table=table):
            return log_softmax(table[prefix_code(prefix, vocab_size)])

        expected = plain_beam_search(following, max_length, alpha, beam_size)
        assert_same(found, expected[:num_hypotheses])


def test_beam_of_one_is_greedy():
    vocab_size, longest, sentences = 6, 5, 50
    tables = random_logits(3, sentences, vocab_size, longest)
    search = TableSearch(vocab_size, beam_size=1, alpha=0.6)
    for table, [(symbols, _)] in zip(tables, search(tables, [longest] * sentences), strict=True):
        expected = ()
        while expected[-1:] != (EOS,):
            following = table[prefix_code(expected, vocab_size)].copy()
            following[PADDING] = -np.inf
            at_last = len(expected) == longest - 1
            expected += (EOS if at_last else int(np.argmax(following)),)
        assert symbols == expected


def test_batch_equals_single_and_repeats_itself():
    vocab_size, longest, sentences = 4, 6, 20
    tables = random_logits(11, sentences, vocab_size, longest)
    max_lengths = np.random.default_rng(2).integers(1, longest + 1, sentences)
    search = TableSearch(vocab_size, beam_size=3, alpha=0.6, num_hypotheses=3)
    together = search(tables, max_lengths)
    assert together == search(tables, max_lengths)
    for sentence in range(sentences):
        one = slice(sentence, sentence + 1)
        [alone] = search(tables[one], max_lengths[one])
        assert_same(alone, [found for found in together[sentence] if found[1] > -math.inf])


def test_maximum_length_is_each_sentences_own():
    vocab_size, longest = 4, 7
    tables = random_logits(5, 7, vocab_size, longest)
    tables[..., EOS] -= 20.0  # none ends by itself
    search = TableSearch(vocab_size, beam_size=2, alpha=0.6)
    found = search(tables, [1, 2, 3, 4, 5, 6, 7])
    assert [len(symbols) for [(symbols, _)] in found] == [1, 2, 3, 4, 5, 6, 7]
    assert all(symbols.index(EOS) == len(symbols) - 1 for [(symbols, _)] in found)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_minimum_length(plain_beam_search, beam_size):
    vocab_size, longest, min_length = 4, 6, 4
    tables = random_logits(13, 30, vocab_size, longest)
    max_lengths = np.random.default_rng(3).integers(1, longest + 1, len(tables))
    search = TableSearch(vocab_size, beam_size=beam_size, alpha=0.6, min_length=min_length)
    lengths = []
    for [(symbols, score)], table, max_length in zip(
        search(tables, max_lengths), tables, max_lengths, strict=True
    ):

        def following(prefix, table=table):
            log_probs = log_softmax(table[prefix_code(prefix, vocab_size)])
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


def test_compiled_by_xla_it_finds_the_same():
    vocab_size, longest, sentences = 4, 7, 24
    tables = random_logits(17, sentences, vocab_size, longest)
    tables[6:, :, EOS] += 9.0  # most sentences end early, and leave
    max_lengths = np.random.default_rng(4).integers(1, longest + 1, sentences)
    options = dict(beam_size=3, alpha=0.6, num_hypotheses=3)
    for found, expected in zip(
        TableSearch(vocab_size, xla=True, **options)(tables, max_lengths),
        TableSearch(vocab_size, **options)(tables, max_lengths),
        strict=True,
    ):
        assert_same(found, [each for each in expected if each[1] > -math.inf])


def test_padding_is_never_chosen():
    tables = random_logits(5, 4, 4, 5)
    tables[..., PADDING] += 20.0
    ids, scores = TableSearch(4, beam_size=3, alpha=0.6, num_hypotheses=3).search(
        tables, tf.constant([5, 5, 4, 3])
    )
    lengths = np.count_nonzero(ids, axis=-1)
    ends = np.argmax(ids == EOS, axis=-1) + 1
    np.testing.assert_array_equal(lengths, ends)
    assert np.isfinite(scores).all()


def test_stops_as_soon_as_nothing_can_win():
    """A certain end at once: one step, however long the output might be."""
    tables = random_logits(0, 3, 4, 6)
    tables[:, 0, EOS] = 100.0
    steps = []
    for beam_size in (1, 4):
        ids, _ = TableSearch(4, beam_size=beam_size, alpha=0.6).search(
            tables, tf.constant([6, 5, 4])
        )
        steps.append(ids.shape[-1])
    assert steps == [1, 1]


def test_goes_on_while_a_longer_one_can_win():
    """An early end that is likelier at first, and a longer one that wins by its length alone."""
    table = np.full([1, 4**5, 4], -50.0, np.float32)
    table[0, prefix_code((), 4), [EOS, 2]] = math.log(0.55), math.log(0.45)
    for length in range(1, 4):
        table[0, prefix_code((2,) * length, 4), 2] = 0.0
    table[0, prefix_code((2, 2, 2, 2), 4), EOS] = 0.0
    for alpha, expected in ((0.0, (EOS,)), (1.0, (2, 2, 2, 2, EOS))):
        [[(symbols, score)]] = TableSearch(4, beam_size=2, alpha=alpha)(table, [5])
        assert symbols == expected
        assert score == pytest.approx(
            {0.0: math.log(0.55), 1.0: math.log(0.45) / (10 / 6)}[alpha], abs=1e-5
        )


def test_probability_one_and_probability_zero_give_no_nan():
    table = np.full([2, 4**4, 4], -np.inf, np.float32)
    table[0, :, 2] = 0.0
    table[0, prefix_code((2, 2), 4), :] = [-np.inf, 0.0, -np.inf, -np.inf]
    table[1, :, 3] = 1e30
    table[1, :, EOS] = 0.0
    ids, scores = TableSearch(4, beam_size=3, alpha=0.6, num_hypotheses=3).search(
        table, tf.constant([4, 3])
    )
    assert not np.isnan(scores).any()
    np.testing.assert_array_equal(ids[0, 0], [2, 2, EOS])
    assert scores[0, 0] == 0.0
    np.testing.assert_array_equal(scores[0, 1:], [-np.inf, -np.inf])
    np.testing.assert_array_equal(ids[0, 1:], np.zeros_like(ids[0, 1:]))


def test_no_sentences():
    ids, scores = TableSearch(4, beam_size=2, alpha=0.6).search(
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
        TableSearch(4, beam_size=2, **options)(random_logits(0, 1, 4, 3), [3])
