"""A text as sentences, and back."""

import pytest

from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.sentences import ends_sentence
from t2t_keras.workbench.documents.layout import sentence_splitter
from t2t_keras.workbench.server.service import Passages, ranked_texts, read_passages

TEXTS = [
    "",
    " \n\t",
    "One. Two.",
    "  One.  Two.\r\n\r\n\tthree\rfour \n",
    "Mr. Smith came. \u3000He left.\u2028Here too. \x0b x",
    "。一。二",
    "42\n\u2014 One. \u200b\n",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("split", [None, sentence_splitter("en")])
def test_its_own_sentences_give_the_text_back(text, split):
    found = read_passages(text, split=split)
    assert found.joined(found.sentences) == text
    assert all(each == each.strip() != "" for each in found.sentences)
    assert not any(set("\r\n") & set(each) for each in found.sentences)


def test_lines_and_sentences():
    text = " One. Two.\nthree\n"
    split = sentence_splitter("en")
    assert read_passages(text, split=split).sentences == ["One.", "Two.", "three"]
    assert read_passages(text).sentences == ["One. Two.", "three"]
    assert read_passages(text, split_lines=False).sentences == ["One. Two. three"]
    spaced = "at 5\u00a0km\n or\u3000more"
    assert read_passages(spaced, split_lines=False).sentences == ["at 5\u00a0km or\u3000more"]


@pytest.mark.parametrize(
    "line", ["42", "\u2014", "12:30 % \u20ac", "\u200b", "\ufeff", "\U0001f600"]
)
def test_what_has_no_letters_stays(line):
    found = read_passages(f"One.\n{line}\nTwo", split=sentence_splitter("en"))
    assert found.sentences == ["One.", "Two"]
    assert found.joined(["Eins.", "Zwei"]) == f"Eins.\n{line}\nZwei"


def test_sentences_that_chinese_does_not_space_are_apart():
    found = read_passages("你好。再见。 是。\n", split=sentence_splitter("zh"))
    assert found.joined(["Hello.", "Bye.", "Yes."]) == "Hello. Bye. Yes.\n"
    assert found.joined(["今日は。", "またね。", "はい。"]) == "今日は。またね。 はい。\n"


def test_alternatives_are_joined_rank_by_rank_each_text_once():
    def ranked(*texts, postprocessed=""):
        hypotheses = tuple(Hypothesis(text, 0.0) for text in texts)
        return Translation(texts[0], 0.0, hypotheses, postprocessed=postprocessed)

    passages = read_passages("a\n b ")
    best = ranked("A", "A", "X\nY", "A", postprocessed="(A)")
    assert ranked_texts(passages, [best, ranked("B")]) == ["(A)\n B ", "A\n B ", "X Y\n B "]
    found = ranked_texts(passages, [ranked("A", "C"), ranked("B", "D", "E")])
    assert found == ["A\n B ", "C\n D ", "C\n E "]
    found = ranked_texts(read_passages("a"), [ranked("A", "C", postprocessed="(A)")])
    assert found == ["(A)", "C"]
    same = Passages(["a", "b"], ["", " ", ""])
    assert ranked_texts(same, [ranked("A B", "A"), ranked("C", "B C")]) == ["A B C"]
    assert ranked_texts(read_passages(" 42 "), []) == [" 42 "]


def test_long_texts_take_time_in_proportion():
    # Quadratic time would be minutes.
    text = "a" + " " * 200_000 + "b"
    assert read_passages(text).sentences == [text]
    assert not ends_sentence("!" * 200_000 + "a")
    assert ends_sentence(f"{text} (so.)")
    split = sentence_splitter("en")
    assert "".join(split("\u201c!" * 100_000)) == "\u201c!" * 100_000
    sentences = [f"Mr. Smith has {number} dogs. " for number in range(1_000)]
    assert split("".join(sentences)) == sentences
    assert "".join(split(text)) == text
