"""A comparison as one HTML page that needs neither a network nor JavaScript."""

from markupsafe import escape

from t2t_keras.io.terminal import printable
from t2t_keras.lab.comparison import plots
from t2t_keras.lab.comparison.comparison import Comparison
from t2t_keras.lab.comparison.report import MEASURES, costs, shown_score
from t2t_keras.lab.comparison.scores import LEVEL
from t2t_keras.lab.pages import changed_words, render


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
        series=[plots.marker(at) + " " + escape(printable(name)) for at, name in enumerate(names)],
        has_intervals=any(
            score.interval for metric in comparison.metrics for score in metric.scores
        ),
        level=f"{LEVEL:g}",
        measures=MEASURES,
        costs=costs(text.systems),
        shown_score=shown_score,
        axis=plots.axis,
        bar=plots.bar,
        dots=plots.dots,
        scale_of_scores=plots.scale_of_scores,
        scale_of_buckets=plots.scale_of_buckets,
        changed_words=changed_words,
    )
