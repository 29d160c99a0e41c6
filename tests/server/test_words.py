"""What the page is told of words."""

from types import SimpleNamespace

import pytest
from upper_case import UpperCase

from t2t_keras.decoding.source_text import sentence_splitter
from t2t_keras.server.words import WordByWord


class Aligning(UpperCase):
    """Aligns the first words."""

    def align(self, lines, translations):
        return [[(0, 0)] for _ in lines]


@pytest.fixture
def translator(monkeypatch):
    """Knows of the first two words of a sentence how sure it is."""
    known = SimpleNamespace(words=(0.5, 0.25), whole=0.3)
    found = lambda translator, lines, translations: [known for _ in lines]  # noqa: E731
    monkeypatch.setattr("t2t_keras.server.words.confidences", found)
    return Aligning()


def test_words_of_which_nothing_is_known(translator):
    [line] = WordByWord()(translator, ["one two three"])
    assert [word["confidence"] for word in line["words"]] == [0.5, 0.25, None]


def test_the_words_of_sentences_without_space_between_them(translator):
    [line] = WordByWord(split=sentence_splitter("zh"))(translator, ["你好。再见。"])
    assert line["source_words"] == ["你好。", "再见。"]
    assert line["alignment"] == [[0, 0], [1, 1]]
    assert line["confidence"] == 0.3, "a mean: two sentences are not less sure than one"
