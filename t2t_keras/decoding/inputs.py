"""Checks and encodes the text of users."""

from collections.abc import Iterable, Sequence

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.text.files import is_text, normalized
from t2t_keras.text.tokenizer import Tokenizer


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
