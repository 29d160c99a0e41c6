import itertools

import numpy as np
import pytest

from t2t_keras.data.batches import (
    TokenBatches,
    largest_microbatch,
    replica_arrays,
    split_batch,
    token_arrays,
)
from t2t_keras.data.shards import ExampleStore
from t2t_keras.data.text_files import read_text
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError

BATCH_TOKENS, MAX_LENGTH = 4096, 64
SPLITS = list(itertools.product((1, 2, 3, 8), (64, 500, 5000)))


@pytest.fixture(scope="module")
def lengths():
    """10,000 pairs whose sides are of like length, a few of them longer than MAX_LENGTH."""
    random = np.random.default_rng(0)
    source = random.lognormal(2.5, 0.5, 10_000)
    target = source * random.lognormal(0, 0.2, 10_000)
    return np.maximum(np.stack([source, target], axis=1), 2).astype(np.int32)


@pytest.fixture(scope="module")
def batches(lengths):
    return TokenBatches(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1)


def store_of(lengths):
    """Examples of these lengths; every token is its example's number + 1, or minus that."""
    numbers = np.repeat(np.arange(len(lengths)) + 1, lengths.sum(axis=1))
    is_target = np.concatenate([np.arange(m + n) >= m for m, n in lengths])
    return ExampleStore([np.where(is_target, -numbers, numbers)], [lengths])


def padded_tokens(lengths, part):
    """Tokens of the longer side with its padding."""
    return len(part) * lengths[part].max() if len(part) else 0


def same(some, others):
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def test_every_example_once_an_epoch(lengths, batches):
    short_enough = np.flatnonzero(lengths.max(axis=1) <= MAX_LENGTH)
    assert 0 < batches.left_out == len(lengths) - len(short_enough)
    for epoch in range(3):
        np.testing.assert_array_equal(np.sort(np.concatenate(batches.epoch(epoch))), short_enough)


def test_an_epoch_is_a_function_of_seed_and_number(lengths, batches):
    first, second = batches.epoch(0), batches.epoch(1)
    again = TokenBatches(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1)
    # In another order, without what came before.
    assert same(again.epoch(1), second)
    assert same(again.epoch(0), first)
    assert not same(first, second)
    other = TokenBatches(lengths, BATCH_TOKENS, MAX_LENGTH, seed=2)
    assert not same(other.epoch(0), first)
    assert not same(other.epoch(0), second)


def test_a_step_is_a_function_of_seed_and_number(lengths, batches):
    steps = [batch for epoch in range(3) for batch in batches.epoch(epoch)]
    assert same([batches.at(step) for step in range(len(steps))], steps)
    last_of_first = len(batches.epoch(0)) - 1
    for step in (len(steps) - 1, last_of_first + 1, last_of_first, 0):
        resumed = TokenBatches(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1)
        np.testing.assert_array_equal(resumed.at(step), steps[step])
    assert [batches.epoch_of(last_of_first + i) for i in (0, 1)] == [0, 1]
    assert (batches.epoch_of(0), batches.epoch_of(len(steps))) == (0, 3)


def test_no_step_holds_more_than_batch_tokens_a_side(lengths, batches):
    for epoch in range(2):
        for batch in batches.epoch(epoch):
            assert lengths[batch].sum(axis=0).max() <= BATCH_TOKENS


def test_limits_hold_for_each_side_alone():
    # The longer side is now the one, now the other.
    lengths = np.array([[10, 1], [1, 10]] * 50, np.int32)
    for batch in TokenBatches(lengths, 30, 10, seed=0).epoch(0):
        assert lengths[batch].sum(axis=0).max() <= 30
    assert len(TokenBatches(lengths[::2], 30, 10, seed=0).epoch(0)) == 17


def test_fill(lengths, batches):
    shares = [lengths[batch].sum(axis=0) / BATCH_TOKENS for batch in batches.epoch(0)]
    assert batches.fill() == pytest.approx(tuple(np.mean(shares, axis=0)), abs=1e-6)
    # In each step the fuller side counts; the other is shorter by what the pairs differ.
    assert np.mean(np.max(shares, axis=1)) > 0.97
    assert min(batches.fill()) > 0.95


