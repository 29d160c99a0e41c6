"""A comparison as one HTML page that needs neither a network nor JavaScript."""

import difflib
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from t2t_keras.io.terminal import printable
from t2t_keras.lab.comparison import plots
from t2t_keras.lab.comparison.breakdown import Bucket, Differences, DifferentSentence
from t2t_keras.lab.comparison.comparison import Comparison
from t2t_keras.lab.comparison.report import MEASURES, cost_rows, shown_score
from t2t_keras.lab.comparison.scores import LEVEL, MetricScores
from t2t_keras.lab.insights.views import ON_DARK, ON_LIGHT


def comparison_page(comparison: Comparison) -> str:
    """Returns the page, one string of HTML with its style."""
    text, page = comparison.text, _read("comparison_page.html")
    names = [system.name for system in text.systems]
    title = f"{', '.join(names[1:])} beside {names[0]}"
    content = "\n".join(_sections(comparison))
    colors = {"{{light}}": _colors(ON_LIGHT), "{{dark}}": _colors(ON_DARK)}
    page = page.replace("{{comparison_page.css}}", _read("comparison_page.css"))
    for mark, value in colors.items():
        page = page.replace(mark, value)
    # The last: texts may hold the other marks.
    head, tail = page.replace("{{title}}", _text(title)).split("{{content}}")
    return head + content + tail


def _read(file: str) -> str:
    return resources.files("t2t_keras.lab.comparison").joinpath(file).read_text("utf-8")


def _colors(colors: Sequence[str]) -> str:
    return " ".join(f"--c{number}: {color};" for number, color in enumerate(colors))


def _text(text: str) -> str:
    """Returns text as HTML shows it; what controls the direction of writing is escaped."""
    return escape(printable(text))


def _whole(html: str) -> str:
    """Returns text that no line end divides."""
    return html.replace(" ", "&nbsp;")


def _sections(comparison: Comparison) -> Iterator[str]:
    text = comparison.text
    names = [system.name for system in text.systems]
    yield (
        f'<p class="note">{len(text.references):,} sentences of '
        f"<code>{_text(text.reference_file)}</code>; the baseline is <b>{_text(names[0])}</b>.</p>"
    )
    keys = [f"<li>{plots.marker(at)} {_text(name)}</li>" for at, name in enumerate(names)]
    yield f'<ul class="legend" aria-label="Systems">{"".join(keys)}</ul>'
    yield "<h2>Scores</h2>"
    has_intervals = any(score.interval for metric in comparison.metrics for score in metric.scores)
    line = "The line is the 95&#8239;% interval. " * has_intervals
    yield (
        f'<p class="note">{line}p is the chance of a difference at '
        f"least as large between equally good systems ({_text(str(comparison.significance))}); "
        f"* = p &lt; {LEVEL:g}.</p>"
    )
    yield from (_metric(metric, names) for metric in comparison.metrics)
    yield from _costs(comparison)
    yield "<h2>By words of the reference</h2>"
    yield _buckets(comparison.lengths, names, "Words", "Sen&shy;tences", ("bleu", "chrf"))
    yield "<h2>By how often a word occurs</h2>"
    training = comparison.training_text
    where = f"<code>{_text(training)}</code>" if training else "the references"
    yield (
        f'<p class="note">Occurrences in {where}. Recall: the share of the references\' words that '
        "a translation has; F1 counts superfluous ones too.</p>"
    )
    yield _buckets(comparison.frequencies, names, "Occur&shy;rences", "Words", ("f1", "recall"))
    for found in comparison.differences:
        yield from _differences(comparison, found)


