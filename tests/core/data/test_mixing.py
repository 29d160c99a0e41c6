"""Mixtures: what is read of each corpus, and when."""

import collections

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.data.mixing import Mixture, stages_of

SIZES = {"clean": 300, "web": 1000, "old": 50}
# All pairs have one length, so that each step holds as many.
LENGTHS = np.full((sum(SIZES.values()), 2), 10, np.int32)
FIRST = {"clean": 0, "web": 300, "old": 1300}


def corpora():
    return {name: FIRST[name] + np.arange(size) for name, size in SIZES.items()}


def corpus_of(pair):
    return max((first, name) for name, first in FIRST.items() if first <= pair)[1]


def steps(mix, count, seed=1, lengths=LENGTHS, until=()):
    sampler = TokenBatchSampler(lengths, 500, 20, seed, mix, until, SIZES)
    return [sampler.at(number) for number in range(count)]


@pytest.mark.parametrize(
    ("mix", "shares"),
    [
        ({"clean": 0.8, "web": 0.2}, {"clean": 0.8, "web": 0.2}),
        ({"clean": 3, "old": 1}, {"clean": 0.75, "old": 0.25}),
        ({"temperature": 1}, {name: size / 1350 for name, size in SIZES.items()}),
        ({"temperature": 2}, {"clean": 0.308, "web": 0.563, "old": 0.126}),
    ],
)
def test_shares_are_those_of_the_pairs(mix, shares):
    read = collections.Counter(corpus_of(pair) for step in steps([mix], 400) for pair in step)
    assert set(read) == set(shares)
    for name, share in shares.items():
        assert read[name] / sum(read.values()) == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize("left_out", [range(200), range(300, 900), range(299, 1299)])
def test_a_pair_that_is_left_out_counts_for_its_own_corpus(left_out):
    lengths = LENGTHS.copy()
    lengths[left_out] = 21
    read = np.concatenate(steps([{"clean": 0.8, "web": 0.2}], 200, lengths=lengths)).tolist()
    counts = collections.Counter(map(corpus_of, read))
    assert counts == pytest.approx({"clean": 8000, "web": 2000}, rel=0.02)
    assert set(read) == set(range(1300)) - set(left_out)


def test_stages_end_after_epochs_and_a_corpus_is_read_in_epochs_throughout():
    mix = [{"clean": 1}, {"clean": 0.8, "web": 0.2}, {"web": 1, "old": 1}]
    until = [{"clean": 2}, {"web": 0.5}]
    read = np.concatenate(steps(mix, 120, until=until))
    names = np.array([corpus_of(pair) for pair in read])
    first, second = 600, 600 + 500 * 5
    assert set(names[:first]) == {"clean"}
    assert collections.Counter(read[:first].tolist()) == dict.fromkeys(range(300), 2)
    assert collections.Counter(names[first:second]) == {"clean": 2000, "web": 500}
    assert set(names[second:]) == {"web", "old"}
    mixture = Mixture(mix, until, corpora(), 1)
    read = np.concatenate([mixture.round(number) for number in range(9)])
    for pairs in corpora().values():
        times = np.bincount(read, minlength=len(LENGTHS))[pairs]
        assert times.max() - times.min() <= 1


@pytest.mark.parametrize(
    ("stage", "largest"),
    [({"old": 0.5, "web": 0.5}, "web"), ({"web": 3, "old": 4, "clean": 3}, "old")],
    ids=str,
)
def test_no_stage_is_empty(stage, largest):
    sampler = TokenBatchSampler(LENGTHS, 500, 20, 1, [stage, {"web": 1}], [{"old": 0.01}], SIZES)
    read = [sampler.at(number) for number in range(21)]
    assert sampler.fill_ratio() == (10 / 500, 10 / 500), "of the first epoch"
    assert [len(step) for step in read] == [1, *[50] * 20]
    assert corpus_of(read[0][0]) == largest, "or the first of several"
    assert {corpus_of(pair) for step in read[1:] for pair in step} == {"web"}


def test_a_round_depends_on_its_number_and_the_seed_alone():
    both, reordered = [{"web": 1, "old": 1}], [{"old": 1, "web": 1}]
    mix, later = [({"clean": 1}), *both], Mixture(both, [], corpora(), 1)
    one, other = (Mixture(mix, [{"clean": 1}], corpora(), 1) for _ in range(2))
    np.testing.assert_array_equal(later.round(0), Mixture(reordered, [], corpora(), 1).round(0))
    np.testing.assert_array_equal(one.round(3), [other.round(number) for number in range(4)][3])
    assert sorted(later.round(0).tolist()) != sorted(Mixture(both, [], corpora(), 2).round(0))
    for number, (actual, expected) in enumerate(zip(steps(both, 30), steps(both, 30), strict=True)):
        np.testing.assert_array_equal(actual, expected, str(number))
    assert any((a != b).any() for a, b in zip(steps(both, 3), steps(both, 3, seed=2), strict=True))


@pytest.mark.parametrize(
    ("mix", "until", "code", "names"),
    [
        ({"claen": 0.5, "web": 0.5}, [], "unknown_name", ["'claen'", "'clean'", "clean (300 pair"]),
        ({"clean": 0}, [], "bad_value", ["{clean: 0}"]),
        ({"clean": np.inf}, [], "bad_value", ["{clean: inf}"]),
        ({}, [], "bad_value", ["{}"]),
        ({"clean": 1}, [{"clean": 2}], "bad_value", ["[{clean: 2}]", " 0 "]),
        ({"temperature": 0}, [], "bad_value", ["{temperature: 0}"]),
        ({"temperature": 0.099}, [], "bad_value", [" 0.1,", " 0.099."]),
    ],
)
def test_what_is_wrong_is_named(mix, until, code, names):
    with refused(code, "mix", *names):
        Mixture([mix], until, corpora(), 1)


@pytest.mark.parametrize(
    ("until", "code", "names"),
    [
        ([], "bad_value", [" 1 ends", "mix=[{clean: 1}, {web: 1}]"]),
        ([{"clean": 1, "web": 1}], "bad_value", ["[{clean: 1, web: 1}]"]),
        ([{"web": 2}], "unknown_name", ["'web'", "{clean: 1}"]),
        ([{"clean": -1}], "bad_value", ["{clean: -1}"]),
    ],
)
def test_ends_that_do_not_fit_are_named(until, code, names):
    with refused(code, "mix", *names):
        Mixture([{"clean": 1}, {"web": 1}], until, corpora(), 1)


def test_the_least_temperature_reads_the_largest_corpus():
    [stage] = stages_of([{"temperature": 0.1}], [], SIZES)
    weights = {name: float(size) ** 10 for name, size in SIZES.items()}
    expected = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    assert stage.shares == pytest.approx(expected)
    assert stage.shares["web"] > 0.99999
    # 0.57 * 100 is a little less than 57.
    sizes = {"a": 100, "b": 1}
    assert stages_of([{"a": 1}, {"b": 1}], [{"a": 0.57}], sizes)[0].pairs == 57


def test_a_corpus_of_which_nothing_is_short_enough_is_named():
    lengths = LENGTHS.copy()
    lengths[1300:] = 30
    with refused("unknown_name", "'old'"):
        TokenBatchSampler(lengths, 500, 20, 1, [{"clean": 1, "old": 1}], [], SIZES)
