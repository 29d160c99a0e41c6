"""Translations that go on in different ways: what the search finds behind each next word."""

import numpy as np
import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.continuations import continuations
from t2t_keras.decoding.translator import Translator


@pytest.fixture(scope="module")
def translator(model, tokenizer):
    return Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=3))


def test_each_is_the_best_translation_behind_its_word(translator):
    [source] = translator.read(["the small dog sleeps"])
    for prefix in ("", "the big cat"):
        found = continuations(translator, source, prefix, 3)
        assert len({each.word for each in found}) == len(found) == 3
        words = prefix.split()
        for each in found:
            assert each.text.split()[: len(words) + 1] == [*words, each.word]
        # What follows the first word, by the translator's own prefixes, if the word is a piece.
        first = f"{prefix} {found[0].word}".strip()
        ids = np.int32(translator.tokenizer.encode([first])[0][:-1])
        if len(ids) == len(translator.tokenizer.encode([prefix])[0]):
            [again] = translator.translate(["the small dog sleeps"], [first])
            assert again.text == found[0].text


def test_the_likeliest_word_is_that_of_the_best_translation_of_a_greedy_search(model, tokenizer):
    greedy = Translator(model, tokenizer, DecodeConfig(beam_size=1, extra_length=3))
    [source] = greedy.read(["a man sees the tree"])
    [best] = greedy.translate(["a man sees the tree"])
    assert continuations(greedy, source, "", 2)[0].text == best.text


def test_a_blank_line_has_none(translator):
    assert continuations(translator, translator.read([" "])[0], "", 3) == []
