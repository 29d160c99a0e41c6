"""How sure a model is of words, against its scores of the same pairs."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

from t2t_keras.decoding.confidence import Confidence, confidences
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator

LINES = ["the small dog sleeps", "", "the woman sees the dog and the red tree", "Ä man."]
SETTINGS = dict(beam_size=2, extra_length=6)


def test_probabilities_of_words(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(**SETTINGS))
    translations = translator.translate(LINES)
    actual = confidences(translator, LINES, translations)
    assert actual[1] == Confidence((), 1.0)
    for line, translation, confidence in zip(LINES, translations, actual, strict=True):
        if not line:
            continue
        [score] = translator.score([line], [translation.text])
        assert confidence.whole == pytest.approx(1 / score.perplexity, rel=1e-4)
        # Word after word, as far as each spells the text.
        words = translation.text.split(" ")
        ends = [len(" ".join(words[: i + 1])) for i in range(len(words))]
        pieces = translator.tokenizer.encode([translation.text])[0][:-1]
        sums = dict.fromkeys(range(len(words)), 0.0)
        for i, log_prob in enumerate(score.token_log_probs[:-1]):
            [begun] = translator.tokenizer.decode([pieces[: i + 1]])
            sums[int(np.searchsorted(ends, len(begun)))] += log_prob
        assert confidence.words == pytest.approx(np.exp(list(sums.values())), rel=1e-3)
        assert all(0 < word <= 1 for word in confidence.words)


def test_split_and_changed_translations(model, tokenizer):
    config = DecodeConfig(max_input_length=12, split_long=True, **SETTINGS)
    translator = Translator(model, tokenizer, config)
    line = "The dog sleeps. A man sees the tree. The dog eats a house."
    [whole] = translator.translate([line])
    [confidence] = confidences(translator, [line], [whole])
    assert len(confidence.words) == len(whole.text.split()) > len(whole.parts) == 3
    changed = dataclasses.replace(whole, text="the dog")
    [confidence] = confidences(translator, [line], [changed])
    assert len(confidence.words) == 2


def test_what_is_rounded_beyond_certainty_is_certain(model, tokenizer, monkeypatch):
    translator = Translator(model, tokenizer, DecodeConfig(**SETTINGS))
    log_probs = lambda _, targets: [(i, np.full(len(x), 1e-6)) for i, x in enumerate(targets)]  # noqa: E731
    monkeypatch.setattr(translator.engine, "log_probs", log_probs)
    [confidence] = confidences(translator, ["dog"], [Translation("the dog", 0.0, (), ("the dog",))])
    assert (confidence.words, confidence.whole) == ((1.0, 1.0), 1.0)


def test_there_is_a_translation_of_each_line(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(**SETTINGS))
    with refused("unequal_counts", "2", "1"):
        confidences(translator, ["a", "b"], [Translation("the dog", 0.0)])
