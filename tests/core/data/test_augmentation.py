"""What training reads in place of the stored examples: sampled subwords and disturbed text."""

import random
import types
from unittest import mock

import numpy as np
import pytest
from refusals import refused
from words import Words

from t2t_keras import hyperparameters
from t2t_keras.data.augmentation import (
    AugmentedSteps,
    OnlineAugmentation,
    apply_change,
    choose_change,
)
from t2t_keras.data.augmentation import disturb as disturb_text
from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.data.dataset import ExampleStore
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.registry import AUGMENTATIONS
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.training.run_config import RunConfig

WORDS = "low lower lowest newer newest wider widest über straße the cat sits on mats".split()
PAIRS = [
    # The longer side is now the source, now the target.
    (f"{' '.join(random.Random(i).choices(WORDS, k=6))}.", f"Ja, {' so' * (i % 9 * 4)}!")
    for i in range(200)
]


def disturbed(name, pairs, seed=0):
    """All pairs with one change."""
    change = AUGMENTATIONS[name]
    return [change(*pair, random.Random(f"{seed} {i}")) for i, pair in enumerate(pairs)]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    lines = [side for pair in PAIRS for side in pair] * 5
    return SentencePieceTokenizer.train(lines, 295, request.param)


@pytest.fixture(scope="module")
def store(tokenizer):
    ids = [tokenizer.encode(pair) for pair in PAIRS]
    lengths = np.array([list(map(len, pair)) for pair in ids], np.int32)
    return ExampleStore([np.concatenate([side for pair in ids for side in pair])], [lengths])


def texts(tokenizer, examples):
    everything = np.arange(len(examples))
    sides = (tokenizer.decode(examples.padded(everything, side)) for side in ("source", "target"))
    return list(zip(*sides, strict=True))


def ids(examples):
    everything = np.arange(len(examples))
    return [examples.padded(everything, side).tolist() for side in ("source", "target")]


def test_sampled_subwords_spell_the_same_text_in_the_order_asked_for(tokenizer, store):
    numbers = np.array([7, 3, 190, 3])
    actual = OnlineAugmentation(tokenizer, 1, sampling=0.1).examples(store, numbers, step=0)
    assert texts(tokenizer, actual) == [PAIRS[number] for number in numbers]
    assert actual.lengths.sum() > store.lengths[numbers].sum()
    hparams = hyperparameters.hparams("transformer_tiny")
    assert RunConfig(Problem(), hparams).augmentation(mock.Mock()) is None, "nothing to draw"


def test_a_step_reads_what_seed_step_and_example_say(tokenizer, store):
    numbers, vary = np.arange(200), OnlineAugmentation(tokenizer, 1, 0.3, augment={"typos": 0.5})
    first = ids(vary.examples(store, numbers, 5))
    assert ids(vary.examples(store, numbers, 5)) == first
    alone = vary.examples(store, numbers[60:61], 5).padded([0], "source")[0]
    assert first[0][60][: len(alone)] == alone.tolist(), "whatever stands beside it"
    for other in (
        vary.examples(store, numbers, 6),
        OnlineAugmentation(tokenizer, 2, 0.3, augment={"typos": 0.5}).examples(store, numbers, 5),
    ):
        assert ids(other) != first


def test_a_pair_that_a_step_has_several_times_is_drawn_anew_each_time(tokenizer, store):
    vary = OnlineAugmentation(tokenizer, 1, 0.3, augment={"typos": 0.5})

    def drawn(numbers):
        actual = vary.examples(store, np.array(numbers), 5)
        return [
            [actual.padded([i], side)[0].tolist() for side in ("source", "target")]
            for i in range(len(numbers))
        ]

    actual = drawn([3, 60, 3, 3, 7, 60])
    assert len(set(map(str, actual))) == 6
    assert drawn([3, 60, 7]) == [actual[0], actual[1], actual[4]], (
        "the first is as if it were alone"
    )
    assert drawn([60, 7, 3, 60, 3, 3]) == [actual[i] for i in (1, 4, 0, 5, 2, 3)]


