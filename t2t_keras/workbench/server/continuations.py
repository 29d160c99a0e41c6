"""Translations that go on in different ways after a given beginning."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t2t_keras.decoding.lines import encode_text
from t2t_keras.decoding.translation import Translation
from t2t_keras.text.alignment import split_words, word_numbers
from t2t_keras.text.files import normalized

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# Of so many symbols, those that begin a word are tried: others go on with the word before. Some
# begin the same word.
_MOST_SYMBOLS = 100
_SYMBOLS_A_WORD = 2


class Continuation(NamedTuple):
    """A translation after a beginning.

    Attributes:
      word: the first word after it.
      text: the whole translation.
      translation: the same with all that is known of it.
    """

    word: str
    text: str
    translation: Translation


def continuations(
    translator: "Translator", line: str, prefix: str, count: int
) -> list[Continuation]:
    """Returns translations that begin alike and go on with different words, the likeliest first.

    Each is the best that the search finds after one of the likeliest next symbols.

    Args:
      translator: of any engine.
      line: the source text.
      prefix: the beginning, of whole words.
      count: the most to return.

    Raises:
      UserError: as `Translator.translate`.
    """
    [source] = translator.read([line])
    if not source.parts:
        return []
    prefix = normalized(prefix)
    tokenizer, words = translator.tokenizer, split_words(prefix)
    [begin] = [np.int32(ids[:-1]) for ids in encode_text([prefix], tokenizer)]
    symbols = translator.engine.next_symbols(source.parts[0].ids, begin, _MOST_SYMBOLS)
    begins = [np.append(begin, np.int32(symbol)) for symbol in symbols]
    begins = [ids for ids in begins if _begins_word(tokenizer.pieces(ids), len(words))]
    texts = list(dict.fromkeys(tokenizer.decode(begins[: _SYMBOLS_A_WORD * count])))
    found: dict[str, Continuation] = {}
    lines = [line] * len(texts)
    for each in translator.translate(lines, texts) if texts else ():
        text = each.postprocessed
        theirs = split_words(text)
        if theirs[: len(words)] == words and len(theirs) > len(words):
            word = theirs[len(words)]
            found.setdefault(word, Continuation(word, text, each))
    return list(found.values())[:count]


def _begins_word(pieces: Sequence[str], words: int) -> bool:
    """Returns whether this number of words precedes the last piece."""
    number = word_numbers(pieces)[-1]
    return number is None or number >= words
