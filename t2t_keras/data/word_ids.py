"""The ids of words, remembered: a text repeats its words, and SentencePiece takes each anew.

A vocabulary whose pieces have a space at their start alone encodes a line as its words one by one,
so that a line's ids are those of its words put together.
"""

import array
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

# SentencePiece's sign for a space.
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
# Some 50 MB; when it is full it begins anew, as a new corpus has other words.
_WORDS_KEPT = 1 << 18
_LINES_AT_ONCE = 1000


def words_are_independent(model_bytes: bytes) -> bool:
    """Returns whether each word of a line is encoded as if it stood alone.

    Args:
      model_bytes: a serialised SentencePiece model.
    """
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(model_bytes)
    rules = model.normalizer_spec
    return (
        not rules.precompiled_charsmap
        and rules.add_dummy_prefix
        and rules.escape_whitespaces
        and not rules.remove_extra_whitespaces
        and not model.trainer_spec.treat_whitespace_as_suffix
        and all(SPACE not in piece.piece[1:] for piece in model.pieces)
    )


class WordIds:
    """Encodes lines by their words, each of which is encoded when it first comes.

    Args:
      encode: returns the ids of each of some texts.
      eos_id: what every line ends with.
    """

    def __init__(self, encode: Callable[[list[str]], list[list[int]]], eos_id: int):
        self._encode = encode
        self._end = _packed([eos_id])
        # The text " " alone has twice what a space adds in front of a word.
        two = encode([" "])[0]
        self._space = _packed(two[: len(two) // 2])
        # As the bytes of int32 arrays, which are put together fastest.
        self._known = {"": self._space}

    def lines(self, lines: Sequence[str]) -> Iterator[np.ndarray]:
        """Yields the ids of each line, int32 [length], read-only."""
        for start in range(0, len(lines), _LINES_AT_ONCE):
            block = lines[start : start + _LINES_AT_ONCE]
            split = [line.split(" ") if line else () for line in block]
            self._learn(set(itertools.chain.from_iterable(split)))
            for words in split:
                ids = b"".join(map(self._known.__getitem__, words))
                yield np.frombuffer(ids + self._end, np.int32)

    def _learn(self, words: set[str]) -> None:
        if len(self._known) >= _WORDS_KEPT:
            self._known = {"": self._space}
        new = list(words.difference(self._known))
        self._known.update(zip(new, map(_packed, self._encode(new)), strict=True))


def _packed(ids: list[int]) -> bytes:
    return array.array("i", ids).tobytes()
