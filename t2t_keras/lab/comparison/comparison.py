"""The whole comparison of several translations of a text, from scores to single sentences."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.lab.comparison.breakdown import (
    Bucket,
    Differences,
    by_frequency,
    by_length,
    sentence_differences,
)
from t2t_keras.lab.comparison.comet import CometModel
from t2t_keras.lab.comparison.scores import (
    DEFAULT_METRICS,
    MetricScores,
    Significance,
    score_systems,
)
from t2t_keras.lab.comparison.systems import System, TranslatedText
from t2t_keras.text.files import check_readable, decoded, read_lines


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What is known of the systems, the baseline first.

    Attributes:
      text: what was compared.
      tokenize: sacreBLEU's tokenisation that BLEU and the counting of words used.
      significance: how differences were tested.
      metrics: the scores.
      lengths: BLEU and chrF by the length of the reference.
      frequencies: how well words are translated by how often they occur.
      training_text: where they were counted; "" = in the references.
      differences: of each other system, sentence by sentence.
    """

    text: TranslatedText
    tokenize: str
    significance: Significance
    metrics: Sequence[MetricScores]
    lengths: Sequence[Bucket]
    frequencies: Sequence[Bucket]
    training_text: str
    differences: Sequence[Differences]


def compare(
    text: TranslatedText,
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenize: str = "",
    lowercase: bool = False,
    significance: Significance | None = None,
    comet: CometModel | None = None,
    training_text: str | Path = "",
) -> Comparison:
    """Compares the systems that translated a text.

    Args:
      text: what `read_files` or `read_runs` returned.
      metrics: names of metrics, see `score_systems`.
      tokenize: sacreBLEU's tokenisation; "" = the text's own.
      lowercase: whether to ignore case.
      significance: how differences are tested; by default sacreBLEU's paired bootstrap.
      comet: a COMET model, None = without.
      training_text: file in which words are counted; "" = the references.

    Raises:
      UserError: a metric or a tokenisation is unknown, it cannot be computed, or the training text
        cannot be read.
    """
    tokenize, significance = tokenize or text.tokenize, significance or Significance()
    training = None
    if training_text:
        path = Path(training_text)
        check_readable(path)
        training = (decoded(line, path, number) for number, line in enumerate(read_lines(path), 1))
    # First, for the training text may be wrong.
    frequencies = by_frequency(text, tokenize, lowercase, training)
    return Comparison(
        text,
        tokenize,
        significance,
        score_systems(text, metrics, tokenize, lowercase, significance, comet),
        by_length(text, tokenize, lowercase),
        frequencies,
        str(training_text),
        sentence_differences(text, lowercase),
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Returns all of a comparison but the whole texts, as JSON can hold it."""
    text = comparison.text
    names = [system.name for system in text.systems]
    return {
        "sentences": len(text.references),
        "reference": text.reference_file,
        "source": text.source_file,
        "baseline": names[0],
        "tokenize": comparison.tokenize,
        "significance": dataclasses.asdict(comparison.significance),
        "systems": [
            _system(system, number, comparison.metrics)
            for number, system in enumerate(text.systems)
        ],
        "by_length": _buckets(comparison.lengths, names, "sentences"),
        "by_frequency": {
            "counted_in": comparison.training_text or text.reference_file,
            "buckets": _buckets(comparison.frequencies, names, "words"),
        },
        "differences": [
            dataclasses.asdict(found) | {"system": names[found.system]}
            for found in comparison.differences
        ],
    }


def _system(system: System, number: int, metrics: Sequence[MetricScores]) -> dict[str, Any]:
    values = {name: value for name, value in vars(system).items() if name != "translations"}
    scores = {
        metric.name: {"signature": metric.signature} | dataclasses.asdict(metric.scores[number])
        for metric in metrics
    }
    return values | {"metrics": scores}


def _buckets(buckets: Sequence[Bucket], names: Sequence[str], what: str) -> list[dict[str, Any]]:
    return [
        {"range": bucket.label, what: bucket.count}
        | {name: dict(zip(names, each, strict=True)) for name, each in bucket.values.items()}
        for bucket in buckets
    ]
