"""A vocabulary of words, as small as a tokenizer can be."""

import numpy as np

from t2t_keras.special_ids import EOS_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import Tokenizer


class Words(Tokenizer):
    suffix = ".test_words"

    def _read(self, origin):
        self._words = self._lines(origin)

    @classmethod
    def of(cls, words):
        return cls("\n".join(words).encode())

    @property
    def vocab_size(self):
        return len(self._words)

    def encode(self, lines):
        ids = {word: i for i, word in enumerate(self._words)}
        rows = ([ids.get(word, UNKNOWN_ID) for word in line.split()] for line in lines)
        return [np.array([*row, EOS_ID], np.int32) for row in rows]

    def decode(self, sequences):
        return [" ".join(self._words[i] for i in self._until_end(ids)) for ids in sequences]

    def pieces(self, ids):
        return [f"\u2581{self._words[i]}" for i in self._checked_ids(ids)]

    def graph_tokenizer(self):
        raise NotImplementedError
