"""Batches of tokens: what an epoch and a step hold, and how a step is divided."""

import itertools
import types

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.batches import (
    RemoteBatch,
    TokenBatchSampler,
    make_batch,
    replica_batches,
    split_batch,
    split_by_tokens,
    worst_case_shape,
)
from t2t_keras.data.dataset import ExampleStore

BATCH_TOKENS, MAX_LENGTH = 4096, 64


@pytest.fixture(scope="module")
def lengths():
    """10,000 pairs whose sides are of like length, a few of them longer than MAX_LENGTH."""
    random = np.random.default_rng(0)
    source = random.lognormal(2.5, 0.5, 10_000)
    target = source * random.lognormal(0, 0.2, 10_000)
    return np.maximum(np.stack([source, target], axis=1), 2).astype(np.int32)


@pytest.fixture(scope="module")
def sampler(lengths):
    return TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1)


def store_of(lengths):
    """Examples of these lengths; every token is its example's number + 1, or minus that."""
    numbers = np.repeat(np.arange(len(lengths)) + 1, lengths.sum(axis=1))
    is_target = np.concatenate([np.arange(m + n) >= m for m, n in lengths])
    return ExampleStore([np.where(is_target, -numbers, numbers)], [lengths])


def padded_tokens(lengths, part):
    """Tokens of the longer side with its padding."""
    return len(part) * lengths[part].max(initial=0)


def test_every_example_once_an_epoch(lengths, sampler):
    short_enough = np.flatnonzero(lengths.max(axis=1) <= MAX_LENGTH)
    assert 0 < sampler.left_out == len(lengths) - len(short_enough)
    for epoch in range(3):
        np.testing.assert_array_equal(np.sort(np.concatenate(sampler.epoch(epoch))), short_enough)


def test_epochs_and_steps_are_functions_of_seed_and_number(lengths, sampler):
    epochs = [sampler.epoch(number) for number in range(3)]
    steps = list(itertools.chain(*epochs))
    # In another order, without what came before.
    for step in (len(steps) - 1, len(epochs[0]), len(epochs[0]) - 1, 0):
        resumed = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1)
        np.testing.assert_array_equal(resumed.at(step), steps[step])
    other = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=2).epoch(0)
    orders = {np.concatenate(epoch).tobytes() for epoch in (*epochs, other)}
    assert len(orders) == 4


def test_steps_that_are_planned_together_are_of_one_epoch(sampler):
    parts, first = [], 0
    for epoch in range(2):
        count = len(sampler.epoch(epoch))
        assert count % 16, "an epoch ends within a part"
        for step in range(0, count, 16):
            parts.append(range(first + step, first + min(step + 16, count)))
        first += count
    assert [sampler.step_group(step, 16) for part in parts for step in part] == [
        part for part in parts for _ in part
    ]


def test_no_step_holds_more_than_batch_tokens_on_either_side(lengths, sampler):
    for batch in sampler.epoch(0) + sampler.epoch(1):
        assert lengths[batch].sum(axis=0).max() <= BATCH_TOKENS
    shares = np.mean([lengths[batch].sum(axis=0) for batch in sampler.epoch(0)], axis=0)
    assert sampler.fill_ratio() == pytest.approx(tuple(shares / BATCH_TOKENS), abs=1e-6)
    assert min(sampler.fill_ratio()) > 0.95
    # Batches are as large as they may be.
    assert len(TokenBatchSampler(np.array([[10, 1]] * 50), 30, 10, seed=0).epoch(0)) == 17


