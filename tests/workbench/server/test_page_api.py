"""What the page is told of words, and translations that go on in different ways."""

import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.text.sentences import sentence_splitter
from t2t_keras.workbench.server.page_api import WordByWord, continuations


def test_words_of_which_nothing_is_known(aligning):
    [line] = WordByWord()(aligning, ["one two three"])
    assert [word["confidence"] for word in line["words"]] == [0.5, 0.25, None]


def test_the_words_of_several_sentences(aligning):
    [line] = WordByWord(splitter=sentence_splitter("en"))(aligning, ["One two. Three four."])
    assert line["source_words"] == ["One", "two.", "Three", "four."]
    # Of a source word and a word of the translation.
    assert line["alignment"] == [[0, 1], [2, 3]]
    assert line["confidence"] == 0.3  # The mean of equal ones, and not their product.


def test_the_words_of_sentences_without_space_between_them(aligning):
    [line] = WordByWord(splitter=sentence_splitter("zh"))(aligning, ["你好。再见。"])
    assert line["source_words"] == ["你好。", "再见。"]
    assert line["alignment"] == [[0, 1], [1, 2]]


@pytest.fixture(scope="module")
def translator(model, tokenizer):
    return Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=3))


def test_each_is_the_best_translation_behind_its_word(translator):
    line = "the small dog sleeps"
    for prefix in ("", "the big cat"):
        actual = continuations(translator, line, prefix, 3)
        assert len({alternative.word for alternative in actual}) == len(actual) == 3
        words = prefix.split()
        for alternative in actual:
            assert alternative.text.split()[: len(words) + 1] == [*words, alternative.word]
        # Those that are a piece, by the translator's own prefixes.
        firsts = [f"{prefix} {alternative.word}".strip() for alternative in actual]
        again = translator.translate([line] * len(firsts), firsts)
        assert [translation.text for translation in again] == [
            translation.text for translation in actual
        ]


def test_the_likeliest_word_is_that_of_the_best_translation_of_a_greedy_search(model, tokenizer):
    greedy = Translator(model, tokenizer, DecodeConfig(beam_size=1, extra_length=3))
    line = "a man sees the tree"
    [best] = greedy.translate([line])
    assert continuations(greedy, line, "", 2)[0].text == best.text


def test_a_beginning_is_read_in_nfc(translator):
    actual = [continuations(translator, "a dog", begin, 2) for begin in ("cafe\u0301", "caf\u00e9")]
    assert actual[0]
    assert [translation.text for translation in actual[0]] == [
        translation.text for translation in actual[1]
    ]


def test_what_changes_the_beginning_is_left_out(translator, tokenizer, monkeypatch):
    pieces = tokenizer.vocabulary().items()
    symbols = [number for piece, number in pieces if piece[0] == "\u2581" != piece][:4]
    firsts = tokenizer.decode([[symbol] for symbol in symbols])
    monkeypatch.setattr(translator.engine, "next_symbols", lambda *_: symbols)

    def translate(lines, prefixes):
        # The first is not as it was begun, and of the second no more is there.
        texts = [prefixes[0].replace("red", "green"), "red", *prefixes[2:]]
        return [Translation(text, 0.0, postprocessed=text) for text in texts]

    monkeypatch.setattr(translator, "translate", translate)
    actual = continuations(translator, "a dog", "red", 2)
    assert [alternative.word for alternative in actual] == firsts[2:]


def test_a_blank_line_has_none(translator):
    assert continuations(translator, " ", "", 3) == []
