"""Vocabularies of words, as other toolkits have them for text that is segmented already."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from t2t_keras.text.in_graph import GraphTokenizer


class WordTokenizer(Tokenizer):
    """A `.words` file, a word a line: those of padding, end and unknown, then those of text.

    Words are what stands between ASCII's white space; a text comes back with single spaces.

    Bytes that are no such file are a `UserError`, which names their `origin`.
    """

    suffix: ClassVar[str] = ".words"

    def _read(self, origin: str) -> None:
        self._words = self._lines(origin)
        if len(self._words) <= UNKNOWN_ID:
            raise UserError(
                f"{origin}: expected lines for padding, end and unknown first, got "
                f"{len(self._words)} lines.",
                code="not_a_vocabulary",
            )
        self._ids = {word: i for i, word in enumerate(self._words) if i > UNKNOWN_ID}

    @classmethod
    def of(cls, words: Sequence[str]) -> "WordTokenizer":
        """Returns the vocabulary of words by id, from that of padding on."""
        return cls("".join(f"{word}\n" for word in words).encode())

    @property
    def vocab_size(self) -> int:
        """See `Tokenizer`."""
        return len(self._words)

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        # As bytes, which split as in TensorFlow.
        split = ([word.decode() for word in line.encode().split()] for line in lines)
        return [
            np.array([*(self._ids.get(word, UNKNOWN_ID) for word in words), EOS_ID], np.int32)
            for words in split
        ]

    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """See `Tokenizer`."""
        return [" ".join(self._words[i] for i in self._until_end(ids)) for ids in sequences]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """See `Tokenizer`."""
        return [SPACE * (i > EOS_ID) + self._words[i] for i in self._checked(ids)]

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.interop.tokenizers.in_graph import GraphWords

        return GraphWords(self._words, self.pieces(range(self.vocab_size)), self._ids)