@pytest.mark.parametrize("batch_tokens", [100, 400])
def test_steps_hold_what_was_planned_in_batches_of_similar_drawn_length(
    tokenizer, store, batch_tokens
):
    def augmented(variation):
        sampler = TokenBatchSampler(store.lengths, batch_tokens, 100, seed=1)
        return sampler, AugmentedSteps(store, sampler, variation, seed=1)

    vary = OnlineAugmentation(tokenizer, 1, 0.1)
    sampler, steps = augmented(vary)
    count = len(sampler.epoch(0))
    assert (count > 16) == (batch_tokens == 100)
    read = [steps.at(step) for step in range(count + 3)]
    for step in (count + 2, 2, 0):
        _, alone = augmented(vary)
        (one, some), (other, same) = read[step], alone.at(step)
        np.testing.assert_array_equal(one.padded(some, "source"), other.padded(same, "source"))
    padded = as_planned = 0
    for first in range(0, count, 16):
        beside = read[first : min(first + 16, count)]
        longest = [one.lengths[some].max() for one, some in beside]
        assert longest != sorted(longest), "in random order"
        drawn = np.concatenate([one.lengths[some] for one, some in beside])
        planned = [
            vary.examples(store, sampler.at(first + i), first + i).lengths
            for i in range(len(beside))
        ]
        assert sorted(drawn.tolist()) == sorted(np.concatenate(planned).tolist())
        padded += sum(len(some) * one.lengths[some].max() for one, some in beside)
        as_planned += sum(len(lengths) * lengths.max() for lengths in planned)
    assert padded < as_planned * (1 if batch_tokens == 100 else 0.97)
    drawn = vary.examples(store, np.arange(200), 0).lengths.sum(axis=0)
    assert vary.token_expansion(store) == max(drawn / store.lengths.sum(axis=0))
    assert 1.05 < vary.token_expansion(store) < 3
    assert OnlineAugmentation(tokenizer, 1).token_expansion(store) == 1


@pytest.mark.parametrize(
    ("planned", "drawn", "parts"),
    [
        # A pair longer than all others together.
        ([40, 1, 1], [40, 1, 1], [1, 2]),
        ([1, 40, 1, 1], [1, 40, 1, 1], [1, 3]),
        ([40] * 4, [1, 1, 1, 40], [1] * 4),
        ([20] * 8, [1] * 7 + [90], [1, 1, 1, 5]),
        # Nothing to spare.
        ([40] * 2, [40] * 2, [1, 1]),
        ([40] * 3, [40] * 3, [1, 1, 1]),
        ([20] * 4, [20] * 4, [2, 2]),
    ],
)
def test_no_step_is_empty(planned, drawn, parts):
    def pairs(lengths):
        both = np.repeat(np.int32(lengths)[:, None], 2, axis=1)
        return ExampleStore([np.ones(both.sum(), np.int32)], [both])

    draws = types.SimpleNamespace(examples=lambda _, numbers, step: pairs(np.take(drawn, numbers)))
    store = pairs(planned)
    actual = AugmentedSteps(store, TokenBatchSampler(store.lengths, 40, 40, seed=1), draws, seed=1)
    assert sorted(len(actual.at(step)[1]) for step in range(len(parts))) == parts


def test_shares_of_changes(tokenizer, store):
    vary = OnlineAugmentation(tokenizer, 3, augment={"upper": 0.25, "punctuation": 0.5})
    read = [
        (pair, PAIRS[number])
        for step in range(20)
        for number, pair in enumerate(texts(tokenizer, vary.examples(store, np.arange(200), step)))
    ]
    kinds = [
        "same" if new == old else "upper" if new[0].isupper() else "punctuation"
        for new, old in read
    ]
    for kind, share in {"same": 0.25, "upper": 0.25, "punctuation": 0.5}.items():
        assert kinds.count(kind) / len(kinds) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("name", "pair", "expected"),
    [
        ("upper", ("a straße", "die Straße"), ("A STRASSE", "DIE STRASSE")),
        ("title", ("don't go, élan", "geh nicht"), ("Don't Go, Élan", "Geh Nicht")),
        ("diacritics", ("Ça va über naïve", "ä"), ("Ca va uber naive", "ä")),
        ("diacritics", ("한국어 がé", "ä"), ("한국어 がe", "ä")),
        ("punctuation", ("What is it?! ", "„So.“"), ("What is it", "„So")),
        ("punctuation", ("...", "a"), ("...", "a")),
        # What stands for a placeholder is none.
        ("punctuation", ("see \U0010ff00", "\U0010ff00見\U0010ff01"), None),
        ("typos", ("to go", "so"), ("to go", "so")),
    ],
)
def test_changes(name, pair, expected):
    assert disturbed(name, [pair]) == [expected or pair]


