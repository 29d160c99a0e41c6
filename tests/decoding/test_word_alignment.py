import itertools

import numpy as np
import pytest

from t2t_keras.decoding.word_alignment import (
    alignment_layer,
    in_order,
    pharaoh,
    read_pharaoh,
    word_alignment,
    word_numbers,
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
        ((), []),
    ],
)
def test_words_are_divided_by_ascii_white_space(pieces, numbers):
    assert word_numbers(pieces) == numbers


def test_alignment_sums_over_the_pieces_of_a_source_word():
    # By single pieces "▁haus" would look at "▁a"; both pieces of "house" together have more. The
    # ends of the sentences, which draw much attention, are no words.
    attention = np.array(
        [
            [0.2, 0.1, 0.1, 0.6],
            [0.3, 0.2, 0.2, 0.3],
            [0.0, 0.1, 0.1, 0.8],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    source, target = ["▁a", "▁hou", "se", "</s>"], ["▁ein", "▁haus", "boot", "</s>"]
    alignment = word_alignment(source, target, attention)
    assert alignment == [(0, 0), (1, 1)]
    assert pharaoh(alignment) == "0-0 1-1"


def test_spaces_at_the_ends_are_not_aligned():
    # "▁" draws most attention, and is a word of neither side.
    attention = np.array([[0.3, 0.7, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert word_alignment(["▁a", "▁", "</s>"], ["▁ein", "▁", "</s>"], attention) == [(0, 0)]


def test_nothing_to_align():
    assert pharaoh(word_alignment(["▁a", "</s>"], ["</s>"], np.array([[0.5, 0.5]]))) == ""
    assert pharaoh(word_alignment(["</s>"], ["▁a", "</s>"], np.ones([2, 1]))) == ""


def test_the_heaviest_pairs_in_order():
    random = np.random.default_rng(3)
    for rows, columns in [(1, 1), (3, 3), (2, 5), (5, 2), (4, 4), (0, 3), (3, 0)]:
        weights = random.random([rows, columns]).astype(np.float32)
        best = max(
            sum(weights[pair] for pair in zip(some_rows, some_columns, strict=True))
            for size in range(min(rows, columns) + 1)
            for some_rows in itertools.combinations(range(rows), size)
            for some_columns in itertools.combinations(range(columns), size)
        )
        found = in_order(weights)
        assert sum(weights[row, column] for column, row in found) == pytest.approx(best)
        for side in zip(*found, strict=True):
            assert list(side) == sorted(set(side))


def test_order_is_kept_against_attention():
    # Both rows look at the last column most; without order, so would the first.
    weights = np.array([[0.3, 0.1, 0.6], [0.0, 0.1, 0.9]])
    assert in_order(weights) == [(0, 0), (2, 1)]
    assert in_order(weights.T) == [(0, 0), (1, 2)]


def test_an_alignment_is_read_as_it_was_written():
    alignment = [(0, 0), (2, 1), (10, 12)]
    assert read_pharaoh(pharaoh(alignment)) == alignment
    assert read_pharaoh("") == []


def test_the_layer_is_the_last_but_one():
    assert [alignment_layer(layers) for layers in (1, 2, 6)] == [0, 0, 4]
