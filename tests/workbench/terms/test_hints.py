import pytest

from t2t_keras.workbench.terms.glossary import (
    has_marks,
    of_words_without_hints,
    original_words,
    places_with_hints,
    with_hints,
    without_hints,
)

TEXT = "The hot dog, it  barks."
HINTED = "The ⟪ hot dog ⟪ die Wurst ⟫, it  ⟪ barks ⟪ bellt ⟫."
HINTS = [(4, 11, "die Wurst"), (17, 22, "bellt")]


def test_hints_stand_behind_their_terms_and_leave_the_rest_as_it_is():
    assert with_hints(TEXT, HINTS) == HINTED
    assert without_hints(HINTED) == TEXT
    assert with_hints(TEXT, []) == without_hints(TEXT) == TEXT
    assert [has_marks(text) for text in (HINTED, TEXT, "a ⟫")] == [True, False, True]
    assert without_hints("a ⟪ b") == "a ⟪ b", "half a hint is text"


@pytest.mark.parametrize(
    ("hinted", "numbers"),
    [
        # The first mark belongs to "hot", word 1, the hint to "dog,", word 2; "it" is word 3.
        (HINTED, [0, 1, 1, 2, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4]),
        ("a b", [0, 1]),
        ("⟪ a ⟪ x ⟫-b c", [0, 0, 0, 0, 0, 1]),
        ("(⟪ a b ⟪ x ⟫) c", [0, 0, 1, 1, 1, 1, 2]),
        ("", []),
    ],
)
def test_words_of_a_hint_count_as_the_word_before(hinted, numbers):
    assert original_words(hinted) == numbers
    plain = len(without_hints(hinted).split())
    assert set(numbers) == set(range(plain))


@pytest.mark.parametrize("front", ["", "<2de> "])
def test_places_in_a_text_with_hints(front):
    places = places_with_hints(front + HINTED, len(TEXT))
    assert "".join((front + HINTED)[place] for place in places[:-1]) == TEXT
    assert places[-1] == len(front + HINTED)


def test_alignments_without_hints():
    # "Wurst" is aligned with a word of the hint and with the dog.
    pairs = [(0, 0), (3, 1), (5, 1), (11, 2)]
    assert of_words_without_hints(pairs, HINTED) == [(0, 0), (2, 1), (4, 2)]