def test_steps_hold_pairs_of_similar_length_in_random_order(lengths, sampler):
    longest = lengths.max(axis=1)
    assert np.median([np.ptp(longest[batch]) for batch in sampler.epoch(0)]) <= 1
    means = np.array([longest[batch].mean() for batch in sampler.epoch(0)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4
    # Pairs that share a step in one epoch seldom do in the next.
    first, second = ({frozenset(batch.tolist()) for batch in sampler.epoch(n)} for n in (0, 1))
    assert not first & second


@pytest.mark.parametrize(
    ("lengths", "batch_tokens", "max_length", "code", "names"),
    [
        ([[5, 1], [2, 6]], 100, 4, "nothing_left", [" 2 ", "max_length=4"]),
        (np.zeros((0, 2)), 100, 4, "nothing_left", [" 0 "]),
        ([[5, 1], [2, 60], [1, 300]], 50, 100, "too_long", [" 60 ", "batch_tokens=50"]),
    ],
)
def test_lengths_without_a_batch_are_refused(lengths, batch_tokens, max_length, code, names):
    with refused(code, *names):
        TokenBatchSampler(np.array(lengths, np.int32), batch_tokens, max_length, seed=0)


def test_a_pair_may_fill_a_batch():
    sampler = TokenBatchSampler(np.int32([[5, 1], [2, 60]]), 60, max_length=60, seed=0)
    assert sorted(map(list, sampler.epoch(0))) in ([[0], [1]], [[0, 1]])
    assert sampler.left_out == 0


@pytest.mark.parametrize("replicas", [1, 3, 8])
@pytest.mark.parametrize("microbatch_tokens", [64, 500, 5000])
def test_split_keeps_the_step_s_examples(lengths, sampler, replicas, microbatch_tokens):
    real = padded = 0
    for step in range(5):
        batch = sampler.at(step)
        split = split_batch(lengths, batch, microbatch_tokens, replicas)
        assert {len(microbatch) for microbatch in split} == {replicas}
        parts = [part for microbatch in split for part in microbatch]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(batch))
        assert max(padded_tokens(lengths, part) for part in parts) <= microbatch_tokens
        real += sum(lengths[part].max(axis=1).sum() for part in parts if len(part))
        padded += sum(padded_tokens(lengths, part) for part in parts)
        if microbatch_tokens > BATCH_TOKENS + MAX_LENGTH:
            assert len(split) == 1
        if min(map(len, parts)) > 4:
            tokens = [lengths[part].max(axis=1).sum() for part in parts]
            assert max(tokens) < 1.5 * min(tokens)
    assert real > 0.9 * padded


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_pair_longer_than_a_microbatch_is_a_part_of_its_own(fixed_shapes):
    # 97 tokens fit in 100, the fixed length that holds them does not.
    lengths = np.array([[3, 3], [97, 2], [130, 130], [4, 4]], np.int32)
    split = split_batch(lengths, np.arange(4), 100, 1, fixed_shapes)
    assert sorted(part.tolist() for (part,) in split if len(part)) == [[0, 3], [1], [2]]


def test_parts_end_at_the_nearest_pair():
    assert split_by_tokens(np.array([1, 10, 10]), 2) == [(0, 2), (2, 3)]
    assert split_by_tokens(np.array([3] * 7), 3) == [(0, 2), (2, 5), (5, 7)]


def test_replicas_may_have_no_example(lengths):
    (split,) = split_batch(lengths, np.array([3, 5]), 4096, 8)
    assert sorted(map(len, split)) == [0] * 6 + [1] * 2


@pytest.mark.parametrize(
    ("indices", "fixed_tokens", "source", "target"),
    [
        ([2, 1], 0, [[3, 3, 3], [2, 0, 0]], [[-3, -3], [-2, 0]]),
        ([2, 1], 8, [[3, 3, 3] + [0] * 5, [2] + [0] * 7], [[-3, -3] + [0] * 6, [-2] + [0] * 7]),
        ([1], 17, [[2] + [0] * 7, [0] * 8], [[-2] + [0] * 7, [0] * 8]),
        ([], 0, [[0]], [[0]]),
        ([], 8, [[0] * 8], [[0] * 8]),
    ],
)
def test_arrays_are_padded(indices, fixed_tokens, source, target):
    store = store_of(np.array([[2, 3], [1, 1], [3, 2]], np.int32))
    batch = make_batch(store, np.array(indices, int), fixed_tokens)
    assert (batch.source.tolist(), batch.target.tolist()) == (source, target)
    assert batch.source.dtype == batch.target.dtype == np.int32
    assert batch.target_tokens == np.count_nonzero(target)


def step_of(replicas, local, fixed_shapes):
    return types.SimpleNamespace(
        num_replicas=replicas, local_replicas=local, fixed_shapes=fixed_shapes
    )


@pytest.mark.parametrize(("replicas", "tokens"), [(1, 100), (8, 4096)])
def test_fixed_shapes_are_few(lengths, sampler, replicas, tokens):
    store, shapes = store_of(lengths), set()
    for batch in sampler.epoch(0)[::3]:
        step = step_of(replicas, range(replicas), fixed_shapes=True)
        held = list(itertools.chain(*replica_batches(store, batch, tokens, step)))
        assert sum(part.target_tokens for part in held) == lengths[batch, 1].sum()
        for arrays in held:
            assert arrays.source.shape == arrays.target.shape
            assert arrays.source.size <= tokens
            shapes.add(arrays.source.shape)
    # One for each length.
    assert len(shapes) == len({length for _, length in shapes})
    assert {length for _, length in shapes} <= {8, 12, 16, 24, 32, 48, 64}


def test_a_worker_pads_only_its_replicas_examples(lengths, sampler):
    batch = sampler.at(0)
    (parts,) = split_batch(lengths, batch, 5000, 2)
    step = step_of(2, range(1, 2), fixed_shapes=False)
    ((remote, local),) = replica_batches(store_of(lengths), batch, 5000, step)
    assert remote == RemoteBatch(lengths[parts[0], 1].sum())
    assert local.target.shape == (len(parts[1]), lengths[parts[1], 1].max())


@pytest.mark.parametrize("fixed_shapes", [False, True])
@pytest.mark.parametrize("tokens", [64, 700, 5000])
def test_no_microbatch_takes_more_than_the_largest(lengths, sampler, tokens, fixed_shapes):
    rows, length = worst_case_shape(tokens, sampler.max_side, fixed_shapes)
    assert length == sampler.max_side == MAX_LENGTH
    assert tokens <= rows * length < tokens + length
    for batch in sampler.epoch(0)[:10]:
        for (part,) in split_batch(lengths, batch, tokens, 1, fixed_shapes):
            padded = padded_tokens(lengths, part)
            assert padded <= rows * length
            assert padded * lengths[part].max(initial=0) <= rows * length**2


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("replicas", [1, 2, 8])
def test_no_replica_s_share_of_a_step_exceeds_max_padded_tokens(lengths, sampler, replicas, fixed):
    most = sampler.max_padded_tokens(replicas, fixed)
    # The shortest, of 2 tokens, become 8.
    assert BATCH_TOKENS < replicas * most < (4 if fixed else 1.5) * BATCH_TOKENS
    assert (most > sampler.max_padded_tokens(replicas, False)) == fixed
    for microbatch_tokens, parts in ((most, 1), (most - 1, 2)):
        split = (
            split_batch(lengths, batch, microbatch_tokens, replicas, fixed)
            for batch in sampler.epoch(0)
        )
        assert max(map(len, split)) == parts
