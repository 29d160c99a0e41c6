"""Lines of text as sequences of ids, cut or split where they are too long."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.tokenizer import EOS_ID, Tokenizer
from t2t_keras.errors import UserError


class Source(NamedTuple):
    """A line to translate.

    Attributes:
      parts: int32 [length] arrays, each with its end of sentence: one, or the line's sentences; of
        a blank line none.
      cut: how many tokens were left out.
    """

    parts: list[np.ndarray]
    cut: int


def read_sources(
    lines: Sequence[str], tokenizer: Tokenizer, max_length: int, split_long: bool
) -> list[Source]:
    """Encodes lines.

    Args:
      lines: the text.
      tokenizer: the vocabulary.
      max_length: the most tokens of a part, its end counted.
      split_long: whether a longer line is split into its sentences; what is still too long is cut.

    Raises:
      UserError: a line is no valid Unicode.
    """
    filled = [number for number, line in enumerate(lines) if line.strip()]
    encoded = encode_text([lines[number] for number in filled], tokenizer)
    sources = [Source([], 0)] * len(lines)
    for number, ids in zip(filled, encoded, strict=True):
        parts = [ids]
        if split_long and len(ids) > max_length:
            parts = tokenizer.encode(sentences(lines[number]))
        sources[number] = Source(
            [_cut(part, max_length) for part in parts],
            sum(max(len(part) - max_length, 0) for part in parts),
        )
    return sources


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode`, after a look at what came.

    Raises:
      UserError: a line is no valid Unicode.
    """
    for line in lines:
        if not is_text(line):
            raise UserError(
                f"A line holds half a character (a lone surrogate), which no text can hold: "
                f"{line[:50]!a}. Read the text as UTF-8."
            )
    return tokenizer.encode(lines)


def sentences(text: str) -> list[str]:
    """Splits a text behind its full stops, question and exclamation marks, by Unicode's rules."""
    import tensorflow_text

    breaker = tensorflow_text.StateBasedSentenceBreaker()
    found = breaker.break_sentences([text]).to_list()[0]
    return [sentence.decode("utf-8").strip() for sentence in found if sentence.strip()]


def is_text(line: str) -> bool:
    """Whether the line is free of the surrogates that stand for bytes that are no UTF-8."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _cut(ids: np.ndarray, max_length: int) -> np.ndarray:
    if len(ids) <= max_length:
        return ids
    return np.append(ids[: max_length - 1], np.int32(EOS_ID))
