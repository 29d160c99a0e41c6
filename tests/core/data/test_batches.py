"""Batches of tokens: what an epoch and a step hold, and how a step is divided."""

import itertools
import types

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.batches import (
    RemoteBatch,
    Rows,
    TokenBatchSampler,
    make_batch,
    replica_batches,
    split_batch,
    split_by_tokens,
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


@pytest.fixture(scope="module", params=["length", "rows"])
def batching(request):
    return request.param


@pytest.fixture(scope="module")
def sampler(lengths, batching):
    return TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1, batching=batching)


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


def test_epochs_and_steps_are_functions_of_seed_and_number(lengths, sampler, batching):
    epochs = [sampler.epoch(number) for number in range(3)]
    steps = list(itertools.chain(*epochs))
    # In another order, without what came before.
    for step in (len(steps) - 1, len(epochs[0]), len(epochs[0]) - 1, 0):
        resumed = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1, batching=batching)
        np.testing.assert_array_equal(resumed.at(step), steps[step])
    other = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=2, batching=batching).epoch(0)
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
    assert min(sampler.fill_ratio()) > 0.9
    # Batches are as large as they may be.
    assert len(TokenBatchSampler(np.array([[10, 1]] * 50), 30, 10, seed=0).epoch(0)) == 17


def test_steps_hold_pairs_of_similar_length_in_random_order(lengths, sampler, batching):
    longest = lengths.max(axis=1)
    if batching == "length":
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
def test_split_keeps_the_step_s_examples(lengths, sampler, batching, replicas, microbatch_tokens):
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
        if batching == "length" and microbatch_tokens > BATCH_TOKENS + MAX_LENGTH:
            assert len(split) == 1
        if min(map(len, parts)) > 4:
            tokens = [lengths[part].max(axis=1).sum() for part in parts]
            assert max(tokens) < 1.5 * min(tokens)
    if batching == "length":
        assert real > 0.9 * padded


def test_a_pair_longer_than_a_microbatch_is_a_part_of_its_own():
    lengths = np.array([[3, 3], [97, 2], [130, 130], [4, 4]], np.int32)
    split = split_batch(lengths, np.arange(4), 100, 1)
    assert sorted(part.tolist() for (part,) in split if len(part)) == [[0, 3], [1], [2]]


def test_parts_end_at_the_nearest_pair():
    assert split_by_tokens(np.array([1, 10, 10]), 2) == [(0, 2), (2, 3)]
    assert split_by_tokens(np.array([3] * 7), 3) == [(0, 2), (2, 5), (5, 7)]


def test_replicas_may_have_no_example(lengths):
    (split,) = split_batch(lengths, np.array([3, 5]), 4096, 8)
    assert sorted(map(len, split)) == [0] * 6 + [1] * 2


@pytest.mark.parametrize(
    ("indices", "source", "target"),
    [([2, 1], [[3, 3, 3], [2, 0, 0]], [[-3, -3], [-2, 0]]), ([], [[0]], [[0]])],
)
def test_arrays_are_padded(indices, source, target):
    store = store_of(np.array([[2, 3], [1, 1], [3, 2]], np.int32))
    batch = make_batch(store, np.array(indices, int))
    assert (batch.source.tolist(), batch.target.tolist()) == (source, target)
    assert batch.source.dtype == batch.target.dtype == np.int32
    assert batch.target_tokens == np.count_nonzero(target)
    assert list(batch.inputs()) == ["source", "target"]


def test_a_worker_reads_only_its_replicas_examples(lengths, sampler):
    batch, store = sampler.at(0), store_of(lengths)
    (parts,) = split_batch(lengths, batch, 100_000, 2)
    step = step_of(2, range(1, 2), fixed_shapes=False)
    ((remote, local),) = replica_batches(store, batch, 100_000, step)
    assert remote == RemoteBatch(lengths[parts[0], 1].sum())
    assert local.target.shape == (len(parts[1]), lengths[parts[1], 1].max())

    step = step_of(2, range(1, 2))
    ((remote, local),) = replica_batches(store, batch, 0, step, sampler.rows_for(step, 100_000))
    assert remote.target_tokens + local.target_tokens == lengths[batch, 1].sum()
    nothing = replica_batches(store, batch[:1], 0, step, sampler.rows_for(step, 100_000))
    assert [local.target_tokens for _, local in nothing] == [0], "one row, and two replicas"


