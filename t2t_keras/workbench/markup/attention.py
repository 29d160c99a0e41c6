"""Computes how much spans of a translation attend to spans of its source."""

import bisect
from collections.abc import Sequence

import numpy as np

from t2t_keras.text.alignment import count_words, piece_bytes, piece_indices_by_word, word_spans


def span_weights(
    source: Sequence[str],
    target: Sequence[str],
    attention: np.ndarray,
    source_spans: tuple[str, Sequence[tuple[int, int]]],
    target_spans: tuple[str, Sequence[tuple[int, int]]],
) -> np.ndarray:
    """Returns how much spans of a translation attend to spans of its source.

    Args:
      source: pieces of the source, including EOS.
      target: pieces of the translation, including EOS.
      attention: float32 [target, source].
      source_spans: a text, and (start, end) of each span in it. The pieces of the source spell the
        text, perhaps after other text.
      target_spans: likewise for the translation.

    Returns:
      float [target spans, source spans]. If the pieces spell a different text, a span gets the
      attention of its whole word.
    """
    attention = attention[: len(target) - 1, : len(source) - 1]
    target_shares = _shares(target[: attention.shape[0]], *target_spans)
    source_shares = _shares(source[: attention.shape[1]], *source_spans)
    sums = target_shares.sum(axis=0)
    target_shares = np.divide(target_shares, sums, out=np.zeros_like(target_shares), where=sums > 0)
    return target_shares.T @ attention @ source_shares


def _shares(pieces: Sequence[str], text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the share of each piece that is inside each span, float64 [pieces, spans]."""
    shares = np.zeros([len(pieces), len(spans)])
    if not spans or not len(pieces):
        return shares
    encoded_pieces = [piece_bytes(piece) for piece in pieces]
    encoded_text = b"".join(encoded_pieces)
    text_start = encoded_text.rfind(text.encode("utf-8")) if len(encoded_text) >= len(text) else -1
    if text_start < 0:
        words = piece_indices_by_word(pieces)
        num_words_before = max(max(words, default=0) + 1 - count_words(text), 0)
        word_starts = [start for start, _ in word_spans(text)]
        for column, (start, _) in enumerate(spans):
            word = num_words_before + bisect.bisect_right(word_starts, start) - 1
            shares[words.get(word, []), column] = 1.0
        return shares
    sizes = np.array([len(piece) for piece in encoded_pieces], np.float64)
    ends = np.cumsum(sizes) - text_start
    starts = ends - sizes
    # The space before a word does not belong to it.
    starts += [len(piece) - len(piece.lstrip(b" ")) for piece in encoded_pieces]
    offsets = np.cumsum([0, *(len(character.encode("utf-8")) for character in text)])
    for column, (start, end) in enumerate(spans):
        overlaps = np.minimum(ends, offsets[end]) - np.maximum(starts, offsets[start])
        shares[:, column] = np.maximum(overlaps, 0) / np.maximum(ends - starts, 1)
    return shares
