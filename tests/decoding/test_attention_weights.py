import numpy as np

from t2t_keras.decoding.attention_weights import (
    AttentionWeights,
    pharaoh,
    word_alignment,
    word_numbers,
)


def weights(source, target, cross):
    """One head in each of as many layers as `cross` has."""
    cross = np.array(cross, np.float32)[:, None]
    return AttentionWeights(tuple(source), tuple(target), None, None, cross)


def test_words_are_what_spaces_divide():
    assert word_numbers(("▁the", "▁hou", "se", "▁", "x", "y", "▁!")) == [0, 1, 1, 2, 2, 2, 3]
    assert word_numbers(("no", "▁space", "▁▁two")) == [0, 1, 2]
    assert word_numbers(()) == []


def test_alignment_sums_over_the_pieces_of_a_source_word():
    # By single pieces "▁haus" would look at "▁a"; both pieces of "house" together have more. The
    # ends of the sentences, which draw much attention, are no words.
    last_but_one = [
        [0.2, 0.1, 0.1, 0.6],
        [0.3, 0.2, 0.2, 0.3],
        [0.0, 0.1, 0.1, 0.8],
        [0.0, 0.0, 0.0, 1.0],
    ]
    last = [[0.0, 1.0, 0.0, 0.0]] * 4
    found = weights(
        ["▁a", "▁hou", "se", "</s>"], ["▁ein", "▁haus", "boot", "</s>"], [last_but_one, last]
    )
    assert word_alignment(found) == [(0, 0), (1, 1)]
    assert word_alignment(found, layer=1) == [(1, 0), (1, 1)]
    assert pharaoh(word_alignment(found)) == "0-0 1-1"


def test_nothing_to_align():
    found = weights(["▁a", "</s>"], ["</s>"], [[[0.5, 0.5]]])
    assert pharaoh(word_alignment(found)) == ""
