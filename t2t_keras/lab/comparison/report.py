"""A comparison as text, in plain tables."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tabulate import tabulate

from t2t_keras.lab.comparison.breakdown import Bucket, Differences
from t2t_keras.lab.comparison.comparison import Comparison
from t2t_keras.lab.comparison.scores import LEVEL, MetricScores, SystemScore
from t2t_keras.lab.comparison.systems import System


def text_report(comparison: Comparison) -> str:
    """Returns the report; sections are divided by blank lines."""
    text = comparison.text
    names = [system.name for system in text.systems]
    what = f"{len(text.references):,} sentences of {text.reference_file}; baseline: {names[0]}"
    parts = [
        f"{what}\n{comparison.significance}; * = p < {LEVEL:g}",
        _table(
            ["metric", "system", "score", "95 %", "difference", "p"],
            [row for metric in comparison.metrics for row in _score_rows(metric, names)],
        ),
        "\n".join(metric.signature for metric in comparison.metrics if metric.signature),
        *_costs(text.systems),
        "By words of the reference",
        _bucket_table(comparison.lengths, names, "words", "sentences"),
        f"By how often a word occurs in {comparison.training_text or 'the references'}",
        _bucket_table(comparison.frequencies, names, "occurrences", "words"),
        *itertools.chain(*(_differences(comparison, each) for each in comparison.differences)),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> str:
    align = ["left"] * left + ["right"] * (len(headings) - left)
    return tabulate(rows, headers=headings, disable_numparse=True, colalign=align)


def _score_rows(metric: MetricScores, names: Sequence[str]) -> Iterator[list[str]]:
    label = metric.label if metric.higher_is_better is not False else f"{metric.label} (less)"
    for name, score in zip(names, metric.scores, strict=True):
        yield [label, name, *shown_score(score, metric.digits)]
        label = ""


def shown_score(score: SystemScore, digits: int) -> list[str]:
    """Returns score, interval, difference and p-value as they are shown; "" for what is not."""
    p_value = "" if score.p_value is None else f"{score.p_value:.4f}{'*' * score.is_significant}"
    return [
        f"{score.score:.{digits}f}",
        "" if score.interval is None else f"± {score.interval:.{digits}f}",
        "" if score.difference is None else f"{score.difference:+.{digits}f}",
        "equal" if score.difference == 0 else p_value,
    ]


class Cost(NamedTuple):
    """What is known of the systems' seconds or sizes.

    Attributes:
      heading: what it is.
      on: what its hardware is called.
      values: of each system, as they are shown; "" = unknown.
      hardware: what each was taken on.
    """

    heading: str
    on: str
    values: Sequence[str]
    hardware: Sequence[str]


def costs(systems: Sequence[System]) -> list[Cost]:
    """Returns those that are known of any system."""
    training = [
        (_shown(system.training_seconds, "s"), system.training_hardware) for system in systems
    ]
    decoding = [
        (_shown(system.decoding_seconds, "s"), system.decoding_hardware) for system in systems
    ]
    sizes = [(_shown(system.megabytes, "MB"), "") for system in systems]
    found = [
        Cost("training", "trained on", *zip(*training, strict=True)),
        Cost("decoding", "decoded on", *zip(*decoding, strict=True)),
        Cost("size", "", *zip(*sizes, strict=True)),
    ]
    return [cost for cost in found if any((*cost.values, *cost.hardware))]


def _shown(number: float | None, unit: str) -> str:
    return "" if number is None else f"{number:,.1f} {unit}"


def _costs(systems: Sequence[System]) -> Iterator[str]:
    columns: dict[str, Sequence[str]] = {"system": [system.name for system in systems]}
    for cost in costs(systems):
        both = {cost.heading: cost.values, cost.on: cost.hardware}
        columns |= {heading: column for heading, column in both.items() if any(column)}
    if len(columns) > 1:
        yield _table([*columns], list(zip(*columns.values(), strict=True)), left=1)


def _bucket_table(
    buckets: Sequence[Bucket], names: Sequence[str], range_name: str, count_name: str
) -> str:
    measures = [measure for measure in buckets[0].values if measure != "precision"]
    headings = [range_name, count_name]
    headings += [f"{MEASURES[measure]}\n{name}" for measure in measures for name in names]
    rows = [
        [bucket.label, f"{bucket.count:,}"]
        + [f"{value:.1f}" for measure in measures for value in bucket.values[measure]]
        for bucket in buckets
    ]
    return _table(headings, rows, left=1)


# What measures of a `Bucket` are called for people.
MEASURES = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "f1": "F1",
    "recall": "Recall",
}


def _differences(comparison: Comparison, found: Differences) -> Iterator[str]:
    systems = comparison.text.systems
    name, first = systems[found.system].name, systems[0].name
    yield (
        f"{name} beside {first}, by chrF2 of sentences: {found.better:,} better, "
        f"{found.equal:,} equal, {found.worse:,} worse"
    )
    yield _table(["difference", "sentences"], [[k, f"{v:,}"] for k, v in found.chrf.items()], 1)
    for which, sentences in (("better", found.gains), ("worse", found.losses)):
        if sentences:
            yield f"{name} {which} than {first} by most"
        for sentence in sentences:
            lines = {} if sentence.source is None else {"source": sentence.source}
            lines["reference"] = sentence.reference
            lines |= zip((first, name), sentence.translations, strict=True)
            width = max(map(len, lines))
            yield "\n".join(
                [f"line {sentence.line:,}, chrF2 {sentence.chrf[0]:.1f} to {sentence.chrf[1]:.1f}"]
                + [f"  {what:<{width}}  {line}" for what, line in lines.items()]
            )
