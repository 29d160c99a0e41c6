"""Shows a comparison as plain tables of text, or as one HTML page.

The page's plots are SVGs that fill table cells; their text keeps its size. Screen readers skip the
plots and read the numbers in the adjacent cells.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape
from tabulate import tabulate

from t2t_keras.io.terminal import printable
from t2t_keras.lab.comparison.comparison import Bucket, Comparison, Differences
from t2t_keras.lab.comparison.scores import P_LIMIT, MetricScores, SystemScore
from t2t_keras.lab.comparison.systems import System
from t2t_keras.lab.drawing import LIGHT_COLORS, changed_words, render


def text_report(comparison: Comparison) -> str:
    """Returns the report, with blank lines between sections."""
    text = comparison.text
    names = [system.name for system in text.systems]
    title = f"{len(text.references):,} sentences of {text.reference_file}; baseline: {names[0]}"
    parts = [
        f"{title}\n{comparison.significance}; * = p < {P_LIMIT:g}",
        _table(
            ["metric", "system", "score", "95 %", "difference", "p"],
            [row for metric in comparison.metrics for row in _score_rows(metric, names)],
        ),
        "\n".join(metric.signature for metric in comparison.metrics if metric.signature),
        *_cost_table(text.systems),
        "By words of the reference",
        _bucket_table(comparison.length_buckets, names, "words", "sentences"),
        f"By how often a word occurs in {comparison.training_text or 'the references'}",
        _bucket_table(comparison.frequency_buckets, names, "occurrences", "words"),
        *itertools.chain(
            *(_difference_parts(comparison, differences) for differences in comparison.differences)
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], num_left: int = 2) -> str:
    align = ["left"] * num_left + ["right"] * (len(headings) - num_left)
    return tabulate(rows, headers=headings, disable_numparse=True, colalign=align)


def _score_rows(metric: MetricScores, names: Sequence[str]) -> Iterator[list[str]]:
    label = metric.label if metric.higher_is_better is not False else f"{metric.label} (less)"
    for name, score in zip(names, metric.scores, strict=True):
        yield [label, name, *shown_score(score, metric.digits)]
        label = ""


def shown_score(score: SystemScore, digits: int) -> list[str]:
    """Returns score, interval, difference and p-value as text; "" = nothing to show."""
    p_value = "" if score.p_value is None else f"{score.p_value:.4f}{'*' * score.is_significant}"
    return [
        f"{score.score:.{digits}f}",
        "" if score.interval is None else f"± {score.interval:.{digits}f}",
        "" if score.difference is None else f"{score.difference:+.{digits}f}",
        "equal" if score.difference == 0 else p_value,
    ]


class Cost(NamedTuple):
    """One kind of cost, such as training time, of all systems.

    Attributes:
      heading: heading of the values.
      hardware_heading: heading of the hardware.
      values: the systems' values, as text; "" = unknown.
      hardware: the systems' hardware; "" = unknown.
    """

    heading: str
    hardware_heading: str
    values: Sequence[str]
    hardware: Sequence[str]


def costs(systems: Sequence[System]) -> list[Cost]:
    """Returns the costs that are known for at least one system."""
    training = [
        (_with_unit(system.training_seconds, "s"), system.training_hardware) for system in systems
    ]
    decoding = [
        (_with_unit(system.decoding_seconds, "s"), system.decoding_hardware) for system in systems
    ]
    sizes = [(_with_unit(system.megabytes, "MB"), "") for system in systems]
    all_costs = [
        Cost("training", "trained on", *zip(*training, strict=True)),
        Cost("decoding", "decoded on", *zip(*decoding, strict=True)),
        Cost("size", "", *zip(*sizes, strict=True)),
    ]
    return [cost for cost in all_costs if any((*cost.values, *cost.hardware))]


def _with_unit(number: float | None, unit: str) -> str:
    return "" if number is None else f"{number:,.1f} {unit}"


def _cost_table(systems: Sequence[System]) -> Iterator[str]:
    columns: dict[str, Sequence[str]] = {"system": [system.name for system in systems]}
    for cost in costs(systems):
        cost_columns = {cost.heading: cost.values, cost.hardware_heading: cost.hardware}
        columns |= {heading: column for heading, column in cost_columns.items() if any(column)}
    if len(columns) > 1:
        yield _table([*columns], list(zip(*columns.values(), strict=True)), num_left=1)


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
    return _table(headings, rows, num_left=1)


# Titles of the measures of a `Bucket`.
MEASURES = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "f1": "F1",
    "recall": "Recall",
}


def _difference_parts(comparison: Comparison, differences: Differences) -> Iterator[str]:
    systems = comparison.text.systems
    name, baseline = systems[differences.system].name, systems[0].name
    yield (
        f"{name} compared with {baseline}, by chrF2 of sentences: {differences.better:,} better, "
        f"{differences.equal:,} equal, {differences.worse:,} worse"
    )
    yield _table(
        ["difference", "sentences"], [[k, f"{v:,}"] for k, v in differences.chrf.items()], 1
    )
    for direction, sentences in (("better", differences.gains), ("worse", differences.losses)):
        if sentences:
            yield f"{name} {direction} than {baseline} by most"
        for sentence in sentences:
            lines = {} if sentence.source is None else {"source": sentence.source}
            lines["reference"] = sentence.reference
            lines |= zip((baseline, name), sentence.translations, strict=True)
            width = max(map(len, lines))
            yield "\n".join(
                [f"line {sentence.line:,}, chrF2 {sentence.chrf[0]:.1f} to {sentence.chrf[1]:.1f}"]
                + [f"  {label:<{width}}  {line}" for label, line in lines.items()]
            )


_HEIGHT = 30
_SERIES_DISTANCE = 5
_MARGIN = 7  # Margin on either side, in percent of the width.
# Markers, centred at 0, whose shapes distinguish the series without colours.
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "M-4.5 -4.5h9v9h-9z",
    "M0 -5.8L5.6 4.4H-5.6z",
    "M0 -6L6 0L0 6L-6 0z",
    "M0 5.8L5.6 -4.4H-5.6z",
)
NUM_COLORS = len(LIGHT_COLORS)


def comparison_page(comparison: Comparison) -> str:
    """Returns the page, one string of HTML with its style."""
    text = comparison.text
    names = [system.name for system in text.systems]
    return render(
        "comparison.html",
        title=f"{', '.join(names[1:])} compared with {names[0]}",
        comparison=comparison,
        text=text,
        names=names,
        series=[marker(index) + " " + escape(printable(name)) for index, name in enumerate(names)],
        has_intervals=any(
            score.interval for metric in comparison.metrics for score in metric.scores
        ),
        level=f"{P_LIMIT:g}",
        measures=MEASURES,
        costs=costs(text.systems),
        shown_score=shown_score,
        axis=axis,
        bar=bar,
        dots=dots,
        scale_of_scores=scale_of_scores,
        scale_of_buckets=scale_of_buckets,
        changed_words=changed_words,
    )


class Scale(NamedTuple):
    """A horizontal axis."""

    ticks: Sequence[float]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Scale":
        """Returns an axis with round numbers that spans all values."""
        values = list(values)
        low, high = min(values), max(values)
        min_step = max(high - low, 0.01 * abs(high), 1e-3) / 4
        power = 10 ** math.floor(math.log10(min_step))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= min_step)
        first, last = math.floor(low / step), math.ceil(high / step)
        return cls([round(tick * step, 9) for tick in range(first, max(last, first + 2) + 1)])

    def at(self, value: float) -> str:
        """Returns the position of a value, such as "50%"."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return f"{_MARGIN + (100 - 2 * _MARGIN) * share:.2f}%"