def test_words_for_the_model_stay_in_front():
    upper = AUGMENTATIONS["upper"]
    for tokens in ("", "<2de> ", "<2de> <bt> "):
        pair = apply_change(upper, f"{tokens}see <b>x</b> <i>", "ja", None)
        assert pair == (f"{tokens}SEE <B>X</B> <I>", "JA")
    assert apply_change(upper, "<b>x</b> y", "ja", None)[0] == "<B>X</B> Y"


def test_whole_texts_are_changed_by_line_and_number(own_registry):
    sources, targets = map(list, zip(*PAIRS, strict=True))
    actual = disturb_text("typos", sources, targets)
    assert actual[1] == targets
    assert all(map(str.__ne__, actual[0], sources))
    assert disturb_text("typos", sources[:9], targets[:9]) == (actual[0][:9], targets[:9])
    again, _ = disturb_text("typos", sources[:1] * 9, targets[:9])
    assert len(set(again)) > 5
    for number, pair in enumerate((("a\nb", "c"), ("a", "b\nc"))):
        AUGMENTATIONS.add(lambda *_, pair=pair: pair, f"broken{number}")
        with refused("line_break", f"broken{number}", " 1."):
            disturb_text(f"broken{number}", sources, targets)


def test_typos_and_noise_differ_from_pair_to_pair():
    lines = [("The elephant remembers everything.", "x")] * 30
    actual = disturbed("typos", lines)
    assert actual == disturbed("typos", lines) != disturbed("typos", lines, seed=1)
    assert len(set(actual)) > 20
    assert all(source != lines[0][0] and target == "x" for source, target in actual)
    wrong = [set(source.split()) - set(lines[0][0].split()) for source, _ in actual]
    assert {len(word) for word in wrong} >= {1, 2}, "in some words"
    # People seldom mistype the first letter.
    assert all([word[0] for word in source.split()] == list("Tere") for source, _ in actual)
    for source, target in disturbed("noise", lines):
        added = source.replace(lines[0][0], "")
        assert added.strip()
        assert target in (f"x{added}", f"{added}x")


def test_a_change_does_not_go_on_with_the_number_that_chose_it():
    shares = [(0.01, AUGMENTATIONS["noise"])]
    chosen = [change for i in range(20_000) if (change := choose_change(shares, str(i)))]
    added = [change("x", "x")[0].replace("x", "").strip() for change in chosen]
    assert {len(word) for word in added if word.isdigit()} >= {1, 2, 3, 4, 5}


def test_what_cannot_be_drawn_is_named(tokenizer):
    for wrong in ("upper", "{upper: 0}", "{upper: 0.6, typos: 0.5}", "{upper: much}"):
        with refused("bad_value", "augment"):
            make_problem("parallel_text", f"augment={wrong}")
    # Sums of floats may exceed 1 by a rounding.
    make_problem("parallel_text", "augment={upper: 0.2, typos: 0.4, title: 0.3, noise: 0.1}")
    with refused("unknown_name", "'uper'", "'upper'"):
        make_problem("parallel_text", "augment={uper: 0.1}")
    bpe = SentencePieceTokenizer.train(["abc abc", "cab cab"], 264)
    with refused("conflicting_settings", "subword_nbest=5"):
        OnlineAugmentation(bpe, 1, sampling=0.1, nbest=5)
    characters = SentencePieceTokenizer.train(["abc", "cab"], 9, "char")
    for other in (characters, Words.of("abc"), tokenizer.with_source(characters)):
        with refused("other_vocabulary_kind", "subword_sampling"):
            OnlineAugmentation(other, 1, sampling=0.1)


def test_text_that_its_ids_do_not_tell_stays(store):
    characters = SentencePieceTokenizer.train(["abc", "cab"], 9, "char")
    rows = characters.encode(["xa", "ab", "ab", "xb", "ab", "ab"])
    pairs = ExampleStore([np.concatenate(rows)], [np.full((3, 2), 3, np.int32)])
    actual = OnlineAugmentation(characters, 1, augment={"noise": 1}).examples(
        pairs, np.arange(3), 0
    )
    for number in (0, 1):
        sides = [actual.padded([number], side)[0].tolist() for side in ("source", "target")]
        assert sides == [row.tolist() for row in rows[2 * number : 2 * number + 2]]
    assert (actual.lengths[2] > 3).all()
