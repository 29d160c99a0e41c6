"""A model that writes what it reads: whatever else a text loses, its reader or writer lost."""

import re

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.decoding.translator import Translator
from t2t_keras.special_ids import EOS_ID, SPACE
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.workbench.markup.translator import translate_markup

_FIRST_ID = 3
_PIECE = re.compile(r" ?\w+| ?[^\w ]| ", re.DOTALL)


class _Pieces(Tokenizer):
    """A vocabulary of whatever pieces come."""

    suffix = ".model"

    def _read(self, origin):
        self._ids, self._pieces = {}, []

    @property
    def vocab_size(self):
        return _FIRST_ID + len(self._pieces)

    def id_of(self, piece):
        if piece not in self._ids:
            self._ids[piece] = self.vocab_size
            self._pieces.append(piece)
        return self._ids[piece]

    def encode(self, lines):
        return [
            np.array([*map(self.id_of, _PIECE.findall(line)), EOS_ID], np.int32) for line in lines
        ]

    def decode(self, sequences):
        return [
            "".join(self._pieces[i - _FIRST_ID] for i in ids if i > EOS_ID) for ids in sequences
        ]

    def pieces(self, ids):
        texts = ["" if i == EOS_ID else self._pieces[i - _FIRST_ID] for i in ids]
        return [re.sub("^ ", SPACE, text) for text in texts]

    def graph_tokenizer(self):
        raise NotImplementedError


class Echo(Engine):
    """Returns the source, changed by a function of its pieces; `seen` are the texts it read."""

    def __init__(self, tokenizer, change):
        self._tokenizer, self._change = tokenizer, change
        self.seen = []

    def outputs(self, sources, prefixes, numbers):
        self.seen += self._tokenizer.decode(sources)
        texts = [[self._tokenizer.decode([[i]])[0] for i in ids[:-1]] for ids in sources]
        return [
            [
                Output(
                    [*(self._tokenizer.id_of(self._change(piece)) for piece in pieces), EOS_ID], 0.0
                )
            ]
            for pieces in texts
        ]

    def cross_attention(self, sources, targets):
        for number, pair in enumerate(zip(sources, targets, strict=True)):
            yield number, np.eye(len(pair[1]), len(pair[0]), dtype=np.float32)

    def log_probs(self, sources, targets):
        raise NotImplementedError

    next_symbols = check_attention = attention = log_probs


def upper_case(text):
    """Returns a text in capitals, character by character, where that is one character."""
    return "".join(
        character.upper() if len(character.upper()) == 1 else character for character in text
    )


class Echoing(Translator):
    """A translator of text that is a `MarkupTranslator` as well."""

    @property
    def translator(self):
        return self

    def translate(self, texts, prefixes=None, format="text"):  # noqa: A002
        if format == "text":
            return super().translate(texts, prefixes)
        return translate_markup(self, texts, format)


def echo(change=str):
    """Returns a `Translator` of such a model; its `engine.seen` are the texts that came to it.

    Where it changes something, it has symbols for placeholders.
    """
    tokenizer = _Pieces(b"")
    config = DecodeConfig(beam_size=1, max_input_length=100_000, check_placeholders=False)
    problem = Problem()
    if change is not str:
        # No change of letters can break symbols.
        problem = Problem(source_language="en", transforms=("placeholders",))
    return Echoing(Echo(tokenizer, change), tokenizer, config, problem=problem)
