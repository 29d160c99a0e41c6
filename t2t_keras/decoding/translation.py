"""What translating and scoring return."""

import dataclasses
import math
import re
from collections.abc import Sequence

import numpy as np

from t2t_keras.data.problem import Alignment, Problem

# What would divide the lines and the columns of a file.
_SEPARATORS = re.compile(r"[\n\r\t]")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One of several translations of a line.

    Attributes:
      text: the translation.
      score: log-probability / length penalty, 0 is certain; a coverage penalty, if asked for, is
        subtracted.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translated line.

    Attributes:
      text: the best translation, or the first sample.
      score: its score, see `Hypothesis`; 0 for a blank line, and the sum of its sentences' where a
        line was split.
      hypotheses: all that were asked for: of a search best first, of samples in the order of the
        draws. The first is `text` again.
      parts: the translations that `text` joins: of a line that was split, those of its sentences.
      cut: how many tokens of the source were left out because it was too long.
      prefix_cut: how many tokens of what it must begin with were left out, because it may not be so
        long.
      finished: `text` as the problem gives it to users: of a parser the tree, of most the same.
      alignment: pairs (source word, word of `text`) where the problem finishes outputs by them.
    """

    text: str
    score: float
    hypotheses: tuple[Hypothesis, ...] = ()
    parts: tuple[str, ...] = ()
    cut: int = 0
    prefix_cut: int = 0
    finished: str = ""
    alignment: Alignment | None = None


@dataclasses.dataclass(frozen=True)
class PairScore:
    """How likely a model finds a given translation.

    Attributes:
      log_prob: natural logarithm of its probability, the end of sentence included.
      token_log_probs: float32 [tokens], of each piece given the source and the pieces before; the
        last one is the end of sentence.
    """

    log_prob: float
    token_log_probs: np.ndarray

    @property
    def perplexity(self) -> float:
        """Of a token, on average; 1 is certain."""
        return math.exp(-self.log_prob / len(self.token_log_probs))


def score_of(
    problem: Problem,
    translations: Sequence[Translation],
    references: Sequence[str],
    sources: Sequence[str],
):
    """Returns a problem's score of translations, as its `score` does."""
    lines = [one_line(each.text) for each in translations]
    return problem.score(lines, references, sources, [each.alignment for each in translations])


def joined(parts: Sequence[Sequence[Hypothesis]]) -> Translation:
    """Returns a line's translation, of the hypotheses of its parts; the best go with the best.

    Args:
      parts: for each part, its hypotheses; of a blank line there are none.
    """
    hypotheses = tuple(
        Hypothesis(" ".join(each.text for each in ranked), sum(each.score for each in ranked))
        for ranked in zip(*parts, strict=False)
    )
    if not hypotheses:
        return Translation("", 0.0)
    best = tuple(found[0].text for found in parts)
    return Translation(hypotheses[0].text, hypotheses[0].score, hypotheses, best)


def one_line(text: str) -> str:
    """Returns a translation as it stands in a file.

    A vocabulary that spells in bytes can spell the end of a line, which would shift all others.
    """
    return _SEPARATORS.sub(" ", text)
