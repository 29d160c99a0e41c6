"""Which words stand at the ends of the weights, and how their pieces are shown."""

import numpy as np
import pytest

from t2t_keras.insights.views import END, START, attention_view, shown_pieces

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
    assert view.weights.shape == (3, 4, len(queries), len(keys))


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["▁play", "ho", "▁."], [("play", False), ("ho", True), (".", False)]),
        # Spaces that stand alone are seen.
        (["d", "o", "▁", "a"], [("d", False), ("o", True), ("␣", False), ("a", True)]),
        (["▁▁a"], [("␣a", False)]),
        # What follows the start begins a word; a word spelled like the end is a word.
        ([START, "d", "o"], [("start", False), ("d", False), ("o", True)]),
        ([END, "▁a"], [("</s>", False), ("a", False)]),
    ],
)
def test_pieces_of_a_word_are_joined(pieces, shown):
    assert [(piece.text, piece.joined) for piece in shown_pieces(pieces)] == shown


def test_the_start_and_the_last_end_are_special():
    shown = shown_pieces((START, END, END))
    assert [piece.special for piece in shown] == [True, False, True]
