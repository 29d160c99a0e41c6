"""A model for servers, as quick as it is simple: it writes capitals."""

import dataclasses
import re
import threading
import time
from pathlib import Path

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.errors import UserError


class UpperCaseEngine(Engine):
    """Takes texts for ids, and remembers which it has searched for."""

    def __init__(self):
        self.searches = []

    def outputs(self, sources, prefixes, numbers):
        self.searches.append(list(sources))
        return [[Output(source.upper(), 0.0)] for source in sources]

    def log_probs(self, sources, targets):
        raise NotImplementedError

    def next_symbols(self, source, prefix, count):
        raise NotImplementedError

    cross_attention = attention = log_probs

    def check_attention(self):
        raise NotImplementedError


class UpperCase:
    """A translator that writes capitals, and a beam of three."""

    def __init__(self, config=None):
        self.config = config or DecodeConfig(beam_size=3, return_beams=True)
        self.problem, self.engine = Problem(), UpperCaseEngine()
        self.calls = []

    def translate(self, lines, prefixes=None, format="text", glossary=None):  # noqa: A002
        self.calls.append(list(lines))
        if "explode" in lines:
            raise RuntimeError(f"as {lines} ask")
        if "refuse" in lines:
            raise UserError(f"as {lines} ask")
        if format != "text":
            return [self.markup(line) for line in lines]
        outputs = self.engine.outputs(lines, [""] * len(lines), range(len(lines)))
        return [self.translation(best.ids, glossary) for [best] in outputs]

    def markup(self, text):
        if text.count("<") != text.count(">"):
            raise UserError("a tag has no end")
        pieces = re.split("(<[^>]*>)", text)
        pieces[::2] = map(str.upper, pieces[::2])
        return Translation("".join(pieces), 0.0)

    def translation(self, line, glossary):
        text = line.upper()
        for term in glossary or ():
            text = text.replace(term.source.upper(), term.target)
        others = [Hypothesis(f"{text}{mark}", -1.0) for mark in "!?"]
        return Translation(text, 0.0, (Hypothesis(text, 0.0), *others), postprocessed=text)


class Aligning(UpperCase):
    """Aligns the first word of a source with the second of its translation."""

    def align(self, lines, translations):
        return [[(0, 1)] for _ in lines]


class Gated(UpperCase):
    """Translates once its gate is open."""

    def __init__(self):
        super().__init__()
        self.gate, self.begun = threading.Event(), threading.Event()

    def translate(self, lines, *arguments, **options):
        self.begun.set()
        assert self.gate.wait(20)
        return super().translate(lines, *arguments, **options)


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

    def newest(self):
        return Path(f"version-{self.version}"), self.version

    def load(self):
        return self.translator

    def newer_weights(self, translator):
        return None


class Endless(UpperCase):
    """Searches without end."""

    def translate(self, lines, *arguments, **options):
        while True:
            super().translate(lines)
            time.sleep(0.001)  # Others have work, too.


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now
