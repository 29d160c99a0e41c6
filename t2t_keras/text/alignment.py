"""Word alignments: the source word of each word of a translation."""

import bisect
import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.special_ids import SPACE

# A piece that stands for one byte of a character outside the vocabulary.
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_WORD = re.compile(r"\S+", re.ASCII)

# Pairs (source word, target word), counted from 0.
Alignment = Sequence[tuple[int, int]]


def align_by_attention(target: Sequence[str], weights: np.ndarray) -> list[tuple[int, int]]:
    """Aligns each word of a translation with the source word that it attends to most."""
    return [(int(source), number) for number, source in enumerate(weights.argmax(axis=1))]


def monotone_alignment(weights: np.ndarray) -> list[tuple[int, int]]:
    """Returns the pairs (column, row), both increasing, whose weights have the largest sum.

    Each row and column is in at most one pair. Weights, float32 [rows, columns], are not negative.
    """
    row, column = weights.shape
    # [r, c]: the largest sum over the first r rows and c columns.
    best = np.zeros([row + 1, column + 1])
    for number, row_weights in enumerate(weights):
        with_pair = best[number, :-1] + row_weights
        best[number + 1, 1:] = np.maximum.accumulate(np.maximum(best[number, 1:], with_pair))
    pairs = []
    while row and column:
        if best[row, column] == best[row, column - 1]:
            column -= 1
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((column, row))
    return pairs[::-1]


def word_alignment(
    source: Sequence[str],
    target: Sequence[str],
    attention: np.ndarray,
    align: Callable[[Sequence[str], np.ndarray], Alignment] = align_by_attention,
) -> list[tuple[int, int]]:
    """Returns pairs (source word, target word), as `word_numbers` counts, in target order.

    Attention is summed over the pieces of a source word, and averaged over those of a target word.

    Args:
      source: pieces of the source, including EOS.
      target: pieces of the translation, including EOS.
      attention: float32 [target, source], the mean over the heads of the alignment layer.
      align: chooses the pairs, as `Problem.align`.
    """
    source_words, target_words = map(piece_indices_by_word, (source[:-1], target[:-1]))
    if not source_words or not target_words:
        return []
    # [target, source word]
    weights = np.stack([attention[:, i].sum(axis=1) for i in source_words.values()], axis=1)
    weights = np.stack([weights[i].mean(axis=0) for i in target_words.values()])
    words = ["".join(target[i] for i in indices) for indices in target_words.values()]
    pairs = align([word.replace(SPACE, " ").strip() for word in words], weights)
    source_numbers, target_numbers = list(source_words), list(target_words)
    return [(source_numbers[column], target_numbers[row]) for column, row in pairs]


def word_numbers(pieces: Sequence[str]) -> list[int | None]:
    """Returns, for each piece, the number of its word; None after the last word.

    ASCII white space separates words; a no-break space does not. A piece of white space belongs to
    the word that follows it.
    """
    encoded = [piece_bytes(piece) for piece in pieces]
    ends = [word.end() for word in re.finditer(rb"\S+", b"".join(encoded))]
    starts = [0, *itertools.accumulate(map(len, encoded))][: len(encoded)]
    numbers = (bisect.bisect_right(ends, start) for start in starts)
    return [number if number < len(ends) else None for number in numbers]


def count_words(text: str) -> int:
    """Returns the number of words of a text, as `word_numbers` counts them."""
    return len(text.encode("utf-8").split())


def split_words(text: str) -> list[str]:
    """Returns the words of a text, as `word_numbers` counts them."""
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns (start, end) of each word of a text."""
    return [word.span() for word in _WORD.finditer(text)]


def to_pharaoh(alignment: Sequence[tuple[int, int]]) -> str:
    """Returns an alignment as "0-0 1-2", source before target (Koehn's Pharaoh format)."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def read_pharaoh(line: str) -> list[tuple[int, int]]:
    """Reads an alignment in Pharaoh format."""
    pairs = (pair.split("-") for pair in line.split())
    return [(int(source), int(target)) for source, target in pairs]


def piece_indices_by_word(pieces: Sequence[str]) -> dict[int, list[int]]:
    """Returns the indices of each word's pieces, by the word's number."""
    indices: dict[int, list[int]] = {}
    for index, number in enumerate(word_numbers(pieces)):
        if number is not None:
            indices.setdefault(number, []).append(index)
    return indices


def piece_bytes(piece: str) -> bytes:
    """Returns the text of a piece in UTF-8."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode("utf-8")


def restored_word_ranges(text: str, restore: Callable[[str], str]) -> list[range]:
    """Returns, for each word of an output, the numbers of the words that `restore` makes of it."""
    counts = [count_words(restore(word.decode("utf-8"))) for word in text.encode().split()]
    return list(map(range, itertools.accumulate([0, *counts]), itertools.accumulate(counts)))