def scale_of_scores(scores: Sequence[SystemScore]) -> Scale:
    """Returns an axis for scores and the intervals around their means."""
    edges = [score.score for score in scores]
    for score in scores:
        if score.mean is not None and score.interval is not None:
            edges += [score.mean - score.interval, score.mean + score.interval]
    return Scale.of(edges)


def scale_of_buckets(buckets: Sequence[Bucket], measure: str) -> Scale:
    """Returns an axis for all systems' values in all buckets."""
    return Scale.of(value for bucket in buckets for value in bucket.values[measure])


def axis(scale: Scale) -> Markup:
    """Returns the tick labels of an axis."""
    texts = [f'<text x="{scale.at(tick)}" y="12">{tick:g}</text>' for tick in scale.ticks]
    return Markup(f'<svg class="axis" height="16" aria-hidden="true">{"".join(texts)}</svg>')


def dots(
    scale: Scale,
    values: Sequence[float],
    interval: float | None = None,
    center: float | None = None,
    first_series: int = 0,
) -> Markup:
    """Returns a plot with a marker for each value; the first value belongs to `first_series`.

    Also draws a confidence interval: `interval` is half its width, `center` its middle.
    """
    middle = _HEIGHT / 2
    parts = [
        f'<line class="grid" x1="{scale.at(tick)}" x2="{scale.at(tick)}" y1="0" y2="{_HEIGHT}"/>'
        for tick in scale.ticks
    ]
    if interval is not None and center is not None:
        ends = [scale.at(center + sign * interval) for sign in (-1, 1)]
        parts.append(
            f'<line class="interval c{first_series % NUM_COLORS}" x1="{ends[0]}" x2="{ends[1]}" '
            f'y1="{middle:g}" y2="{middle:g}"/>'
        )
    for number, value in enumerate(values):
        y = middle + (number - (len(values) - 1) / 2) * _SERIES_DISTANCE
        parts.append(
            f'<svg x="{scale.at(value)}" y="{y:g}" overflow="visible">'
            f"{_shape(first_series + number)}</svg>"
        )
    return _plot("".join(parts))


def bar(share: float, kind: str) -> Markup:
    """Returns a bar over a share of the width; `kind` is the CSS class of its colour."""
    return _plot(f'<rect class="bar {kind}" y="7" width="{100 * share:.2f}%" height="16"/>')


def _plot(content: str) -> Markup:
    return Markup(f'<svg class="plot" height="{_HEIGHT}" aria-hidden="true">{content}</svg>')


def marker(series: int) -> Markup:
    """Returns the marker of a series, for a legend."""
    return Markup(
        f'<svg class="marker" width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">'
        f"{_shape(series)}</svg>"
    )


def _shape(series: int) -> str:
    return f'<path class="c{series % NUM_COLORS}" d="{_SHAPES[series % len(_SHAPES)]}"/>'
