import dataclasses
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from accessibility import accessibility_faults
from browser import opening

from t2t_keras.lab.comparison.comparison import as_json, compare
from t2t_keras.lab.comparison.report import Scale, comparison_page, dots, text_report
from t2t_keras.lab.comparison.scores import Significance
from t2t_keras.lab.comparison.systems import System, TranslatedText
from t2t_keras.lab.drawing import DARK_COLORS, LIGHT_COLORS

HOSTILE = '</dd></main><script>alert(1)</script>{{content}} & "q" <img src=//x onerror=alert(1)>'


@pytest.fixture(scope="module")
def hostile(text):
    """A comparison in which a name, a file and a line of each kind would break the page."""
    systems = [
        dataclasses.replace(
            system,
            name=f"{system.name} {HOSTILE[:20]}",
            megabytes=20.5,
            decoding_hardware="<2 cores>",
        )
        for system in text.systems
    ]
    systems[2] = dataclasses.replace(
        systems[2],
        translations=[HOSTILE, *systems[2].translations[1:]],
        training_seconds=90.0,
        training_hardware="<1 GPU>",
    )
    lines = [HOSTILE, *text.references[1:]], [HOSTILE, *text.sources[1:]]
    changed = TranslatedText(systems, lines[0], HOSTILE, lines[1], HOSTILE)
    return compare(changed, ["bleu", "ter"], significance=Significance(samples=20))


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.names, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        assert not {"src", "onerror", "href"} & dict(attrs).keys() or tag == "link"
        self.names.append(tag)

    def handle_data(self, data):
        self.text += data


def test_nothing_in_a_text_is_markup(hostile):
    # Of a registered metric nobody knows whether less is better.
    unknown = dataclasses.replace(hostile.metrics[0], higher_is_better=None)
    hostile = dataclasses.replace(hostile, metrics=[unknown, hostile.metrics[1]])
    actual = Elements(comparison_page(hostile))
    assert not {"script", "img"} & {*actual.names}
    assert actual.names.count("main") == 1
    assert actual.text.count(HOSTILE) >= 3, "the file, and the first line and its source"
    assert re.findall(r"(\w+) \(less is better\)", actual.text) == ["TER"]
    assert "20.5\xa0MB" in actual.text
    assert "90.0\xa0s" in actual.text
    assert [actual.text.count(f"<{what}>") for what in ("1 GPU", "2 cores")] == [1, 3]
    report = text_report(hostile)
    assert "\n\n\n" not in report
    metrics = [row[:10].strip() for row in report.split("\n") if "±" in row]
    assert metrics == ["BLEU", "", "", "TER (less)", "", ""]
    rows = [re.split(" {2,}", row) for row in report.split("\n") if "MB" in row]
    assert [row[1:] for row in rows] == [
        ["<2 cores>", "20.5 MB"],
        ["<2 cores>", "20.5 MB"],
        ["90.0 s", "<1 GPU>", "<2 cores>", "20.5 MB"],
    ]


def test_words_that_the_other_system_does_not_have_are_underlined():
    lines = {"one": "the house stands", "two": "the <small> red house stands here"}
    systems = [System(name, [line], name) for name, line in lines.items()]
    text = TranslatedText(systems, ["the red house stands here"], "ref")
    few = Significance("randomization", samples=2)
    page = comparison_page(compare(text, ["chrf"], significance=few))
    assert "interval." not in page, "randomisation has none"
    assert page.count(">the house stands</dd>") == 1
    assert page.count(">the <u>&lt;small&gt; red</u> house stands <u>here</u></dd>") == 1


@pytest.fixture(scope="module")
def comparison(text):
    systems = [dataclasses.replace(text.systems[0], decoding_seconds=1234.5), *text.systems[1:]]
    text = dataclasses.replace(text, systems=systems)
    return compare(text, ["bleu", "chrf"], significance=Significance(samples=20))


@pytest.fixture(scope="module")
def page(comparison):
    return comparison_page(comparison)


def test_page_report_and_json_have_the_same_numbers(comparison, page):
    actual, names, rows = as_json(comparison), ("base", "new", "bad"), []
    for metric in ("bleu", "chrf"):
        for system in actual["systems"]:
            difference = system["metrics"][metric]
            row = f"{system['name']} {difference['score']:.2f} ± {difference['interval']:.2f}"
            if system["name"] != "base":
                star = "*" * (difference["p_value"] < 0.05)
                row += f" {difference['difference']:+.2f} {difference['p_value']:.4f}{star}"
            rows.append(row)
    rows += ["base 1,234.5 s", "new", "bad"]
    lines = [" ".join(line.split()) for line in text_report(comparison).split("\n")]
    for buckets, what, measures in (
        (actual["by_length"], "sentences", ("bleu", "chrf")),
        (actual["by_frequency"]["buckets"], "words", ("f1", "recall")),
    ):
        values = [
            [" ".join(f"{bucket[measure][name]:.1f}" for name in names) for bucket in buckets]
            for measure in measures
        ]
        begins = [f"{bucket['range']} {bucket[what]}" for bucket in buckets]
        rows += [
            f"{begin} {value}" for one in values for begin, value in zip(begins, one, strict=True)
        ]
        assert {" ".join(row) for row in zip(begins, *values, strict=True)} <= {*lines}
    for difference in actual["differences"]:
        rows += [f"{label} {count}" for label, count in difference["chrf"].items()]
    shown = re.findall('(?s)<tr>(<th scope="row">.*?)</tr>', page)
    shown = [" ".join(unescape(re.sub("<[^>]*>", " ", row)).split()) for row in shown]
    assert [row.replace("\N{EN DASH}", "-") for row in shown] == rows
    assert not [row for row in (*rows[:7], *rows[-18:]) if f" {row}" not in " " + " ".join(lines)]
    gain, loss = (actual["differences"][0][side][0]["line"] for side in ("gains", "losses"))
    for whole, line, end in ((page, "Line", "<"), (text_report(comparison), "line", ",")):
        marks = "new better ", f"{line} {gain}{end}", "new worse ", f"{line} {loss}{end}"
        places = [whole.index(mark) for mark in marks]
        assert places == sorted(places)
    first = actual["differences"][0]["gains"][0]
    both = list(zip(names, first["chrf"], first["translations"], strict=False))
    text = f"source {first['source']} reference {first['reference']} "
    assert text + " ".join(f"{name} {line}" for name, _, line in both) in " ".join(lines)
    items = re.findall("(?s)<li>(.*?)</li>", page)
    item = next(item for item in items if f"Line {first['line']}<" in item)
    text = (
        f"Line {first['line']} {text.replace('source', 'Source').replace('reference', 'Reference')}"
    )
    shown = " ".join(unescape(re.sub("<[^>]*>", " ", item)).split())
    assert shown == text + " ".join(f"{name} {score:.1f} {line}" for name, score, line in both)


