import numpy as np

from t2t_keras.workbench.markup.attention import span_weights


def test_a_piece_counts_for_a_span_by_its_bytes_without_the_space_in_front():
    source, target = ["▁ab", "▁cé", "</s>"], ["▁x", "y", "</s>"]
    attention = np.array([[0.6, 0.2, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    spans = ("ab cé", [(0, 1), (0, 2), (1, 4), (4, 5)]), ("xy", [(0, 2), (1, 2)])
    # Of "ab", and of "c" with the two bytes of "é".
    shares = np.array([[1 / 2, 0], [1, 0], [1 / 2, 1 / 3], [0, 2 / 3]])
    expected = np.array([[0.5, 0.3], [0.4, 0.4]]) @ shares.T
    np.testing.assert_allclose(span_weights(source, target, attention, *spans), expected)


def test_spans_are_of_the_text_that_the_pieces_end_with():
    source, target, attention = (
        ["▁ab", "▁ab", "</s>"],
        ["▁x", "</s>"],
        np.array([[0.25, 0.5, 0]] * 2),
    )
    assert span_weights(source, target, attention, ("ab", [(0, 2)]), ("x", [(0, 1)])) == 0.5
    # Where they spell it otherwise, by its words.
    assert span_weights(source, target, attention, ("Ab", [(0, 1)]), ("x", [(0, 1)])) == 0.5
    assert span_weights(source, target, attention, ("A b", [(0, 1)]), ("X", [(0, 1)])) == 0.25
