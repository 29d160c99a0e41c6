"""The attention of spans of a translation to spans of its source."""

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
    """Returns the attention of spans of a translation to spans of its source.

    Args:
      source: pieces of the source, including EOS.
      target: pieces of the translation, including EOS.
      attention: float32 [target, source].
      source_spans: the text of the last pieces, and (start, end) of each span in it. Other pieces
        may precede it.
      target_spans: likewise for the translation.

    Returns:
      float [target spans, source spans]. If the pieces spell a different text, a span gets the
      attention of its whole word.
    """
    attention = attention[: len(target) - 1, : len(source) - 1]
    of_target = _shares(target[: attention.shape[0]], *target_spans)
    of_source = _shares(source[: attention.shape[1]], *source_spans)
    totals = of_target.sum(axis=0)
    of_target = np.divide(of_target, totals, out=np.zeros_like(of_target), where=totals > 0)
    return of_target.T @ attention @ of_source


def _shares(pieces: Sequence[str], text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the share of each piece that is inside each span, float64 [pieces, spans]."""
    shares = np.zeros([len(pieces), len(spans)])
    if not spans or not len(pieces):
        return shares
    spelled = [piece_bytes(piece) for piece in pieces]
    spelled_text = b"".join(spelled)
    begin = spelled_text.rfind(text.encode("utf-8")) if len(spelled_text) >= len(text) else -1
    if begin < 0:
        words = piece_indices_by_word(pieces)
        num_before = max(max(words, default=0) + 1 - count_words(text), 0)
        word_starts = [start for start, _ in word_spans(text)]
        for column, (start, _) in enumerate(spans):
            word = num_before + bisect.bisect_right(word_starts, start) - 1
            shares[words.get(word, []), column] = 1.0
        return shares
    sizes = np.array([len(piece) for piece in spelled], np.float64)
    ends = np.cumsum(sizes) - begin
    starts = ends - sizes
    # The space before a word does not belong to it.
    starts += [len(piece) - len(piece.lstrip(b" ")) for piece in spelled]
    offsets = np.cumsum([0, *(len(character.encode("utf-8")) for character in text)])
    for column, (start, end) in enumerate(spans):
        overlaps = np.minimum(ends, offsets[end]) - np.maximum(starts, offsets[start])
        shares[:, column] = np.maximum(overlaps, 0) / np.maximum(ends - starts, 1)
    return shares