# Rows of several pairs.


def step_of(replicas, local=None, fixed_shapes=True, packs_rows=True):
    return types.SimpleNamespace(
        num_replicas=replicas,
        local_replicas=local or range(replicas),
        fixed_shapes=fixed_shapes,
        packs_rows=packs_rows,
    )


def test_a_row_takes_pairs_until_no_further_one_fits():
    lengths = np.array([[5, 4], [4, 4], [3, 6], [1, 2], [9, 1], [1, 1], [2, 2]], np.int32)
    for look_ahead, expected in (
        # A pair that does not fit ends a row.
        (0, [[0, 1], [2, 3], [4, 5], [6]]),
        # Behind (3, 6) there is room for (1, 2).
        (1, [[0, 1, 3], [2, 5, 6], [4]]),
    ):
        assert Rows(10, 1, look_ahead).pack(lengths) == expected
    assert Rows(10, 1, 9, max_pairs=1).pack(lengths) == [[index] for index in range(7)]
    # Nothing is dropped, not even a pair that no row can hold.
    assert Rows(8, 1, 9).pack(lengths) == [[0, 3, 5], [1, 6], [2], [4]]


def test_batches_cut_by_rows_fill_the_rows_of_their_plan(lengths):
    sampler = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1, batching="rows")
    assert sampler.row_length == 128
    rows = sampler.rows_for(step_of(1), BATCH_TOKENS)
    assert (rows.length, rows.count) == (128, 32)
    counts = [len(rows.pack(lengths[batch])) for batch in sampler.epoch(1)]
    assert sorted(counts)[1:] == [32] * (len(counts) - 1), "but the last one of the epoch"


def test_an_epoch_has_no_small_last_batch(lengths):
    """Rows for 6.2 batches make 7 of about the same size."""
    sampler = TokenBatchSampler(lengths, 22_500, MAX_LENGTH, seed=1, batching="rows")
    for epoch in range(3):
        tokens = [lengths[batch].sum() for batch in sampler.epoch(epoch)]
        assert len(tokens) == 7
        assert min(tokens) > 0.8 * max(tokens)


@pytest.mark.parametrize(
    ("max_side", "batch_tokens", "length"),
    [
        (54, 4096, 128),
        (90, 4096, 256),
        (256, 25_000, 256),
        (257, 25_000, 520),
        (30, 1000, 64),
        (100, 150, 150),
        (200, 200, 200),
        (2, 300, 4),
    ],
)
def test_rows_hold_the_longest_pair_and_fill_a_step(max_side, batch_tokens, length):
    lengths = np.full((10, 2), max_side, np.int32)
    sampler = TokenBatchSampler(lengths, batch_tokens, 1000, seed=0, batching="rows")
    assert sampler.row_length == length
    assert max(len(batch) for batch in sampler.epoch(0)) * max_side <= batch_tokens


@pytest.mark.parametrize(("replicas", "tokens"), [(1, 100), (3, 1000), (8, 4096)])
@pytest.mark.parametrize("packs_rows", [True, False])
def test_all_microbatches_have_one_shape(lengths, sampler, replicas, tokens, packs_rows):
    store, step = store_of(lengths), step_of(replicas, packs_rows=packs_rows)
    rows = sampler.rows_for(step, tokens)
    assert rows.count * rows.length <= max(tokens, rows.length)
    for batch in sampler.epoch(0)[:2]:
        pairs = []
        for held in itertools.chain(*replica_batches(store, batch, tokens, step, rows)):
            arrays = held.inputs()
            assert {array.shape for array in arrays.values()} == {(rows.count, rows.length)}
            if packs_rows:
                pairs += pairs_of(held)
            else:
                assert len(arrays) == 2
                pairs += [(*row[row != 0],) for row in np.hstack([held.source, held.target])]
        # Every pair once, its sides together.
        expected = [
            (number + 1,) * source + (-number - 1,) * target
            for number, (source, target) in zip(batch, lengths[batch], strict=True)
        ]
        assert sorted(filter(None, pairs)) == sorted(expected)


