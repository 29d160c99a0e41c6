import dataclasses

import pytest
from sacrebleu.metrics import BLEU, CHRF

from t2t_keras.lab.comparison.comparison import (
    by_frequency,
    by_length,
    compare,
    sentence_differences,
)
from t2t_keras.lab.comparison.report import shown_score
from t2t_keras.lab.comparison.scores import Significance, score_systems
from t2t_keras.lab.comparison.systems import System, TranslatedText


def small(references, *translations):
    systems = [System(str(at), lines, str(at)) for at, lines in enumerate(translations)]
    return TranslatedText(systems, references, "references")


def test_by_length_scores_the_sentences_of_each_length(text):
    actual = {bucket.label: bucket for bucket in by_length(text, "13a", False)}
    # 3 to 26 words, and the full stop.
    counts = {label: bucket.count for label, bucket in actual.items()}
    assert counts == {"0-4": 1, "5-9": 5, "10-14": 5, "15-19": 5, "20-29": 8}
    of = slice(1, 6)
    for number, system in enumerate(text.systems):
        lines, references = system.translations[of], [text.references[of]]
        values = actual["5-9"].values
        assert values["bleu"][number] == BLEU().corpus_score(lines, references).score
        assert values["chrf"][number] == CHRF().corpus_score(lines, references).score


def test_where_buckets_begin_and_end():
    starts = {
        "0-4": 0, "5-9": 5, "10-14": 10, "15-19": 15, "20-29": 20, "30-39": 30, "40-59": 40,
        "60+": 60,
    }  # fmt: skip
    lines = [" ".join("a" * count) for start in starts.values() for count in (start, start + 4)]
    actual = by_length(small(lines, lines, lines), "none", False)
    assert {bucket.label: bucket.count for bucket in actual} == dict.fromkeys(starts, 2)
    counts = {"0": (0,), "1": (1,), "2-4": (2, 4), "5-9": (5, 9), "10-99": (10, 99)}
    counts |= {"100-999": (100, 999), "1000+": (1000,)}
    words = {f"w{count}": count for some in counts.values() for count in some}
    training = [" ".join([word] * count) for word, count in words.items()]
    line = [" ".join(words)]
    buckets = by_frequency(small(line, line, line), "none", False, training)
    assert {bucket.label: bucket.count for bucket in buckets} == {
        label: len(some) for label, some in counts.items()
    }


def test_by_frequency_counts_within_sentences():
    # "a" is in the first sentence alone: in the second it is wrong.
    text = small(["a a b", "c b"], ["a b b", "a b"], ["a a b", "c b"])
    ones, twos = by_frequency(text, "13a", False)
    assert (ones.label, ones.count, ones.values["recall"]) == ("1", 1, [0, 100])  # c
    assert (twos.label, twos.count) == ("2-4", 4)  # a and b, twice each
    # The first finds "a" once and "b" twice, and has written five such words.
    assert twos.values["recall"] == [75, 100]
    assert twos.values["precision"] == [60, 100]
    assert twos.values["f1"] == [pytest.approx(100 * 6 / 9), 100]


def test_words_are_counted_in_a_training_text_as_bleu_splits_them():
    text = small(["A dog, a bee."], ["a dog, a bee."], ["A dog a."])
    training = ["a"] * 10 + ["dog , a ."] * 1200
    by_case = by_frequency(text, "13a", False, training)
    # A and bee are not there; a comma and a full stop are words.
    assert {bucket.label: bucket.count for bucket in by_case} == {"0": 2, "1000+": 4}
    assert [bucket.values["recall"] for bucket in by_case] == [[50, 50], [100, 75]]
    lower = by_frequency(text, "13a", True, training)
    assert {bucket.label: bucket.count for bucket in lower} == {"0": 1, "1000+": 5}


def test_differences_are_by_chrf_in_both_directions(text):
    metric = CHRF()
    first, second = (
        [
            metric.sentence_score(line, [reference]).score
            for line, reference in zip(system.translations, text.references, strict=True)
        ]
        for system in (text.systems[0], text.systems[2])
    )
    actual = sentence_differences(text, False)[1]
    points = [b - a for a, b in zip(first, second, strict=True)]
    assert actual.system == 2
    assert (actual.better, actual.equal, actual.worse) == (
        sum(p > 0 for p in points),
        sum(p == 0 for p in points),
        sum(p < 0 for p in points),
    )
    worst = sorted(range(24), key=points.__getitem__)[:10]
    assert [loss.line for loss in actual.losses] == [at + 1 for at in worst if points[at] < 0]
    assert [gain.line for gain in actual.gains] == [
        at + 1 for at in sorted(range(24), key=lambda at: -points[at])[:10] if points[at] > 0
    ]
    assert actual.losses[0].chrf == (first[worst[0]], second[worst[0]])
    assert sum(actual.chrf.values()) == 24
    assert actual.chrf["15 to 30 worse"] == sum(-30 <= p < -15 for p in points) > 0
    assert actual.chrf["15 to 30 better"] == sum(15 <= p < 30 for p in points) > 0
    assert actual.chrf["equal"] == actual.equal


def test_the_most_different_are_ten_in_either_direction(text):
    turned = dataclasses.replace(text, systems=[text.systems[2], text.systems[0]])
    losses = sentence_differences(text, False)[1].losses
    [actual] = sentence_differences(turned, False)
    assert len(losses) == len(actual.gains) == 10
    assert [gain.line for gain in actual.gains] == [loss.line for loss in losses]


def test_of_sentences_that_differ_as_much_the_first_come_first():
    lines, worse = ["a b", "a b", "c d e", "a b"], ["a c", "a c", "c d e", "a c"]
    for first, second in ((lines, worse), (worse, lines)):
        [actual] = sentence_differences(small(lines, first, second), False)
        assert [example.line for example in [*actual.gains, *actual.losses]] == [1, 2, 4]


def test_case_can_be_ignored_in_all_of_them(text):
    base = text.systems[0]
    loud = System("loud", [line.upper() for line in base.translations], "loud")
    both = dataclasses.replace(text, systems=[base, loud])
    for lowercase in (False, True):
        few = Significance(samples=2)
        actual = compare(both, ["bleu", "chrf"], lowercase=lowercase, significance=few)
        assert (actual.differences[0].equal == 24) == lowercase
        for metric in actual.metrics:
            assert (metric.scores[1].difference == 0) == lowercase
        for bucket in [*actual.length_buckets, *actual.frequency_buckets]:
            for first, second in bucket.values.values():
                assert (first == second) == (lowercase or not first + second)


def test_equal_systems_do_not_differ(text):
    same = TranslatedText(
        [text.systems[0], System("same", text.systems[0].translations, "b")], text.references, "r"
    )
    [bleu] = score_systems(same, ["bleu"], significance=Significance(samples=99))
    assert bleu.scores[1].p_value == 1 / 100, "as of sacreBLEU"
    assert not bleu.scores[1].is_significant
    assert shown_score(bleu.scores[1], 2)[2:] == ["+0.00", "equal"]
    [actual] = sentence_differences(same, False)
    assert (actual.gains, actual.losses, actual.chrf["equal"]) == ([], [], 24)
