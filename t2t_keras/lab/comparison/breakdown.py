"""Where systems differ: by length of sentences, by frequency of words, sentence by sentence."""

import bisect
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from t2t_keras.lab.comparison.systems import System, TranslatedText

# The least number of each bucket: of words of a reference, of occurrences of a word, and of points
# of chrF of a sentence that one system is better than the other.
_LENGTHS = (0, 5, 10, 15, 20, 30, 40, 60)
_FREQUENCIES = (0, 1, 2, 5, 10, 100, 1_000)
_POINTS = (5, 15, 30)
# In each direction.
_MOST_DIFFERENT = 10


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A part of the text.

    Attributes:
      label: which part, as "5-9".
      count: number of its sentences, or of its words in the references.
      values: by measure, one of each system.
    """

    label: str
    count: int
    values: Mapping[str, Sequence[float]]


@dataclasses.dataclass(frozen=True)
class DifferentSentence:
    """A sentence that two systems translate differently well.

    Attributes:
      line: its number, from 1.
      source: None = unknown.
      reference: its translation.
      translations: the baseline's and the other's.
      chrf: of these.
    """

    line: int
    source: str | None
    reference: str
    translations: tuple[str, str]
    chrf: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Differences:
    """How a system differs from the baseline, sentence by sentence, by chrF.

    Attributes:
      system: its number, from 1; 0 is the baseline.
      better: number of sentences that it translates better; `equal` and `worse` likewise.
      chrf: numbers of sentences by the difference, as "5 to 15", from much worse to much better.
      gains: those that it translates better by most, most first.
      losses: those that it translates worse by most, most first.
    """

    system: int
    better: int
    equal: int
    worse: int
    chrf: Mapping[str, int]
    gains: Sequence[DifferentSentence]
    losses: Sequence[DifferentSentence]


def word_splitter(tokenize: str, lowercase: bool) -> Callable[[str], list[str]]:
    """Returns what splits a line into words, as BLEU does."""
    tokenizer = BLEU(tokenize=tokenize, force=True).tokenizer
    return lambda line: tokenizer((line.lower() if lowercase else line).rstrip()).split()


def by_length(text: TranslatedText, tokenize: str, lowercase: bool) -> list[Bucket]:
    """Returns BLEU and chrF ("bleu", "chrf") by the number of the reference's words."""
    split = word_splitter(tokenize, lowercase)
    lines: dict[int, list[int]] = {}
    for number, reference in enumerate(text.references):
        lines.setdefault(_bucket(_LENGTHS, len(split(reference))), []).append(number)
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
            _range(_LENGTHS, bucket),
            len(lines[bucket]),
            {
                name: [score(metric, system, lines[bucket]) for system in text.systems]
                for name, metric in metrics.items()
            },
        )
        for bucket in sorted(lines)
    ]


def by_frequency(
    text: TranslatedText, tokenize: str, lowercase: bool, training: Iterable[str] | None = None
) -> list[Bucket]:
    """Returns how well words are translated by how often they occur.

    Within each sentence, as many occurrences of a word are right as it has in both translation and
    reference. The measures, 0 .. 100, are "recall", the share of the references' words that are
    right; "precision", of the translations'; and "f1", their harmonic mean.

    Args:
      text: what is compared.
      tokenize: sacreBLEU's tokenisation, by which words are split.
      lowercase: whether to ignore case.
      training: lines in which words are counted; None = in the references.
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
    # [reference, translation, both][bucket]
    counts = np.zeros((len(text.systems), 3, len(_FREQUENCIES)), np.int64)
    for system, table in zip(text.systems, counts, strict=True):
        for expected, line in zip(references, system.translations, strict=True):
            found = Counter(split(line))
            for row, words in zip(table, (expected, found, expected & found), strict=True):
                for word, count in words.items():
                    row[_bucket(_FREQUENCIES, frequency[word])] += count
    buckets = []
    for bucket in np.flatnonzero(counts[0, 0]):
        expected, found, right = counts[:, :, bucket].T
        values = {
            "f1": 200 * right / (expected + found),
            "precision": 100 * right / np.maximum(found, 1),
            "recall": 100 * right / expected,
        }
        values = {name: each.tolist() for name, each in values.items()}
        buckets.append(Bucket(_range(_FREQUENCIES, int(bucket)), int(expected[0]), values))
    return buckets


def sentence_differences(text: TranslatedText, lowercase: bool) -> list[Differences]:
    """Returns how each system but the baseline differs from it, by chrF of sentences."""
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
    baseline, found = text.systems[0].translations, []

    def sentence(at: int, system: int) -> DifferentSentence:
        return DifferentSentence(
            int(at) + 1,
            text.sources[at] if text.sources else None,
            text.references[at],
            (baseline[at], text.systems[system].translations[at]),
            (float(scores[0, at]), float(scores[system, at])),
        )

    for number, other in enumerate(scores[1:], start=1):
        points = other - scores[0]
        # Of sentences that differ as much, the first come first.
        order = np.argsort(-points, kind="stable")
        best = [at for at in order[:_MOST_DIFFERENT] if points[at] > 0]
        order = np.argsort(points, kind="stable")
        worst = [at for at in order[:_MOST_DIFFERENT] if points[at] < 0]
        gains, losses = ([sentence(at, number) for at in some] for some in (best, worst))
        counts = np.bincount(np.digitize(points, limits), minlength=len(labels)).tolist()
        better, worse = int(np.sum(points > 0)), int(np.sum(points < 0))
        counts = dict(zip(labels, counts, strict=True))
        equal = len(points) - better - worse
        found.append(Differences(number, better, equal, worse, counts, gains, losses))
    return found


def _bucket(starts: Sequence[int], number: int) -> int:
    return bisect.bisect_right(starts, number) - 1


def _range(starts: Sequence[int], bucket: int) -> str:
    """Returns which numbers a bucket has: "0-4", "1", or "1000+"."""
    if bucket == len(starts) - 1:
        return f"{starts[bucket]}+"
    first, last = starts[bucket], starts[bucket + 1] - 1
    return f"{first}-{last}" if last > first else str(first)


def _point_ranges() -> tuple[list[str], list[float]]:
    """Returns the labels of differences from worst to best, and the limits between them."""
    outer = f"{_POINTS[-1]} or more"
    inner = [f"{low} to {high}" for low, high in zip((0, *_POINTS), _POINTS, strict=False)]
    sides = [outer, *reversed(inner)]
    labels = [f"{label} worse" for label in sides] + [f"{label} better" for label in sides[::-1]]
    labels.insert(len(sides), "equal")
    tiny = float(np.nextafter(0, 1))
    # np.digitize: limits[i - 1] <= x < limits[i].
    limits = [-float(point) for point in reversed(_POINTS)] + [0.0, tiny, *map(float, _POINTS)]
    return labels, limits