def test_steps_hold_pairs_of_similar_length_in_random_order(lengths, batches):
    longest = lengths.max(axis=1)
    spread = [np.ptp(longest[batch]) for batch in batches.epoch(0)]
    assert np.median(spread) <= 1
    means = np.array([longest[batch].mean() for batch in batches.epoch(0)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.4
    # Pairs that share a step in one epoch seldom do in the next.
    second = {frozenset(batch.tolist()) for batch in batches.epoch(1)}
    assert not second & {frozenset(batch.tolist()) for batch in batches.epoch(0)}


def test_nothing_left():
    with pytest.raises(UserError, match=r"None of the 2 pairs has at most max_length=4"):
        TokenBatches(np.array([[5, 1], [2, 6]], np.int32), 100, 4, seed=0)
    with pytest.raises(UserError, match="None of the 0 pairs"):
        TokenBatches(np.zeros((0, 2), np.int32), 100, 4, seed=0)


def test_a_pair_that_no_step_holds():
    lengths = np.array([[5, 1], [2, 60], [1, 300]], np.int32)
    with pytest.raises(UserError, match=r"60 tokens on a side, more than batch_tokens=50\. Raise"):
        TokenBatches(lengths, 50, 100, seed=0)
    assert TokenBatches(lengths, 60, 100, seed=0).left_out == 1


@pytest.mark.parametrize(("replicas", "microbatch_tokens"), SPLITS)
def test_split_keeps_the_step_s_examples(lengths, batches, replicas, microbatch_tokens):
    for step in range(5):
        batch = batches.at(step)
        split = split_batch(lengths, batch, microbatch_tokens, replicas)
        assert {len(microbatch) for microbatch in split} == {replicas}
        parts = [part for microbatch in split for part in microbatch]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(batch))
        for part in parts:
            assert padded_tokens(lengths, part) <= microbatch_tokens
        if microbatch_tokens > BATCH_TOKENS + MAX_LENGTH:
            assert len(split) == 1
        if min(map(len, parts)) > 4:
            tokens = [lengths[part].max(axis=1).sum() for part in parts]
            assert max(tokens) < 1.5 * min(tokens)


def test_replicas_without_an_example(lengths):
    split = split_batch(lengths, np.array([3, 5]), 4096, 8)
    sizes = [len(part) for part in split[0]]
    assert (len(split), sorted(sizes)) == (1, [0] * 6 + [1] * 2)
    store = store_of(np.array([[2, 3]], np.int32))
    for fixed in (0, 64):
        arrays = token_arrays(store, np.zeros(0, int), fixed)
        assert arrays.target_tokens == 0
        for side in (arrays.source, arrays.target):
            assert side.size
            assert not side.any()


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_pair_longer_than_a_microbatch_is_a_part_of_its_own(fixed_shapes):
    # 97 tokens fit in 100, the fixed length that holds them does not.
    lengths = np.array([[3, 3], [97, 2], [130, 130], [4, 4]], np.int32)
    split = split_batch(lengths, np.arange(4), 100, 1, fixed_shapes)
    parts = [part.tolist() for (part,) in split if len(part)]
    assert [1] in parts
    assert [2] in parts
    assert sorted(itertools.chain(*parts)) == [0, 1, 2, 3]


def test_arrays_are_padded():
    lengths = np.array([[2, 3], [1, 1], [3, 2]], np.int32)
    arrays = token_arrays(store_of(lengths), np.array([2, 1]))
    np.testing.assert_array_equal(arrays.source, [[3, 3, 3], [2, 0, 0]])
    np.testing.assert_array_equal(arrays.target, [[-3, -3], [-2, 0]])
    assert arrays.target_tokens == 3
    fixed = token_arrays(store_of(lengths), np.array([2, 1]), fixed_tokens=32)
    assert fixed.source.shape == fixed.target.shape == (4, 8)
    np.testing.assert_array_equal(fixed.source[:2, :3], arrays.source)
    np.testing.assert_array_equal(fixed.target[:2, :2], arrays.target)
    assert (fixed.source.sum(), fixed.target.sum()) == (arrays.source.sum(), arrays.target.sum())
    assert {side.dtype for side in (fixed.source, fixed.target)} == {np.dtype(np.int32)}


@pytest.mark.parametrize("replicas", [1, 8])
@pytest.mark.parametrize("microbatch_tokens", [100, 1000, 4096])
def test_fixed_shapes_are_few(lengths, batches, replicas, microbatch_tokens):
    store = store_of(lengths)
    shapes = set()
    for batch in batches.epoch(0)[::3]:
        for microbatch in split_batch(lengths, batch, microbatch_tokens, replicas, True):
            for part in microbatch:
                arrays = token_arrays(store, part, microbatch_tokens)
                assert arrays.source.shape == arrays.target.shape
                assert arrays.source.size <= microbatch_tokens
                assert arrays.target_tokens == lengths[part, 1].sum()
                shapes.add(arrays.source.shape)
    # One for each length: 8, 12, 16, 24, 32, 48, 64.
    assert len({length for _, length in shapes}) == len(shapes) <= 7


def test_fixed_lengths_are_few_however_long_the_sentences():
    lengths = np.arange(1, 5001, 3)
    store = store_of(np.stack([lengths, np.ones_like(lengths)], axis=1))
    shapes = [token_arrays(store, np.array([i]), 4096).source.shape for i in range(len(lengths))]
    held = np.array([padded for _, padded in shapes])
    assert (lengths <= held).all()
    assert (held <= np.maximum(1.5 * lengths, 8)).all()
    # Each power of 2 from 8 to 4,096, and one and a half of each.
    assert len(set(shapes)) == len(set(held)) == 20


def test_multi30k(shared_data):
    folder = shared_data / "multi30k" / "tok"
    text = [read_text(folder / f"train.lc.norm.tok.{language}") for language in ("en", "de")]
    tokenizer = Tokenizer.train(text[0] + text[1], 10_000)
    sides = [[len(ids) for ids in tokenizer.encode(side)] for side in text]
    lengths = np.array(sides, np.int32).T
    for batch_tokens, replicas in ((4096, 1), (25_000, 8)):
        batches = TokenBatches(lengths, batch_tokens, 256, seed=1)
        assert batches.left_out == 0
        assert min(batches.fill()) >= 0.95
        real, padded = np.zeros(2), np.zeros(2)
        for batch in batches.epoch(0):
            for microbatch in split_batch(lengths, batch, 4096, replicas):
                for part in filter(len, microbatch):
                    real += lengths[part].sum(axis=0)
                    padded += len(part) * lengths[part].max(axis=0)
        assert (real >= 0.85 * padded).all()


def test_a_worker_reads_only_its_replicas_examples():
    read = []

    class Store:
        lengths = np.array([[3, 2], [5, 6], [1, 4], [2, 2]], np.int32)

        def padded(self, indices, side):
            read.append((indices.tolist(), side))
            return np.ones((len(indices), self.lengths[indices].max()), np.int32)

    parts = [np.array([0]), np.array([1, 2]), np.array([], int), np.array([3])]
    arrays = replica_arrays(Store(), parts, range(2, 4))
    assert read == [([3], "source"), ([3], "target")]
    assert [each.target_tokens for each in arrays] == [2, 6 + 4, 0, 2]


@pytest.mark.parametrize("fixed_shapes", [False, True])
@pytest.mark.parametrize("tokens", [64, 700, 5000])
def test_no_microbatch_takes_more_than_the_largest(lengths, batches, tokens, fixed_shapes):
    largest = largest_microbatch(tokens, batches.longest, fixed_shapes)
    rows, length = largest.source.shape
    assert largest.source.all()
    assert largest.target.shape == (rows, length)
    assert length == batches.longest == MAX_LENGTH
    assert tokens <= rows * length < tokens + length
    for batch in batches.epoch(0)[:10]:
        for (part,) in split_batch(lengths, batch, tokens, 1, fixed_shapes):
            padded = padded_tokens(lengths, part)
            assert padded <= rows * length
            assert padded * lengths[part].max(initial=0) <= rows * length**2


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("replicas", [1, 2, 8])
def test_most_padded_is_what_no_replica_s_share_of_a_step_exceeds(
    lengths, batches, replicas, fixed
):
    most = batches.most_padded(replicas, fixed)
    # The shortest, of 2 tokens, become 8.
    assert BATCH_TOKENS < replicas * most < (4 if fixed else 1.5) * BATCH_TOKENS
    assert (most > batches.most_padded(replicas)) == fixed
    parts = [len(split_batch(lengths, batch, most, replicas, fixed)) for batch in batches.epoch(0)]
    assert set(parts) == {1}
    less = most - 1
    parts = [len(split_batch(lengths, batch, less, replicas, fixed)) for batch in batches.epoch(0)]
    assert max(parts) == 2
