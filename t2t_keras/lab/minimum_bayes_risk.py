"""Minimum-Bayes-risk decoding: the output that is most like the others (Kumar and Byrne, 2004).

The outputs are samples (Eikema and Aziz, 2022), or the hypotheses of the beam, all equally likely.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sacrebleu.metrics import BLEU, CHRF

from t2t_keras.decoding.lines import LineStage, Prepared
from t2t_keras.errors import unknown_name
from t2t_keras.registry import METRICS

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# utility(output, reference, source): how good an output would be if the reference were right.
Utility = Callable[[str, str, str], float]


def minimum_bayes_risk(utility: str) -> "Callable[[Translator], Translator]":
    """Output what is most like all hypotheses or samples by: chrf, bleu or a registered metric."""
    stage = MinimumBayesRisk(utility)
    return lambda translator: translator.with_stages(*translator.stages, stage)


class MinimumBayesRisk(LineStage):
    """Ranks the hypotheses of a line by their expected utility; the best comes first."""

    name = "minimum_bayes_risk"

    def __init__(self, utility: str = "chrf"):
        """Prepares the utility.

        Args:
          utility: "chrf" or "bleu", for a sentence, by sacreBLEU; or a registered metric.

        Raises:
          UserError: there is no such metric.
        """
        self._utility_name, self._utility = utility, _utility(utility)

    def prepare(self, line: str) -> Prepared:
        """See the base class."""
        return _Ranked(line, self._utility)

    def settings(self) -> Mapping[str, Any]:
        """See the base class."""
        return {"utility": self._utility_name}


class _Ranked(Prepared):
    """A line whose outputs are ranked."""

    def __init__(self, text: str, utility: Utility):
        super().__init__(text)
        self._utility = utility

    def costs(self, source: str, outputs: Sequence[str]) -> Sequence[float]:
        """Returns 100 - an output's mean utility against the others; 100 for a single output.

        A cost above 0 lets the translator ask for all hypotheses.
        """
        distinct = dict.fromkeys(outputs)
        utilities = {
            (output, other): self._utility(output, other, source)
            for output in distinct
            for other in distinct
        }
        costs = []
        for number, output in enumerate(outputs):
            others = [*outputs[:number], *outputs[number + 1 :]]
            total = sum(utilities[output, other] for other in others)
            costs.append(100 - total / max(len(others), 1))
        return costs


def _utility(name: str) -> Utility:
    if name in ("chrf", "bleu"):
        # A line may have fewer than four words.
        metric = CHRF() if name == "chrf" else BLEU(effective_order=True)
        return lambda output, reference, _: metric.sentence_score(output, [reference]).score
    if name not in METRICS:
        raise unknown_name("utility", name, ["chrf", "bleu", *METRICS])
    score = METRICS[name]
    return lambda output, reference, source: float(score([output], [reference], [source]))
