"""Translations that go on in different ways behind a given beginning."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t2t_keras.decoding.source_text import Source, encode_text
from t2t_keras.text.alignment import split_words, word_numbers

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# Of so many symbols, those that begin a word are tried: others go on with the word before. Some
# begin the same word.
_MOST_SYMBOLS = 100
_SYMBOLS_A_WORD = 2


class Continuation(NamedTuple):
    """A translation behind a beginning.

    Attributes:
      word: the first word behind it.
      text: the whole translation.
    """

    word: str
    text: str


def continuations(
    translator: "Translator", source: Source, prefix: str, count: int
) -> list[Continuation]:
    """Returns translations that begin alike and go on with different words, the likeliest first.

    Each is the best that the search finds behind one of the likeliest next symbols.

    Args:
      translator: of any engine.
      source: what `Translator.read` returned for a line; of several parts, the first counts.
      prefix: the beginning, of whole words.
      count: the most to return.

    Raises:
      UserError: the prefix is not valid text, or the model computes NaN.
    """
    if not source.parts:
        return []
    ids, engine = source.parts[0], translator.engine
    [begin] = [np.int32(each[:-1]) for each in encode_text([prefix], translator.tokenizer)]
    begins = [
        np.append(begin, np.int32(symbol))
        for symbol in engine.next_symbols(ids, begin, _MOST_SYMBOLS)
    ]
    words, found = split_words(prefix), {}
    begins = [each for each in begins if _begins_word(translator, each, len(words))]
    begins = begins[: _SYMBOLS_A_WORD * count]
    if not begins:
        return []
    outputs = engine.outputs([ids] * len(begins), begins, range(len(begins)))
    texts = translator.tokenizer.decode([ranked[0].ids for ranked in outputs])
    for text in texts:
        theirs = split_words(text)
        if theirs[: len(words)] == words and len(theirs) > len(words):
            word = theirs[len(words)]
            found.setdefault(word, Continuation(word, text))
    return list(found.values())[:count]


def _begins_word(translator: "Translator", ids: np.ndarray, words: int) -> bool:
    """Returns whether the last id stands behind so many words."""
    number = word_numbers(translator.tokenizer.pieces(ids))[-1]
    return number is None or number >= words
