import numpy as np
import pytest

from t2t_keras.lab.insights import END, START, attention_view, shown_pieces

SOURCE = ["two", "dogs", "play", "ing", ".", "</s>"]
TARGET = ["zwei", "spielen", "de", "hunde", "</s>"]


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [
        ("encoder", SOURCE, SOURCE),
        # What is read when a word is predicted: the words before it, after a start.
        ("decoder", TARGET, ["start", "zwei", "spielen", "de", "hunde"]),
        ("cross", TARGET, SOURCE),
    ],
)
def test_words_stand_at_the_ends_of_the_weights(attention, kind, queries, keys):
    view = attention_view(attention(), kind)
    shown = [[piece.text for piece in pieces] for pieces in (view.queries, view.keys)]
    assert shown == [queries, keys]
    np.testing.assert_array_equal(view.weights, getattr(attention(), kind))


@pytest.mark.parametrize(
    ("pieces", "shown", "joined", "special"),
    [
        (["▁play", "ho", "▁."], "play ho .", [1], []),
        # Spaces that stand alone are seen.
        (["d", "o", "▁", "a"], "d o ␣ a", [1, 3], []),
        (["▁▁a"], "␣a", [], []),
        # What follows the start begins a word; a word spelled like the end is a word.
        ([START, "d", "o"], "start d o", [2], [0]),
        ([START, END, "▁a", END], "start </s> a </s>", [], [0, 3]),
    ],
)
def test_pieces_of_a_word_are_joined(pieces, shown, joined, special):
    actual = shown_pieces(pieces)
    assert [piece.text for piece in actual] == shown.split()
    assert [number for number, piece in enumerate(actual) if piece.joined] == joined
    assert [number for number, piece in enumerate(actual) if piece.special] == special
