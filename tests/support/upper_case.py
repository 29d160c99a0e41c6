"""A model for servers, as quick as it is simple: it writes capitals."""

import dataclasses
import threading
import time
from pathlib import Path

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, SPACE
from t2t_keras.text.tokenizer import Tokenizer

_FIRST_ID = 3

# The languages of a request, as LibreTranslate's API and DeepL's have them.
ASKED = {"source": "en", "target": "de"}
DEEPL = {"source_lang": "EN", "target_lang": "DE"}


class Characters(Tokenizer):
    """A vocabulary of all characters."""

    suffix = ".model"
    vocab_size = 0x110000 + _FIRST_ID

    def _read(self, origin):
        pass

    def encode(self, lines):
        return [
            np.array([*(ord(character) + _FIRST_ID for character in line), EOS_ID], np.int32)
            for line in lines
        ]

    def decode(self, sequences):
        return ["".join(chr(i - _FIRST_ID) for i in ids if i > EOS_ID) for ids in sequences]

    def pieces(self, ids):
        return [self.decode([[i]])[0].replace(" ", SPACE) for i in ids]

    def graph_tokenizer(self):
        raise NotImplementedError


class UpperCaseEngine(Engine):
    """Remembers which texts it has searched for."""

    def __init__(self, config=None):
        self.config = config or DecodeConfig(beam_size=3, return_beams=True)
        self.tokenizer, self.searches = Characters(b""), []

    def with_all_hypotheses(self):
        return self

    def written(self, text):
        """Returns the best translation of a text; the others end with signs."""
        return text.upper()

    def outputs(self, sources, prefixes, numbers):
        texts = self.tokenizer.decode(sources)
        self.searches.append(texts)
        actual = []
        for text, begin in zip(texts, self.tokenizer.decode(prefixes), strict=True):
            rest = self.written(text).split(" ")[len(begin.split(" ")) if begin else 0 :]
            best = " ".join([begin, *rest] if begin else rest)
            beam = self.tokenizer.encode([best, f"{best}!", f"{best}?"])
            # Less likely where it has lost punctuation.
            lost = sum(max(text.count(sign) - best.count(sign), 0) for sign in ",.")
            actual.append([Output(ids, -float(lost + (rank > 0))) for rank, ids in enumerate(beam)])
        return actual

    def log_probs(self, sources, targets):
        return ((number, np.zeros(len(ids), np.float32)) for number, ids in enumerate(targets))

    def next_symbols(self, source, prefix, count):
        raise NotImplementedError

    def cross_attention(self, sources, targets):
        for number, pair in enumerate(zip(sources, targets, strict=True)):
            yield number, np.eye(len(pair[1]), len(pair[0]), dtype=np.float32)

    attention = next_symbols

    def check_attention(self):
        raise NotImplementedError


class UpperCase(Translator):
    """A translator that writes capitals, and a beam of three; it remembers its calls."""

    def __init__(self, config=None, engine=None):
        engine = engine or UpperCaseEngine(config)
        super().__init__(engine, engine.tokenizer, engine.config, problem=Problem(), stages=())
        self.calls = []

    def translate(self, lines, prefixes=None):
        self.calls.append(list(lines))
        return super().translate(lines, prefixes)

    def search_parts(self, parts, *arguments):
        texts = [part.line.source for part in parts]
        if "explode" in texts:
            raise RuntimeError(f"as {texts} ask")
        if "refuse" in texts:
            raise UserError(f"as {texts} ask")
        super().search_parts(parts, *arguments)


class Aligning(UpperCase):
    """Aligns the first word of a source with the second of its translation."""

    def align(self, lines, translations):
        return [[(0, 1)] for _ in lines]


class Gated(UpperCase):
    """Translates once its gate is open."""

    def __init__(self):
        super().__init__()
        self.gate, self.begun = threading.Event(), threading.Event()

    def search_parts(self, *arguments):
        self.begun.set()
        assert self.gate.wait(20)
        super().search_parts(*arguments)


@dataclasses.dataclass
class Source:
    """As a `ModelSource`, of a translator that is there."""

    source: str = "en"
    target: str = "de"
    translator: object = dataclasses.field(default_factory=UpperCase)
    version: int = 1

    @property
    def pair(self):
        return self.source, self.target

    def newest_version(self):
        return Path(f"version-{self.version}"), self.version

    def load(self):
        return self.translator

    def newer_weights(self, translator):
        return None


class Endless(UpperCase):
    """Searches without end."""

    def search_parts(self, *arguments):
        while True:
            super().search_parts(*arguments)
            time.sleep(0.001)  # Others have work, too.


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now
