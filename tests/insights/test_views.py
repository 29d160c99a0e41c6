import numpy as np
import pytest

from t2t_keras.insights.views import KINDS, attention_view


def texts(pieces):
    return [piece.text for piece in pieces]


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
    weights = attention()
    view = attention_view(weights, kind)
    assert (texts(view.queries), texts(view.keys)) == (queries, keys)
    np.testing.assert_array_equal(view.weights, getattr(weights, kind))
    assert view.weights.shape == (3, 4, len(queries), len(keys))


def test_all_kinds_are_told():
    assert KINDS == ("encoder", "decoder", "cross")
