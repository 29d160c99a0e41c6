"""Tags are placed as well as by trying all placements; and text comes back between them."""

import itertools
import random
import re

import numpy as np
import pytest
from counted_work import work_of

from t2t_keras.workbench.markup import read_fragment
from t2t_keras.workbench.markup.placing import Placer, tree_of
from t2t_keras.workbench.markup.segments import CLOSE, OPEN, Mark, divide
from t2t_keras.workbench.markup.translated import TranslatedSentence

# Where marks would come otherwise than in the source, with as good a score.
TOLERANCE = 0.02 * 3


def random_marks(draw, words, most):
    """Nested elements, each of one word at least, with the number of words before each mark."""
    spans = []
    for _ in range(200):
        start, end = sorted(draw.sample(range(words + 1), 2))
        nested = all(end <= a or b <= start or _within(a, b, start, end) for a, b in spans)
        if nested and (start, end) not in spans and len(spans) < most:
            spans.append((start, end))
    placed = []
    for number, (start, end) in enumerate(spans):
        placed.append(((start, 1, -(end - start)), Mark(OPEN, f"<{number}>", number)))
        placed.append(((end, 0, end - start), Mark(CLOSE, f"</{number}>", number)))
    placed.sort(key=lambda pair: pair[0])
    return spans, [mark for _, mark in placed], [(place[0],) * 2 for place, _ in placed]


def best_by_trial(spans, gains, words):
    """The largest sum of gains over all placements of elements in runs of words."""
    runs = [(a, b) for a in range(words) for b in range(a + 1, words + 1)]
    best = -np.inf
    for chosen in itertools.product(runs, repeat=len(spans)):
        pairs = itertools.combinations(range(len(spans)), 2)
        if all(_fits(spans[i], spans[j], chosen[i], chosen[j]) for i, j in pairs):
            score = sum(gains[i][a:b].sum() for i, (a, b) in enumerate(chosen))
            best = max(best, score)
    return best


def _within(a, b, start, end):
    return (a <= start and end <= b) or (start <= a and b <= end)


def _fits(one, other, of_one, of_other):
    if one[0] <= other[0] and other[1] <= one[1]:
        return of_one[0] <= of_other[0] and of_other[1] <= of_one[1]
    if other[0] <= one[0] and one[1] <= other[1]:
        return of_other[0] <= of_one[0] and of_one[1] <= of_other[1]
    return of_one[1] <= of_other[0] or of_other[1] <= of_one[0]


@pytest.mark.parametrize("seed", range(25))
def test_no_other_placement_agrees_better(seed):
    draw, random_numbers = random.Random(seed), np.random.default_rng(seed)
    words, units = draw.randint(2, 4), draw.randint(3, 5)
    spans, marks, gaps = random_marks(draw, words, 3)
    agreement = random_numbers.dirichlet(np.full(words, 0.3), units)
    root, open_nodes = tree_of(marks, gaps, words)
    is_word = [True] * words, [True] * units
    placed = Placer(root, open_nodes, agreement, is_word, [""] * units, {}).place()
    assert [gap for gap, _ in placed] == sorted(gap for gap, _ in placed)
    runs = {number: {} for number in range(len(spans))}
    for gap, mark in placed:
        runs[mark.element][mark.kind] = gap
    gains = [2 * agreement[:, a:b].sum(axis=1) - 1 for a, b in spans]
    actual = sum(gains[i][run[OPEN] : run[CLOSE]].sum() for i, run in runs.items())
    assert all(run[OPEN] < run[CLOSE] for run in runs.values())
    best = best_by_trial(spans, gains, units)
    assert best - TOLERANCE <= actual <= best + 1e-9


# Full stop to comma as Chinese has them, and dashes.
SIGNS = "\u3002\uff01\uff1f\uff1a\uff1b\uff0c\u2013\u2014"


def translated(markup, translation, pairs, form="html"):
    """The markup of a translation whose words are aligned with source words by pairs."""
    fragment = read_fragment(markup, form)
    [segment] = fragment.segments
    [sentence] = divide(segment, lambda text: [text])
    new = TranslatedSentence(sentence, segment, translation)
    weights = np.zeros([len(new.target_units), len(new.source_units)])
    for source, target in pairs:
        weights[target, source] = 1.0
    return fragment.write([new.markup(weights)])


