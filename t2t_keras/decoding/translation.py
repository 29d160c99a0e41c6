"""What translating and scoring return."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.text.alignment import Alignment

# What would divide the lines and the columns of a file.
_SEPARATORS = re.compile(r"[\n\r\t]")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One of several translations of a line.

    Attributes:
      text: the translation.
      score: log-probability / length penalty, 0 is certain; minus a coverage penalty, if requested.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True, repr=False)
class Translation:
    """A translated line; `repr` shows text, score and the number of hypotheses.

    Attributes:
      text: the best translation, or the first sample.
      score: its score, see `Hypothesis`; 0 for a blank line, and the sum of its sentences' scores
        for a line that was split.
      hypotheses: all that were requested, the first is `text`: of a search best first, but
        those that cost its stages less come before; of samples in the order of the draws.
      parts: the translations that `text` joins: those of the sentences of a split line.
      cut: number of tokens of the source left out because it was too long.
      prefix_cut: number of tokens of the prefix left out because the output may not be so long.
      postprocessed: `text` as the problem gives it to users: the tree of a parser, else the same.
      alignment: pairs (source word, word of `text`) where the problem postprocesses by them.
      rank: of `text` in the search, 0 = it was the best; the most of its parts.
      notes: what the translator's stages say, by their names.
    """

    text: str
    score: float
    hypotheses: tuple[Hypothesis, ...] = ()
    parts: tuple[str, ...] = ()
    cut: int = 0
    prefix_cut: int = 0
    postprocessed: str = ""
    alignment: Alignment | None = None
    rank: int = 0
    notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        count = len(self.hypotheses)
        return f"Translation({self.text!r}, score={self.score:.4g}, hypotheses={count})"


@dataclasses.dataclass(frozen=True)
class PairScore:
    """How likely a model finds a given translation.

    Attributes:
      log_prob: natural logarithm of its probability, with the end of sentence.
      token_log_probs: float32 [tokens], of each piece given the source and the pieces before; the
        last one is the end of sentence.
    """

    log_prob: float
    token_log_probs: np.ndarray

    @property
    def perplexity(self) -> float:
        """Per token; 1 is certain."""
        return perplexity(self.log_prob / len(self.token_log_probs))


def perplexity(log_prob: float) -> float:
    """Returns the perplexity for a log-probability per token; infinite where no float holds it."""
    return math.exp(-log_prob) if log_prob > -709 else math.inf


@dataclasses.dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of every layer and head for one sentence and its translation.

    Attributes:
      source: pieces of the source with the end of sentence.
      target: pieces of the translation with the end.
      encoder: float32 [layers, heads, source, source]; a row is a query.
      decoder: float32 [layers, heads, target, target]; row i is for the prediction of target i,
        column j for the input read there: target j - 1, and the start at j = 0.
      cross: float32 [layers, heads, target, source]; row i is for the prediction of target i.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray


def one_line(text: str) -> str:
    """Returns a translation as it stands in a file.

    A vocabulary that spells in bytes can spell the end of a line, which would shift all others.
    """
    return _SEPARATORS.sub(" ", text)
