"""A comparison as one HTML page that needs neither a network nor JavaScript.

Its plots are SVG in cells of tables, whose width they take; text stays its size. They are drawn for
sighted readers alone: the cells beside them have the numbers.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from t2t_keras.io.terminal import printable
from t2t_keras.lab.comparison.breakdown import Bucket
from t2t_keras.lab.comparison.comparison import Comparison
from t2t_keras.lab.comparison.report import MEASURES, costs, shown_score
from t2t_keras.lab.comparison.scores import LEVEL, SystemScore
from t2t_keras.lab.pages import ON_LIGHT, changed_words, render

_HEIGHT = 30
_BETWEEN_SERIES = 5
_MARGIN = 7  # Per cent of the width on either side.
# Around 0, a shape for each series: they are told apart without colours as well.
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "M-4.5 -4.5h9v9h-9z",
    "M0 -5.8L5.6 4.4H-5.6z",
    "M0 -6L6 0L0 6L-6 0z",
    "M0 5.8L5.6 -4.4H-5.6z",
)
COLORS = len(ON_LIGHT)


class Scale(NamedTuple):
    """A horizontal axis."""

    ticks: Sequence[float]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Scale":
        """Returns one with round numbers that holds all values."""
        values = list(values)
        low, high = min(values), max(values)
        least = max(high - low, 0.01 * abs(high), 1e-3) / 4
        power = 10 ** math.floor(math.log10(least))
        step = next(each * power for each in (1, 2, 5, 10) if each * power >= least)
        first, last = math.floor(low / step), math.ceil(high / step)
        return cls([round(at * step, 9) for at in range(first, max(last, first + 2) + 1)])

    def at(self, value: float) -> str:
        """Returns where a value is, as "50%"."""
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
    """Returns an axis for what all systems have in all buckets."""
    return Scale.of(value for bucket in buckets for value in bucket.values[measure])


def axis(scale: Scale) -> Markup:
    """Returns the numbers of an axis."""
    texts = [f'<text x="{scale.at(tick)}" y="12">{tick:g}</text>' for tick in scale.ticks]
    return Markup(f'<svg class="axis" height="16" aria-hidden="true">{"".join(texts)}</svg>')


def dots(
    scale: Scale,
    values: Sequence[float],
    interval: float | None = None,
    center: float | None = None,
    first: int = 0,
) -> Markup:
    """Returns a row with a marker for each value, of series `first` and those after it.

    `interval` is the half width of a line around `center`, as of a confidence interval.
    """
    middle = _HEIGHT / 2
    parts = [
        f'<line class="grid" x1="{scale.at(tick)}" x2="{scale.at(tick)}" y1="0" y2="{_HEIGHT}"/>'
        for tick in scale.ticks
    ]
    if interval is not None and center is not None:
        ends = [scale.at(center + sign * interval) for sign in (-1, 1)]
        parts.append(
            f'<line class="interval c{first % COLORS}" x1="{ends[0]}" x2="{ends[1]}" '
            f'y1="{middle:g}" y2="{middle:g}"/>'
        )
    for number, value in enumerate(values):
        y = middle + (number - (len(values) - 1) / 2) * _BETWEEN_SERIES
        parts.append(
            f'<svg x="{scale.at(value)}" y="{y:g}" overflow="visible">'
            f"{_shape(first + number)}</svg>"
        )
    return _plot("".join(parts))


def bar(share: float, kind: str) -> Markup:
    """Returns a bar over a share of the width; `kind` is a class that colours it."""
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
    return f'<path class="c{series % COLORS}" d="{_SHAPES[series % len(_SHAPES)]}"/>'


def comparison_page(comparison: Comparison) -> str:
    """Returns the page, one string of HTML with its style."""
    text = comparison.text
    names = [system.name for system in text.systems]
    return render(
        "comparison.html",
        title=f"{', '.join(names[1:])} beside {names[0]}",
        comparison=comparison,
        text=text,
        names=names,
        series=[marker(at) + " " + escape(printable(name)) for at, name in enumerate(names)],
        has_intervals=any(
            score.interval for metric in comparison.metrics for score in metric.scores
        ),
        level=f"{LEVEL:g}",
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
