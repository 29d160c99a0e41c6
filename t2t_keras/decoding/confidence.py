"""Confidence: how sure a model is of its translations and of each word in them."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.decoding.lines import Line, check_one_each, encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.text.alignment import restored_words, word_numbers

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator


@dataclasses.dataclass(frozen=True)
class Confidence:
    """Probabilities of a translation, each from 0 to 1.

    Attributes:
      words: of each word of `t2t_keras.text.alignment.split_words`, given the words before it: the
        product over its pieces.
      whole: the geometric mean over all tokens, with the end of sentence; 1 where there are none.
    """

    words: tuple[float, ...] = ()
    whole: float = 1.0


def confidences(
    translator: "Translator", lines: Sequence[str], translations: Sequence[Translation]
) -> list[Confidence]:
    """Returns how sure the translator's model is of translations and of their words.

    Works on every engine: the translations are scored once more.

    Args:
      translator: made the translations.
      lines: the source text.
      translations: what `translate` returned for it.

    Raises:
      UserError: the numbers of translations and lines differ, or the model computes NaN.
    """
    check_one_each(lines, translations, "translation")
    prepared = translator.prepare(lines)
    parts = [
        (number, ids, text)
        for number, pair in enumerate(zip(prepared, translations, strict=True))
        for ids, text in _parts(*pair)
    ]
    if not parts:
        return [Confidence() for _ in lines]
    _, ids, texts = zip(*parts, strict=True)
    targets = encode_text(texts, translator.tokenizer)
    scored = dict(translator.engine.log_probs(ids, targets))
    words: list[list[float]] = [[] for _ in lines]
    tokens: list[list[float]] = [[] for _ in lines]
    for index, (number, _, _) in enumerate(parts):
        log_probs = scored[index].astype(np.float64)
        by_word = _word_probabilities(translator.tokenizer.pieces(targets[index][:-1]), log_probs)
        # A symbol may stand for several words, or for none.
        restored = restored_words(texts[index], prepared[number].restore)
        probability = 1.0
        for word, numbers in enumerate(restored):
            # In a piece of tensor2tensor's, words may stand after the one that it begins in.
            probability = by_word.get(word, probability)
            words[number] += [probability] * len(numbers)
        tokens[number] += log_probs.tolist()
    return [
        Confidence(tuple(of_words), math.exp(min(math.fsum(of_tokens) / max(len(of_tokens), 1), 0)))
        for of_words, of_tokens in zip(words, tokens, strict=True)
    ]


def _parts(line: Line, translation: Translation) -> Iterator[tuple[np.ndarray, str]]:
    """Yields parts of a line with their translations; one pair if the translation was changed."""
    if line.restore(" ".join(translation.parts)) == translation.text:
        ids = (part.ids for part in line.parts)
        yield from zip(ids, translation.parts, strict=True)
    elif line.parts:
        bodies = [part.ids[:-1] for part in line.parts]
        ids_of_line = np.concatenate([*bodies, line.parts[-1].ids[-1:]])
        yield ids_of_line, line.hide(translation.text)


def _word_probabilities(pieces: Sequence[str], log_probs: np.ndarray) -> dict[int, float]:
    """Returns the probability of each word in which a piece begins, by its number."""
    sums: dict[int, float] = {}
    for number, log_prob in zip(word_numbers(pieces), log_probs.tolist(), strict=False):
        if number is not None:
            sums[number] = sums.get(number, 0.0) + log_prob
    return {number: math.exp(min(log_prob, 0.0)) for number, log_prob in sums.items()}
