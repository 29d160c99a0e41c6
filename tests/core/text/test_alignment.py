import itertools

import numpy as np
import pytest

from t2t_keras.decoding.keras_engine import alignment_layer
from t2t_keras.text.alignment import (
    count_words,
    monotone_alignment,
    read_pharaoh,
    split_words,
    to_pharaoh,
    word_alignment,
    word_numbers,
    word_spans,
)


@pytest.mark.parametrize(
    ("pieces", "numbers"),
    [
        (("▁the", "▁hou", "se", "▁", "x", "y", "▁!"), [0, 1, 1, 2, 2, 2, 3]),
        (("no", "▁space", "▁▁two"), [0, 1, 2]),
        # Spaces at the end belong to no word.
        (("▁a", "▁b", "▁", "▁"), [0, 1, None, None]),
        (("▁",), [None]),
        # A tab in bytes divides words as well; U+3000, a no-break space, and half a character are
        # part of one.
        (("▁a", "<0x09>", "b", "<0xE3>", "<0x80>", "<0x80>", "c"), [0, 1, 1, 1, 1, 1, 1]),
        (("▁10", "\u00a0", "000", "▁dogs"), [0, 0, 0, 1]),
        (("▁a", "<0xE3>"), [0, 0]),
        # Pieces of several words, as other vocabularies have them, belong to the first.
        (("▁a▁b", "c▁d"), [0, 1]),
    ],
)
def test_words_are_divided_by_ascii_white_space(pieces, numbers):
    assert word_numbers(pieces) == numbers


def test_words_of_a_text_are_those_of_its_pieces():
    text = " 10\u00a0000\tdogs\u3000x\n"
    assert split_words(text) == ["10\u00a0000", "dogs\u3000x"]
    assert word_spans(text) == [(1, 7), (8, 14)]
    assert count_words(text) == 2


@pytest.mark.parametrize(
    ("source", "target", "attention", "expected"),
    [
        # By single pieces "▁haus" would look at "▁a"; both pieces of "house" together have more.
        # The ends of the sentences, which draw much attention, are no words.
        (
            ["▁a", "▁hou", "se", "</s>"],
            ["▁ein", "▁haus", "boot", "</s>"],
            [[0.2, 0.1, 0.1, 0.6], [0.3, 0.2, 0.2, 0.3], [0, 0.1, 0.1, 0.8], [0, 0, 0, 1]],
            "0-0 1-1",
        ),
        # "▁" draws most attention, and is a word of neither side.
        (
            ["▁a", "▁", "</s>"],
            ["▁ein", "▁", "</s>"],
            [[0.3, 0.7, 0], [0, 1, 0], [0, 0, 1]],
            "0-0",
        ),
        (["▁a", "</s>"], ["</s>"], [[0.5, 0.5]], ""),
    ],
)
def test_words_are_aligned_by_their_pieces(source, target, attention, expected):
    alignment = word_alignment(source, target, np.array(attention))
    assert to_pharaoh(alignment) == expected
    assert read_pharaoh(expected) == alignment


def test_what_aligns_gets_words_and_the_mean_of_their_pieces():
    def align(words, weights):
        assert words == ["ein", "hausboot"]
        np.testing.assert_allclose(weights, [[0.2, 0.4], [0.1, 0.3]])
        return [(1, 0)]

    attention = np.array(
        [[0.2, 0.3, 0.1, 0.4], [0.2, 0.1, 0.3, 0.4], [0, 0.1, 0.1, 0.8], [1, 0, 0, 0]]
    )
    source, target = ["▁a", "▁hou", "se", "</s>"], ["▁ein", "▁haus", "boot", "</s>"]
    assert word_alignment(source, target, attention, align) == [(1, 0)]


def test_the_heaviest_pairs_in_order():
    random = np.random.default_rng(3)
    for rows, columns in [(1, 1), (3, 3), (2, 5), (5, 2), (4, 4), (0, 3), (3, 0)]:
        weights = random.random([rows, columns]).astype(np.float32)
        best = max(
            weights[list(some_rows), list(some_columns)].sum()
            for size in range(min(rows, columns) + 1)
            for some_rows in itertools.combinations(range(rows), size)
            for some_columns in itertools.combinations(range(columns), size)
        )
        actual = monotone_alignment(weights)
        assert sum(weights[row, column] for column, row in actual) == pytest.approx(best)
        for side in zip(*actual, strict=True):
            assert list(side) == sorted(set(side))


def test_the_layer_is_the_last_but_one_of_more_than_two():
    assert [alignment_layer(layers) for layers in (1, 2, 3, 6)] == [0, 1, 1, 4]