def pairs_of(batch):
    """The ids of each pair in packed rows."""
    for row, numbers in enumerate(batch.target_sentences):
        np.testing.assert_array_equal(numbers == 0, batch.target[row] == 0)
        for number in range(1, numbers.max() + 1):
            source = batch.source[row][batch.source_sentences[row] == number]
            target = batch.target[row][numbers == number]
            yield (*source.tolist(), *target.tolist())


@pytest.mark.parametrize("replicas", [1, 8])
@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_no_replica_s_share_of_a_step_exceeds_max_padded_tokens(
    lengths, sampler, replicas, fixed_shapes
):
    most = sampler.max_padded_tokens(replicas, fixed_shapes)
    step, store = step_of(replicas, fixed_shapes=fixed_shapes), store_of(lengths)
    for tokens, parts in ((most, 1), (most - 1, 2)):
        rows = sampler.rows_for(step, tokens)
        counts = {
            len(list(replica_batches(store, batch, tokens, step, rows)))
            for batch in sampler.epoch(0)
        }
        assert max(counts) == parts


@pytest.mark.parametrize("fixed_shapes", [False, True])
@pytest.mark.parametrize("tokens", [64, 700, 5000])
def test_no_microbatch_takes_more_than_the_largest(lengths, sampler, tokens, fixed_shapes):
    step = step_of(1, fixed_shapes=fixed_shapes)
    rows, length = sampler.worst_case_shape(tokens, fixed_shapes)
    assert length == (sampler.row_length if fixed_shapes else MAX_LENGTH)
    for batch in sampler.epoch(0)[:5]:
        fixed = sampler.rows_for(step, tokens)
        for (held,) in replica_batches(store_of(lengths), batch, tokens, step, fixed):
            size, longest = held.target.shape
            assert size * longest <= rows * length
            assert size * longest**2 <= rows * length**2


def test_a_pair_that_has_become_longer_than_a_row_gets_a_longer_row():
    lengths = np.array([[3, 3], [9, 20], [2, 6], [40, 2], [5, 17]], np.int32)
    rows = Rows(16, 4, 20)
    shapes, pairs = [], []
    for (batch,) in replica_batches(store_of(lengths), np.arange(5), 0, step_of(1), rows):
        shapes.append(batch.source.shape)
        pairs += pairs_of(batch)
    assert shapes == [(4, 16), (2, 32), (1, 64)]
    assert sorted(map(len, pairs)) == sorted(lengths.sum(axis=1))


def test_batches_are_divided_into_about_equal_rows(lengths):
    sampler = TokenBatchSampler(lengths, BATCH_TOKENS, MAX_LENGTH, seed=1, batching="rows")
    order = np.random.default_rng(0).permutation(500)
    batches = sampler.divide_by_rows(lengths, order, 16)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(500))
    rows = Rows(sampler.row_length, 1, 0)
    counts = [len(rows.pack(lengths[batch])) for batch in batches]
    assert max(counts) - min(counts) <= 1
    # No batch is empty, even if all pairs fit into fewer rows.
    assert min(map(len, sampler.divide_by_rows(lengths, order[:20], 16))) == 1


def test_almost_all_that_is_computed_are_tokens(lengths, batching):
    """Of both sides, epochs over; sides differ by 20 % of their length."""
    for batch_tokens, replicas, microbatch in ((4096, 1, 4096), (25_000, 1, 4096), (25_000, 4, 0)):
        sampler = TokenBatchSampler(lengths, batch_tokens, MAX_LENGTH, 1, batching=batching)
        step, store = step_of(replicas), store_of(lengths)
        rows = sampler.rows_for(step, microbatch or 25_000)
        tokens = computed = 0
        for batch in sampler.epoch(0):
            for held in itertools.chain(*replica_batches(store, batch, 0, step, rows)):
                tokens += np.count_nonzero(held.source) + np.count_nonzero(held.target)
                computed += held.source.size + held.target.size
        assert sampler.token_share(rows, replicas) == pytest.approx(tokens / computed)
        assert tokens / computed > (0.92 if batching == "rows" else 0.6)
