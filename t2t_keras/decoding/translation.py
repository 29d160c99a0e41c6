"""The results of translating and scoring."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.text.alignment import Alignment

# Characters that would break a file's lines or columns.
_SEPARATORS = re.compile(r"[\n\r\t]")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One of several translations of a line.

    Attributes:
      text: the translation.
      score: log-probability / length penalty (0 = certain), less a coverage penalty if requested.
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
      hypotheses: the requested hypotheses; the first is `text`. Those of a search are sorted by
        the stages' costs, then by score; samples are in the order of the draws.
      parts: the translations of a split line's sentences, which `text` joins; else one part.
      cut: number of source tokens left out because the line was too long.
      prefix_cut: number of prefix tokens left out because outputs may not be so long.
      postprocessed: `text` as the problem postprocesses it: a tree for a parser, else unchanged.
      alignment: pairs (source word, word of `text`) if the problem postprocesses by alignment.
      rank: rank of `text` in the search, 0 = best; of a split line, the largest of its parts.
      notes: the notes of the translator's stages, by their names.
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
    """A model's probability of a translation.

    Attributes:
      log_prob: natural logarithm of the probability, with the end of sentence.
      token_log_probs: float32 [tokens], log-probability of each piece given the source and the
        pieces before; the last token is the end of sentence.
    """

    log_prob: float
    token_log_probs: np.ndarray

    @property
    def perplexity(self) -> float:
        """Perplexity per token; 1 = certain."""
        return perplexity(self.log_prob / len(self.token_log_probs))


def perplexity(log_prob: float) -> float:
    """Returns the perplexity for a log-probability per token; infinite if it overflows."""
    return math.exp(-log_prob) if log_prob > -709 else math.inf


@dataclasses.dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of every layer and head for one sentence and its translation.

    Attributes:
      source: pieces of the source with the end of sentence.
      target: pieces of the translation with the end.
      encoder: float32 [layers, heads, source, source]; a row is a query.
      decoder: float32 [layers, heads, target, target]; row i is for the prediction of target i,
        column j for decoder input j: target j - 1, or the start symbol for j = 0.
      cross: float32 [layers, heads, target, source]; row i is for the prediction of target i.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray


def one_line(text: str) -> str:
    """Returns a translation as one line of a file.

    A vocabulary that spells in bytes can spell a line break, which would shift all later lines.
    """
    return _SEPARATORS.sub(" ", text)