@pytest.mark.parametrize(
    ("markup", "translation", "pairs", "expected"),
    [
        ("<b>red</b> house", "maison rouge", [(0, 1), (1, 0)], "maison <b>rouge</b>"),
        ("<b>Note</b>: x y", "Hinweis: y x", [(0, 0), (2, 3), (3, 2)], "<b>Hinweis</b>: y x"),
        ("<a>x</a> <i>y</i> z", "z y x", [(0, 2), (1, 1), (2, 0)], "z <i>y</i> <a>x</a>"),
        ("a <img> b", "b a", [(0, 1), (1, 0)], "<img> b a"),
        ("see<sup></sup> it", "es siehe", [(0, 1), (1, 0)], "es siehe<sup></sup>"),
        ("5&nbsp;km far", "fern 5 km", [(0, 1)], "fern 5&nbsp;km"),
        ("un<b>believ</b>able x", "x unglaublich", [(0, 1), (1, 0)], "x <b>unglaublich</b>"),
        ("run <code>a &lt; b</code> now", "jetzt a < b aus", [], "jetzt <code>a &lt; b</code> aus"),
        (" <p>\n<b>all</b> ", "alles", [], " <p>\n<b>alles</b> "),
        ("<i>the</i> dog", "Hund", [(1, 0)], "<i>Hund</i>"),
        # A sign is of the same sign, as the other language has it.
        *(
            (
                'say <b>"yes"</b> x',
                f"x {a}ja{b} sag",
                [(0, 4), (2, 2), (4, 0)],
                f"x <b>{a}ja{b}</b> sag",
            )
            for a, b in ("„“", "«»", "''", "「」", "“”")
        ),
        *(
            (
                f"<b>Stop{ours}</b> go",
                f"los Halt{theirs}",
                [(0, 1), (2, 0)],
                f"los <b>Halt{theirs}</b>",
            )
            for ours, theirs in zip(".!?:;,--", SIGNS, strict=True)
        ),
        ("<b>Stop</b>! go", "los Halt?", [(0, 1), (2, 0)], "los <b>Halt</b>?"),
        ("<i>a <code>-</code></i> b", "b - a", [(0, 2), (2, 0)], "b <i><code>-</code> a</i>"),
        # No sign of the source is that of two signs.
        ("a<b>,</b> b<i>,</i>", "a,, b", [(0, 0), (2, 3)], "a<b>,</b><i>,</i> b"),
        ("&#167 5 a", "\u00a75 a", [], "&#167;5 a"),
        ("don\u2019t x <b>y</b>", "z w v", [(2, 0), (0, 1), (1, 2)], "<b>z</b> w v"),
        ("<b>a,</b> b, c", "b, a, c", [(0, 2), (2, 0), (4, 4)], "b, <b>a,</b> c"),
        ("a&#160; <i>b</i> c", "x y z", [(0, 0), (1, 2), (2, 1)], "x&#160; y <i>z</i>"),
        ("a\u00a0b", "x", [(0, 0)], "x\u00a0"),
        ("a\n b", "x  y", [(0, 0), (1, 1)], "x\n  y"),
    ],
)
def test_where_tags_come(markup, translation, pairs, expected):
    assert translated(markup, translation, pairs) == expected


def test_a_code_without_a_place_comes_once_beside_one_that_has_it():
    many = "".join(f"<i id={number}>x</i> " for number in range(450))
    source = f"<code>f</code> {many}<code>f</code> y"
    output = translated(source, f"f {'x ' * 450}z y f", [])
    assert re.findall("<.*?>", output) == re.findall("<.*?>", source)
    assert (output.count("<code>f</code>"), output.count("f")) == (2, 2)


@pytest.mark.parametrize(
    ("source", "translation", "html", "xml"),
    [
        ("x > ]] y", "y ]]> x", "]]>", "]]&gt;"),
        ("x > ]] y", "y ]] > x", "]] >", "]] >"),
        ("x >", "> ]]>", "> ]]>", "> ]]&gt;"),
        ("x ]]&#62; y >", "x ]]> y >", "]]&#62;", "]]&#62;"),
    ],
)
def test_in_xml_no_text_becomes_the_end_of_cdata(source, translation, html, xml):
    assert html in translated(source, translation, [], "html")
    assert xml in translated(source, translation, [], "xml")


@pytest.mark.parametrize("marks", [300, 5000])
def test_many_tags_are_nested_too(marks):
    for markup in ("<b>" * marks + "x</b> y" + "</b>" * (marks - 1), "<b>x</b> " * marks + "y"):
        output = translated(markup, "eins zwei drei", [])
        depth = np.cumsum([1 if tag == "<b>" else -1 for tag in re.findall("</?b>", output)])
        assert (len(depth), depth.min(), depth[-1]) == (2 * marks, 0, 0)
        assert re.sub("<[^>]*>", "", output).split() == ["eins", "zwei", "drei"]


@pytest.mark.parametrize(
    "markup", ["{}x", "a {} b", "<u>a {}b</u>", "{}a<i>{}</i>b"], ids=["begin", "amid", "in", "two"]
)
def test_work_on_unclosed_tags_is_linear(markup):
    def work(count):
        text = markup.replace("{}", "<b>" * count)
        return work_of(lambda: translated(text, "eins zwei", []))

    # A search among all orders would take the cube.
    assert work(1600) < 2.3 * work(800)
    assert work(800) < 1_000_000


def test_work_on_a_long_sentence_is_linear():
    def work(count):
        words = "a <b>b</b> ! " * count
        return work_of(lambda: translated(words, words.replace("<b>", "").replace("</b>", ""), []))

    assert work(300) < 2.3 * work(150)
