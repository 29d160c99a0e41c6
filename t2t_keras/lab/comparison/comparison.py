"""Compares systems: their scores, by length and frequency, and sentence by sentence."""

import bisect
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from t2t_keras.lab.comparison.scores import (
    DEFAULT_METRICS,
    CometModel,
    MetricScores,
    Significance,
    score_systems,
)
from t2t_keras.lab.comparison.systems import System, TranslatedText
from t2t_keras.text.files import check_readable, decoded, read_lines

# Lower bounds of buckets: words of a reference, occurrences of a word, and differences of a
# sentence's chrF.
_LENGTHS = (0, 5, 10, 15, 20, 30, 40, 60)
_FREQUENCIES = (0, 1, 2, 5, 10, 100, 1_000)
_POINTS = (5, 15, 30)
# Maximum number of better, and of worse, sentences to show.
_MAX_SHOWN_SENTENCES = 10


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Sentences of similar length, or words of similar frequency.

    Attributes:
      label: range of lengths or frequencies, such as "5-9".
      count: number of its sentences, or of its words in the references.
      values: the systems' values, by measure.
    """

    label: str
    count: int
    values: Mapping[str, Sequence[float]]


@dataclasses.dataclass(frozen=True)
class DifferentSentence:
    """A sentence that one of two systems translates better.

    Attributes:
      line: line number, from 1.
      source: the sentence; None = unknown.
      reference: its reference translation.
      translations: the baseline's and the other system's.
      chrf: chrF of both translations.
    """

    line: int
    source: str | None
    reference: str
    translations: tuple[str, str]
    chrf: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Differences:
    """How a system differs from the baseline, by chrF of sentences.

    Attributes:
      system: its number, from 1; 0 is the baseline.
      better: number of sentences that it translates better; `equal` and `worse` likewise.
      chrf: numbers of sentences by difference, such as "5 to 15 better", from worst to best.
      gains: the sentences that it improves most, the largest difference first.
      losses: the sentences that it worsens most, likewise.
    """

    system: int
    better: int
    equal: int
    worse: int
    chrf: Mapping[str, int]
    gains: Sequence[DifferentSentence]
    losses: Sequence[DifferentSentence]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All measurements of the systems, the baseline first.

    Attributes:
      text: the compared text.
      tokenize: sacreBLEU's tokenisation, for BLEU and for counting words.
      significance: the test of differences.
      metrics: the scores.
      length_buckets: see `by_length`.
      frequency_buckets: see `by_frequency`.
      training_text: file that defines the frequencies; "" = the references.
      differences: differences between each other system and the baseline, sentence by sentence.
    """

    text: TranslatedText
    tokenize: str
    significance: Significance
    metrics: Sequence[MetricScores]
    length_buckets: Sequence[Bucket]
    frequency_buckets: Sequence[Bucket]
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
    """Compares systems' translations of a text.

    Args:
      text: the result of `read_files` or `read_runs`.
      metrics: names of metrics, see `score_systems`.
      tokenize: sacreBLEU's tokenisation; "" = the text's own.
      lowercase: whether to ignore case.
      significance: the test of differences; default: sacreBLEU's paired bootstrap.
      comet: a COMET model; None = without.
      training_text: file that defines the frequencies of words; "" = the references.

    Raises:
      UserError: a metric or a tokenisation is unknown or cannot be computed, or the training text
        cannot be read.
    """
    tokenize, significance = tokenize or text.tokenize, significance or Significance()
    training = None
    if training_text:
        path = Path(training_text)
        check_readable(path)
        training = (decoded(line, path, number) for number, line in enumerate(read_lines(path), 1))
    # Compute this first, since reading the training text may fail.
    frequency_buckets = by_frequency(text, tokenize, lowercase, training)
    return Comparison(
        text,
        tokenize,
        significance,
        score_systems(text, metrics, tokenize, lowercase, significance, comet),
        by_length(text, tokenize, lowercase),
        frequency_buckets,
        str(training_text),
        sentence_differences(text, lowercase),
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Returns a comparison for JSON, without the whole texts."""
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
            _system_json(system, number, comparison.metrics)
            for number, system in enumerate(text.systems)
        ],
        "by_length": _bucket_json(comparison.length_buckets, names, "sentences"),
        "by_frequency": {
            "counted_in": comparison.training_text or text.reference_file,
            "buckets": _bucket_json(comparison.frequency_buckets, names, "words"),
        },
        "differences": [
            dataclasses.asdict(differences) | {"system": names[differences.system]}
            for differences in comparison.differences
        ],
    }


def _system_json(system: System, number: int, metrics: Sequence[MetricScores]) -> dict[str, Any]:
    values = {name: value for name, value in vars(system).items() if name != "translations"}
    scores = {
        metric.name: {"signature": metric.signature} | dataclasses.asdict(metric.scores[number])
        for metric in metrics
    }
    return values | {"metrics": scores}


def _bucket_json(
    buckets: Sequence[Bucket], names: Sequence[str], count_name: str
) -> list[dict[str, Any]]:
    return [
        {"range": bucket.label, count_name: bucket.count}
        | {
            name: dict(zip(names, system_values, strict=True))
            for name, system_values in bucket.values.items()
        }
        for bucket in buckets
    ]


def word_splitter(tokenize: str, lowercase: bool) -> Callable[[str], list[str]]:
    """Returns a function that splits a line into BLEU's words."""
    tokenizer = BLEU(tokenize=tokenize, force=True).tokenizer
    return lambda line: tokenizer((line.lower() if lowercase else line).rstrip()).split()


def by_length(text: TranslatedText, tokenize: str, lowercase: bool) -> list[Bucket]:
    """Returns BLEU and chrF ("bleu", "chrf") by the number of words in the reference."""
    split = word_splitter(tokenize, lowercase)
    by_bucket: dict[int, list[int]] = {}
    for number, reference in enumerate(text.references):
        by_bucket.setdefault(_bucket_index(_LENGTHS, len(split(reference))), []).append(number)
    metrics = {
        "bleu": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrf": CHRF(lowercase=lowercase),
    }

    def score(metric: Metric, system: System, numbers: Sequence[int]) -> float:
        hypotheses, references = (
            [side[number] for number in numbers] for side in (system.translations, text.references)
        )
        return metric.corpus_score(hypotheses, [references]).score

    return [
        Bucket(
            _range_label(_LENGTHS, bucket),
            len(numbers),
            {
                name: [score(metric, system, numbers) for system in text.systems]
                for name, metric in metrics.items()
            },
        )
        for bucket, numbers in sorted(by_bucket.items())
    ]


def by_frequency(
    text: TranslatedText, tokenize: str, lowercase: bool, training: Iterable[str] | None = None
) -> list[Bucket]:
    """Returns how well systems translate words, by the words' frequency.

    A word of a sentence matches as often as both translation and reference have it. The measures,
    0 .. 100, are "recall", the share of the references' words that match; "precision", the share
    of the translations' words that match; and "f1", their harmonic mean.

    Args:
      text: the compared text.
      tokenize: sacreBLEU's tokenisation, which splits words.
      lowercase: whether to ignore case.
      training: lines that define the frequencies; None = the references.
    """
    split = word_splitter(tokenize, lowercase)
    references = [Counter(split(line)) for line in text.references]
    frequency: Counter[str] = Counter()
    if training is None:
        for words in references:
            frequency.update(words)
    else:
        for line in training:
            frequency.update(split(line))
    # [systems][reference, translation, both][buckets]
    counts = np.zeros((len(text.systems), 3, len(_FREQUENCIES)), np.int64)
    for system, table in zip(text.systems, counts, strict=True):
        for expected, line in zip(references, system.translations, strict=True):
            produced = Counter(split(line))
            for row, words in zip(table, (expected, produced, expected & produced), strict=True):
                for word, count in words.items():
                    row[_bucket_index(_FREQUENCIES, frequency[word])] += count
    buckets = []
    for bucket in np.flatnonzero(counts[0, 0]):
        expected, produced, matched = counts[:, :, bucket].T
        values = {
            "f1": 200 * matched / (expected + produced),
            "precision": 100 * matched / np.maximum(produced, 1),
            "recall": 100 * matched / expected,
        }
        values = {name: share.tolist() for name, share in values.items()}
        buckets.append(Bucket(_range_label(_FREQUENCIES, int(bucket)), int(expected[0]), values))
    return buckets


def sentence_differences(text: TranslatedText, lowercase: bool) -> list[Differences]:
    """Returns the differences between each system and the baseline, by chrF of sentences."""
    metric = CHRF(lowercase=lowercase)
    scores = np.array(
        [
            [
                metric.sentence_score(line, [reference]).score
                for line, reference in zip(system.translations, text.references, strict=True)
            ]
            for system in text.systems
        ]
    )
    labels, limits = _point_ranges()
    baseline, differences = text.systems[0].translations, []

    def compare_line(line: int, system: int) -> DifferentSentence:
        return DifferentSentence(
            int(line) + 1,
            text.sources[line] if text.sources else None,
            text.references[line],
            (baseline[line], text.systems[system].translations[line]),
            (float(scores[0, line]), float(scores[system, line])),
        )

    for number, system_scores in enumerate(scores[1:], start=1):
        points = system_scores - scores[0]
        # Equal differences stay in the order of the text.
        order = np.argsort(-points, kind="stable")
        best = [line for line in order[:_MAX_SHOWN_SENTENCES] if points[line] > 0]
        order = np.argsort(points, kind="stable")
        worst = [line for line in order[:_MAX_SHOWN_SENTENCES] if points[line] < 0]
        gains, losses = ([compare_line(line, number) for line in lines] for lines in (best, worst))
        counts = np.bincount(np.digitize(points, limits), minlength=len(labels)).tolist()
        better, worse = int(np.sum(points > 0)), int(np.sum(points < 0))
        counts = dict(zip(labels, counts, strict=True))
        equal = len(points) - better - worse
        differences.append(Differences(number, better, equal, worse, counts, gains, losses))
    return differences


def _bucket_index(starts: Sequence[int], number: int) -> int:
    return bisect.bisect_right(starts, number) - 1


def _range_label(starts: Sequence[int], bucket: int) -> str:
    """Returns the range of a bucket: "0-4", "1", or "1000+"."""
    if bucket == len(starts) - 1:
        return f"{starts[bucket]}+"
    first, last = starts[bucket], starts[bucket + 1] - 1
    return f"{first}-{last}" if last > first else str(first)


def _point_ranges() -> tuple[list[str], list[float]]:
    """Returns the labels of differences from worst to best, and the limits between them."""
    outer = f"{_POINTS[-1]} or more"
    inner = [f"{low} to {high}" for low, high in zip((0, *_POINTS), _POINTS, strict=False)]
    ranges = [outer, *reversed(inner)]
    labels = [f"{label} worse" for label in ranges] + [f"{label} better" for label in ranges[::-1]]
    labels.insert(len(ranges), "equal")
    tiny = float(np.nextafter(0, 1))
    # np.digitize: limits[i - 1] <= x < limits[i].
    limits = [-float(point) for point in reversed(_POINTS)] + [0.0, tiny, *map(float, _POINTS)]
    return labels, limits