def test_each_system_has_an_interval_of_its_colour_by_each_metric(comparison, page):
    assert page.count('<th scope="col"><svg class="marker"') == 4 * 3
    # The interval is around the mean of the resamples, on the axis above it.
    axis = re.findall(r'<text x="([\d.]+)%" y="12">(\d+)</text>', page.partition("</svg></th>")[0])
    (low, least), *_, (high, most) = [tuple(map(float, tick)) for tick in axis]
    score = comparison.metrics[0].scores[0]
    ends = [float(x) for x in re.search(r'interval c0" x1="(.*?)%" x2="(.*?)%"', page).groups()]
    values = [least + (x - low) * (most - least) / (high - low) for x in ends]
    assert values == pytest.approx(
        [score.mean - score.interval, score.mean + score.interval], abs=0.02
    )
    cells = re.findall(r'<th scope="row">(.*?)</th>\s*<td>(.*?)</td>', page)
    marks = [
        (name, *re.findall(r"(?:interval|path class=.)\W*c(\d)", cell)) for name, cell in cells
    ]
    systems = [("base", "0", "0"), ("new", "1", "1"), ("bad", "2", "2")]
    assert [mark for mark in marks if mark[0] in ("base", "new", "bad")][:6] == systems * 2
    assert [page.count(note) for note in ("* = p &lt; 0.05.", "interval.")] == [1, 1]
    bars = {kind: page.count(f'class="bar {kind}"') for kind in ("worse", "equal", "better")}
    assert bars == {"worse": 8, "equal": 2, "better": 8}
    for text in (
        "<title>new, bad compared with base</title>",
        f"--c0: light-dark({LIGHT_COLORS[0]}, {DARK_COLORS[0]});",
        "(paired bootstrap, 20 samples, seed 12345)",
        "Occurrences in the references.",
        "new is better for 12, equal for 0, worse for 12.",
    ):
        assert text in " ".join(page.split())
    # The longest bar of sentences takes the whole width.
    assert len(re.findall('class="bar [^>]* width="100.00%"', page)) >= 2


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0, 100], [0, 50, 100]),
        ([26.8, 21.3, 27.9], [20, 22, 24, 26, 28]),
        ([0.81, 0.794], [0.79, 0.795, 0.8, 0.805, 0.81]),
        ([50], [50, 50.2, 50.4]),
        ([0], [0, 0.0005, 0.001]),
    ],
)
def test_an_axis_has_round_numbers_around_all_values(values, ticks):
    scale = Scale.of(values)
    assert scale.ticks == ticks
    assert [scale.at(ticks[0]), scale.at(ticks[-1])] == ["7.00%", "93.00%"]


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (380, "dark")])
def test_it_fits_its_window_and_asks_for_nothing(browser, page, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(page, "utf-8")
    with opening(browser, path.as_uri()) as open_page:
        tab = open_page(width, scheme)
        assert tab.run("return document.documentElement.scrollWidth") <= width
        wider, outside, plots, axes = tab.run("""
            const all = (selector) => [...document.querySelectorAll(selector)];
            const inside = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right;
            const box = (each) => each.getBoundingClientRect();
            return [
                all(".table").filter((each) => each.scrollWidth > each.clientWidth).length,
                all(".plot path").filter(
                    (each) => !inside(box(each), box(each.closest("td")))).length,
                all(".plot").filter((each) => box(each).width >= 60).length,
                all(".axis").every((each) => each.querySelectorAll("text").length >= 3)];""")
        assert (wider, outside, axes) == (0, 0, True)
        assert plots == len(tab.all(".plot")) > 30
        assert accessibility_faults(tab) == []


def test_marks_of_a_row_lie_around_its_middle():
    for count in (1, 2, 3):
        row = dots(Scale((0, 10)), [5.0] * count, 1.0, 5.0)
        heights = [float(y) for y in re.findall(r'<svg x="[^"]*" y="([\d.]+)"', row)]
        assert heights == [15 + 5 * (number - (count - 1) / 2) for number in range(count)]
        assert 'y1="15" y2="15"' in row
