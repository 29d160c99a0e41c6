"""What the page is told of words."""

from t2t_keras.text.sentences import sentence_splitter
from t2t_keras.workbench.server.words import WordByWord


def test_words_of_which_nothing_is_known(aligning):
    [line] = WordByWord()(aligning, ["one two three"])
    assert [word["confidence"] for word in line["words"]] == [0.5, 0.25, None]


def test_the_words_of_several_sentences(aligning):
    [line] = WordByWord(split=sentence_splitter("en"))(aligning, ["One two. Three four."])
    assert line["source_words"] == ["One", "two.", "Three", "four."]
    # Of a source word and a word of the translation.
    assert line["alignment"] == [[0, 1], [2, 3]]
    assert line["confidence"] == 0.3  # The mean of equal ones, and not their product.


def test_the_words_of_sentences_without_space_between_them(aligning):
    [line] = WordByWord(split=sentence_splitter("zh"))(aligning, ["你好。再见。"])
    assert line["source_words"] == ["你好。", "再见。"]
    assert line["alignment"] == [[0, 1], [1, 2]]
