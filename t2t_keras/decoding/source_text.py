"""Lines of text as sequences of ids, cut or split where they are too long."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.text_files import is_text
from t2t_keras.data.tokenizer import EOS_ID, Tokenizer
from t2t_keras.errors import UserError


class Source(NamedTuple):
    """A line to translate.

    Attributes:
      parts: int32 [length] arrays, each with its end of sentence: one, or the line's sentences; of
        a blank line none.
      first_words: for each part, the number in the line of its first word, from 0.
      cut: how many tokens were left out.
    """

    parts: list[np.ndarray]
    first_words: list[int]
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
    sources = [Source([], [], 0)] * len(lines)
    for number, ids in zip(filled, encoded, strict=True):
        parts, first_words = [ids], [0]
        if split_long and len(ids) > max_length:
            texts = sentences(lines[number])
            parts, first_words = tokenizer.encode(texts), _first_words(lines[number], texts)
        sources[number] = Source(
            [_cut(part, max_length) for part in parts],
            first_words,
            sum(max(len(part) - max_length, 0) for part in parts),
        )
    return sources


def read_pairs(
    sources: Sequence[str],
    targets: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    names: Sequence[str] = (),
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encodes sources and their given translations, each with its end of sentence.

    Args:
      sources: text.
      targets: their translations.
      tokenizer: the vocabulary.
      max_length: the most tokens of a side, its end counted.
      names: what pairs are called in errors; default: by their number from 1.

    Raises:
      UserError: there are not as many sources as targets, a side has more than `max_length` tokens,
        or a line is no valid Unicode.
    """
    if len(sources) != len(targets):
        raise UserError(
            f"{len(sources)} sources and {len(targets)} targets came: each source needs its target."
        )
    encoded = encode_text(sources, tokenizer), encode_text(targets, tokenizer)
    for number, sides in enumerate(zip(*encoded, strict=True), 1):
        size = max(map(len, sides))
        if size > max_length:
            name = names[number - 1] if names else f"Pair {number}"
            raise UserError(
                f"{name} has {size:,} tokens on its longer side; at most {max_length:,} can "
                f"be scored. Leave it out, or set max_input_length={size}."
            )
    return encoded


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode`, after `check_lines`."""
    check_lines(lines)
    return tokenizer.encode(lines)


def check_lines(lines: Sequence[str]) -> None:
    """Looks at what came.

    Raises:
      UserError: it is one text and no list of them, or a line is no text or no valid Unicode.
    """
    check_several(lines)
    for line in lines:
        if not isinstance(line, str):
            raise UserError(
                f"A line is text (str); {type(line).__name__} came: {str(line)[:50]!a}."
            )
        if not is_text(line):
            raise UserError(
                f"A line holds half a character (a lone surrogate), which no text can hold: "
                f"{line[:50]!a}. Read the text as UTF-8."
            )


def check_several(lines: Iterable[str]) -> None:
    """Raises `UserError` where one text came, whose characters would each be a line."""
    if isinstance(lines, str | bytes):
        raise UserError(
            f"A list of lines is expected; one text came: {lines[:50]!a}. Put it into a list: "
            f"[text]."
        )


def check_one_each(lines: Sequence[str], others: Sequence, what: str) -> None:
    """Raises `UserError` where there are not as many others as lines."""
    if len(lines) != len(others):
        raise UserError(
            f"{len(lines)} lines came with {len(others)} of what each must have: a {what}."
        )


def sentences(text: str) -> list[str]:
    """Splits a text behind its full stops, question and exclamation marks, by Unicode's rules."""
    import tensorflow_text

    breaker = tensorflow_text.StateBasedSentenceBreaker()
    found = breaker.break_sentences([text]).to_list()[0]
    return [sentence.decode("utf-8").strip() for sentence in found if sentence.strip()]


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Returns the number in a line of the first word of each of its parts."""
    numbers, position = [], 0
    for part in parts:
        position = line.index(part, position)
        before = line[:position]
        # A part that begins within a word begins with that word.
        within = bool(before) and not before[-1].isspace()
        numbers.append(len(before.split()) - within)
        position += len(part)
    return numbers


def _cut(ids: np.ndarray, max_length: int) -> np.ndarray:
    if len(ids) <= max_length:
        return ids
    return np.append(ids[: max_length - 1], np.int32(EOS_ID))
