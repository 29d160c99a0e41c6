"""Lines of text as sequences of ids, cut or split where they are too long."""

import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import count_words, word_spans
from t2t_keras.text.files import is_blank, is_text, normalized
from t2t_keras.text.placeholders.symbols import Shield
from t2t_keras.text.sentences import sentences
from t2t_keras.text.tokenizer import EOS_ID, Tokenizer


class Source(NamedTuple):
    """A line to translate: one part, or its sentences; a blank line has none."""

    line: str
    parts: list[np.ndarray]  # int32 [length], each with its end of sentence
    # For each part, the number in the line of its first word, from 0, less `repeated`.
    first_words: list[int]
    cut: int  # number of tokens left out
    texts: list[str]  # the text of each part, whole
    shield: Shield = Shield("")  # what `line` has left out
    repeated: int = 0  # number of words for the model that the line and each part begin with

    def word(self, part: int, number: int) -> int:
        """Returns the number in the line of a word of a part."""
        return number if number < self.repeated else self.first_words[part] + number


def read_sources(
    lines: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    split_long: bool,
    language: str = "",
    words_in_front: Callable[[str], str] = lambda line: "",
) -> list[Source]:
    """Encodes lines, after `check_lines`, into parts of at most `max_length` tokens with the end.

    With `split_long`, a longer line is split into its sentences, as those of its `language` end;
    what is still too long is cut. Each of them gets the `words_in_front` of the line.
    """
    filled = [number for number, line in enumerate(lines) if not is_blank(line)]
    encoded = encode_text([lines[number] for number in filled], tokenizer.source)
    sources = [Source(line, [], [], 0, []) for line in lines]
    for number, ids in zip(filled, encoded, strict=True):
        texts, parts, first_words = [lines[number]], [ids], [0]
        front = words_in_front(lines[number])
        if split_long and len(ids) > max_length:
            rest = lines[number].removeprefix(front)
            texts = sentences(rest, language)
            first_words = _first_words(rest, texts)
            texts = [front + text for text in texts]
            parts = tokenizer.source.encode(texts)
        sources[number] = Source(
            lines[number],
            [np.append(part[:-1][: max_length - 1], np.int32(EOS_ID)) for part in parts],
            first_words,
            sum(max(len(part) - max_length, 0) for part in parts),
            texts,
            repeated=count_words(front),
        )
    return sources


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode` of lines in NFC, after `check_lines`."""
    check_lines(lines)
    return tokenizer.encode(list(map(normalized, lines)))


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, problem: Problem
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encodes the sides of pairs as a problem's model sees them, after `check_lines`."""
    check_lines(sources)
    check_one_each(sources, targets, "target")
    check_lines(targets)
    sides = (map(normalized, side) for side in (sources, targets))
    pairs = list(map(problem.prepare_pair, *sides))
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
                f"it out, or set max_input_length={size}.",
                code="too_long",
            )


def check_lines(lines: Sequence[str]) -> None:
    """Raises `UserError` unless this is a list of valid Unicode strings."""
    check_several(lines)
    for line in lines:
        if not isinstance(line, str):
            kind = type(line).__name__
            raise UserError(
                f"Expected lines of type str, got {kind}: {str(line)[:50]!a}.", code="wrong_type"
            )
        if not is_text(line):
            raise UserError(
                f"A line has a lone surrogate (invalid Unicode): {line[:50]!a}. Read the text as "
                f"UTF-8.",
                code="invalid_text",
            )


def check_several(lines: Iterable[str]) -> None:
    """Raises `UserError` for a single string, whose characters would each be a line."""
    if isinstance(lines, str | bytes):
        raise UserError(
            f"Expected a list of lines, got one string: {lines[:50]!a}.", code="wrong_type"
        )


def check_one_each(lines: Sequence[str], others: Sequence, what: str) -> None:
    """Raises `UserError` if there is not one of the others for each line."""
    if len(lines) != len(others):
        raise UserError(
            f"Expected a {what} for each of {len(lines)} lines, got {len(others)}.",
            code="unequal_counts",
        )


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Returns the number in a line of the first word of each of its parts."""
    numbers, position = [], 0
    starts = [start for start, _ in word_spans(line)]
    for part in parts:
        position = line.index(part, position)
        # A part that begins inside a word begins with that word.
        numbers.append(bisect.bisect_right(starts, position) - 1)
        position += len(part)
    return numbers
