"""Lines of text as sequences of ids, cut or split where they are too long."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import count_words
from t2t_keras.text.files import is_text
from t2t_keras.text.placeholders.symbols import Shield
from t2t_keras.text.tokenizer import EOS_ID, Tokenizer


class Source(NamedTuple):
    """A line to translate: one part, or its sentences; a blank line has none."""

    line: str
    parts: list[np.ndarray]  # int32 [length], each with its end of sentence
    first_words: list[int]  # for each part, the number in the line of its first word, from 0
    cut: int  # number of tokens left out
    texts: list[str]  # the text of each part, whole
    shield: Shield = Shield("")  # what `line` has left out


def read_sources(
    lines: Sequence[str], tokenizer: Tokenizer, max_length: int, split_long: bool
) -> list[Source]:
    """Encodes lines, after `check_lines`, into parts of at most `max_length` tokens with the end.

    With `split_long`, a longer line is split into its sentences; what is still too long is cut.
    """
    filled = [number for number, line in enumerate(lines) if line.strip()]
    encoded = encode_text([lines[number] for number in filled], tokenizer.source)
    sources = [Source(line, [], [], 0, []) for line in lines]
    for number, ids in zip(filled, encoded, strict=True):
        texts, parts, first_words = [lines[number]], [ids], [0]
        if split_long and len(ids) > max_length:
            texts = sentences(lines[number])
            parts, first_words = tokenizer.source.encode(texts), _first_words(lines[number], texts)
        sources[number] = Source(
            lines[number],
            [np.append(part[:-1][: max_length - 1], np.int32(EOS_ID)) for part in parts],
            first_words,
            sum(max(len(part) - max_length, 0) for part in parts),
            texts,
        )
    return sources


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode`, after `check_lines`."""
    check_lines(lines)
    return tokenizer.encode(lines)


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, problem: Problem
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encodes the sides of pairs as a problem's model sees them, after `check_lines`."""
    check_lines(sources)
    check_one_each(sources, targets, "target")
    check_lines(targets)
    pairs = list(map(problem.prepare_pair, sources, targets))
    seen = [problem.preprocess(source) for source, _ in pairs]
    return tokenizer.source.encode(seen), tokenizer.encode([target for _, target in pairs])


def check_lengths(
    encoded: Sequence[Sequence[np.ndarray]], max_length: int, names: Sequence[str] = ()
) -> None:
    """Raises `UserError` if a side of a pair has more tokens; `names` are the pairs', for it."""
    for number, sides in enumerate(zip(*encoded, strict=True)):
        if (size := max(map(len, sides))) > max_length:
            name = names[number] if names else f"Pair {number + 1}"
            raise UserError(
                f"{name}: expected at most {max_length:,} tokens on each side, got {size:,}. Leave "
                f"it out, or set max_input_length={size}."
            )


def check_lines(lines: Sequence[str]) -> None:
    """Raises `UserError` unless this is a list of valid Unicode strings."""
    check_several(lines)
    for line in lines:
        if not isinstance(line, str):
            kind = type(line).__name__
            raise UserError(f"Expected lines of type str, got {kind}: {str(line)[:50]!a}.")
        if not is_text(line):
            raise UserError(
                f"A line has a lone surrogate (invalid Unicode): {line[:50]!a}. Read the text as "
                f"UTF-8."
            )


def check_several(lines: Iterable[str]) -> None:
    """Raises `UserError` for a single string, whose characters would each be a line."""
    if isinstance(lines, str | bytes):
        raise UserError(f"Expected a list of lines, got one string: {lines[:50]!a}.")


def check_one_each(lines: Sequence[str], others: Sequence, what: str) -> None:
    """Raises `UserError` if there is not one of the others for each line."""
    if len(lines) != len(others):
        raise UserError(f"Expected a {what} for each of {len(lines)} lines, got {len(others)}.")


def sentences(text: str) -> list[str]:
    """Splits a text behind its full stops, question and exclamation marks, by Unicode's rules."""
    import tensorflow_text

    breaker = tensorflow_text.StateBasedSentenceBreaker()
    found = breaker.break_sentences([text]).to_list()[0]
    # Of a space between sentences that has several bytes, it may leave the last ones.
    texts = (sentence.decode("utf-8", errors="ignore").strip() for sentence in found)
    return [text for text in texts if text]


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Returns the number in a line of the first word of each of its parts."""
    numbers, position = [], 0
    for part in parts:
        position = line.index(part, position)
        # A part that begins within a word begins with that word.
        numbers.append(count_words(line[: position + 1]) - 1)
        position += len(part)
    return numbers
