"""Confidence: the probabilities of translations and of their words."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.decoding.lines import Line, check_equal_counts, encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.text.alignment import restored_word_ranges, word_numbers

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator


@dataclasses.dataclass(frozen=True)
class Confidence:
    """Probabilities of a translation, from 0 to 1.

    Attributes:
      words: probability of each word (as `split_words` counts) given the words before it; it
        is the product over the pieces of the word.
      whole: geometric mean over all tokens, end of sentence included; 1 without tokens.
    """

    words: tuple[float, ...] = ()
    whole: float = 1.0


def confidences(
    translator: "Translator", lines: Sequence[str], translations: Sequence[Translation]
) -> list[Confidence]:
    """Returns the translator's confidence in translations and in their words.

    Works on every engine: the translations are scored once more.

    Args:
      translator: the translator that made the translations.
      lines: the source text.
      translations: the result of `translate` for the lines.

    Raises:
      UserError: the numbers of translations and lines differ, or the model computes NaN.
    """
    check_equal_counts(lines, translations, "translation")
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
    log_probs_by_part = dict(translator.engine.log_probs(ids, targets))
    probabilities: list[list[float]] = [[] for _ in lines]
    tokens: list[list[float]] = [[] for _ in lines]
    for index, (number, _, _) in enumerate(parts):
        log_probs = log_probs_by_part[index].astype(np.float64)
        by_word = _word_probabilities(translator.tokenizer.pieces(targets[index][:-1]), log_probs)
        # A placeholder's symbol may stand for several words, or for none.
        restored_numbers = restored_word_ranges(texts[index], prepared[number].restore)
        probability = 1.0
        for word, numbers in enumerate(restored_numbers):
            # A tensor2tensor piece may span words: the later words get the piece's probability.
            probability = by_word.get(word, probability)
            probabilities[number] += [probability] * len(numbers)
        tokens[number] += log_probs.tolist()
    return [
        Confidence(
            tuple(word_probabilities),
            math.exp(min(math.fsum(log_probs) / max(len(log_probs), 1), 0)),
        )
        for word_probabilities, log_probs in zip(probabilities, tokens, strict=True)
    ]


def _parts(line: Line, translation: Translation) -> Iterator[tuple[np.ndarray, str]]:
    """Yields a line's parts with their translations; one part if the translation was changed."""
    if line.restore(" ".join(translation.parts)) == translation.text:
        ids = (part.ids for part in line.parts)
        yield from zip(ids, translation.parts, strict=True)
    elif line.parts:
        bodies = [part.ids[:-1] for part in line.parts]
        line_ids = np.concatenate([*bodies, line.parts[-1].ids[-1:]])
        yield line_ids, line.hide(translation.text)


def _word_probabilities(pieces: Sequence[str], log_probs: np.ndarray) -> dict[int, float]:
    """Returns the probability of each word in which a piece starts, by the word's number."""
    sums: dict[int, float] = {}
    for number, log_prob in zip(word_numbers(pieces), log_probs.tolist(), strict=False):
        if number is not None:
            sums[number] = sums.get(number, 0.0) + log_prob
    return {number: math.exp(min(log_prob, 0.0)) for number, log_prob in sums.items()}