def _table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of HTML; the first cell of each row heads it, one with a plot is wide."""
    head = "".join(f'<th scope="col">{each}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{caption}"><table><caption>'
        f"{caption}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _metric(metric: MetricScores, names: Sequence[str]) -> str:
    edges = []
    for each in metric.scores:
        center, width = each.mean, each.interval
        edges += [each.score] + ([] if width is None else [center - width, center + width])
    scale, rows = plots.Scale.of(edges), []
    for number, (name, each) in enumerate(zip(names, metric.scores, strict=True)):
        score, interval, difference, p = shown_score(each, metric.digits)
        plot = plots.dots(scale, [each.score], each.interval, each.mean, number)
        interval = f"<small>{_whole(interval)}</small>"
        rows.append([_text(name), plot, f"{score} {interval}", difference, p])
    less = " (less is better)" if metric.higher_is_better is False else ""
    table = _table(
        f"{_text(metric.label)}{less}",
        ["System", plots.axis(scale), "Score", "Differ&shy;ence", "p"],
        rows,
    )
    return f'{table}<p class="signature"><code>{_text(metric.signature)}</code></p>'


def _costs(comparison: Comparison) -> Iterator[str]:
    headings, rows = cost_rows(comparison)
    if not rows:
        return
    shown: list[list[str]] = [[] for _ in rows]
    for cells, row in zip(shown, rows, strict=True):
        for heading, cell in zip(headings, map(_text, row), strict=True):
            if heading.endswith(" on"):  # What a time was taken on stands under it.
                cells[-1] += f"<br><small>{cell}</small>" if cell else ""
            else:
                cells.append(_whole(cell) if cells else cell)
    main = [heading.capitalize() for heading in headings if not heading.endswith(" on")]
    yield "<h2>Seconds and sizes</h2>"
    yield _table("What is recorded", main, shown)


def _buckets(
    buckets: Sequence[Bucket],
    names: Sequence[str],
    range_name: str,
    count_name: str,
    measures: Sequence[str],
) -> str:
    tables = []
    for measure in measures:
        scale = plots.Scale.of(value for bucket in buckets for value in bucket.values[measure])
        columns = [f"{plots.marker(at)} {_text(name)}" for at, name in enumerate(names)]
        headings = [range_name, count_name, plots.axis(scale), *columns]
        rows = [
            [f'<span class="range">{bucket.label.replace("-", "&ndash;")}</span>']
            + [f"{bucket.count:,}"]
            + [plots.dots(scale, bucket.values[measure])]
            + [f"{value:.1f}" for value in bucket.values[measure]]
            for bucket in buckets
        ]
        tables.append(_table(MEASURES[measure], headings, rows))
    return f'<div class="beside">{"".join(tables)}</div>'


def _differences(comparison: Comparison, found: Differences) -> Iterator[str]:
    systems = comparison.text.systems
    name, first = (_text(systems[number].name) for number in (found.system, 0))
    yield f"<h2>{name} beside {first}, sentence by sentence</h2>"
    yield (
        f'<p class="note">By chrF2 of each sentence, {name} is better for {found.better:,}, equal '
        f"for {found.equal:,}, worse for {found.worse:,}.</p>"
    )
    most = max(found.counts.values())
    rows = [
        [label, plots.bar(count / most, label.rpartition(" ")[2]), f"{count:,}"]
        for label, count in found.counts.items()
    ]
    yield _table("Points of chrF2", ["Difference", "", "Sentences"], rows)
    for which, sentences in (("better", found.gains), ("worse", found.losses)):
        if sentences:
            items = "".join(_sentence(comparison, found.system, each) for each in sentences)
            yield f'<h3>{name} {which} by most</h3>\n<ol class="sentences">{items}</ol>'


def _sentence(comparison: Comparison, system: int, found: DifferentSentence) -> str:
    text, at = comparison.text, found.line - 1
    pair = [text.systems[number].translations[at] for number in (0, system)]
    rows = {"Source": _text(text.sources[at])} if text.sources else {}
    rows["Reference"] = _text(text.references[at])
    entries = "".join(f'<dt>{label}</dt><dd dir="auto">{line}</dd>' for label, line in rows.items())
    for number, line, other, score in zip((0, system), pair, pair[::-1], found.chrf, strict=True):
        entries += (
            f"<dt>{plots.marker(number)} {_text(text.systems[number].name)} "
            f'<small>{score:.1f}</small></dt><dd dir="auto">{_marked(line, other)}</dd>'
        )
    return f'<li><p class="line">Line {found.line:,}</p><dl>{entries}</dl></li>\n'


def _marked(line: str, other: str) -> str:
    """Returns a line with those words underlined that the other does not have there."""
    words = line.split(" ")
    matcher = difflib.SequenceMatcher(a=other.split(" "), b=words, autojunk=False)
    parts = []
    for operation, _, _, start, end in matcher.get_opcodes():
        part = _text(" ".join(words[start:end]))
        if part:
            parts.append(part if operation == "equal" else f"<u>{part}</u>")
    return " ".join(parts)
