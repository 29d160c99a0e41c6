import sys
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from refusals import refused

from t2t_keras.lab.drawing import save_figure
from t2t_keras.lab.insights import attention_view, check_figure, head_color, write_figure

pytest.importorskip("matplotlib", reason="needs matplotlib")
from matplotlib.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view(attention):
    return attention_view(attention(heads=10), "cross")


def drawn_lines(path, head):
    groups = ElementTree.parse(path).iterfind(f".//{SVG}g[@id='head-{head}']")
    return [line.attrib for group in groups for line in group.iter(f"{SVG}path")]


def test_lines_are_as_thick_as_the_weights(view, tmp_path):
    path = tmp_path / "attention.svg"
    assert write_figure(path, view, 1, [0, 9]) == ""
    # Two ends of sentences are gray, and "ing" and "de" hang on the pieces before them.
    assert [path.read_text().count(f"{kind}: #62605a") for kind in ("fill", "stroke")] == [2, 2]
    starts = []
    for head in (0, 9):
        lines = drawn_lines(path, head)
        styles = [dict(item.split(": ") for item in line["style"].split("; ")) for line in lines]
        weights = view.weights[1, head]
        weights = weights[weights >= 0.02]
        widths = np.array([float(style["stroke-width"]) for style in styles])
        np.testing.assert_allclose(widths, 2.4 * weights, rtol=1e-4)
        assert {style["stroke"] for style in styles} == {head_color(head)}
        assert all(("stroke-dasharray" in style) == (head == 9) for style in styles)
        # From the reader above to what it reads below, a word's width a step; SVG counts downwards.
        steps = np.diff(np.nonzero(view.weights[1, head] >= 0.02), axis=0)[0]
        ends = np.array([[float(x) for x in line["d"].split() if x not in "ML"] for line in lines])
        np.testing.assert_allclose(ends[:, 2] - ends[:, 0], 13.0 * steps, atol=0.01)
        assert (ends[:, 1] < ends[:, 3]).all()
        starts.append(ends[0, 0] - 13.0 * np.nonzero(view.weights[1, head] >= 0.02)[0][0])
    assert starts[1] - starts[0] == pytest.approx(2.0, abs=0.01), "they run beside each other"
    assert not drawn_lines(path, 1)
    write_figure(path, view, 1, range(10))
    first, last = (float(drawn_lines(path, head)[0]["d"].split()[1]) for head in (0, 9))
    words = [np.nonzero(view.weights[1, head] >= 0.02)[0][0] for head in (0, 9)]
    assert last - first - 13 * (words[1] - words[0]) == pytest.approx(8, abs=0.01), "at most"


@pytest.mark.parametrize(
    ("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_same_weights_give_the_same_bytes(view, tmp_path, suffix, begins):
    first, second = (tmp_path / f"{name}.{suffix}" for name in "ab")
    for file in (first, second):
        write_figure(file, view, 0, [1])
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(begins)


def test_any_text_can_stand_in_it(attention, tmp_path):
    words = ("▁$x_1$", "▁</svg>", "▁--", "▁&amp;", "▁שלום", "▁漢", "</s>")
    hostile = attention_view(attention(words, words, layers=1, heads=1), "decoder")
    path = tmp_path / "attention.svg"
    assert write_figure(path, hostile, 0, [0]) == "漢", "what the font lacks is returned"
    ElementTree.parse(path)


@pytest.mark.parametrize(
    ("layer", "heads", "values"),
    [
        (3, [0], "0 2, 3."),
        (-1, [0], "0 2, -1."),
        (0, [4], "0 3, 4."),
        (0, [-1], "0 3, -1."),
        (0, [1, 1], "0 3, 1,1."),
        (0, [], "0 3,"),
    ],
)
def test_layers_and_heads_that_cannot_be_drawn(layer, heads, values):
    with refused("bad_value", *values.split()):
        check_figure("a.svg", (3, 4, 5, 6), layer, heads)


def test_other_warnings_of_matplotlib_are_shown(tmp_path):
    def draw():
        warnings.warn("slow", stacklevel=1)
        return Figure()

    with pytest.warns(UserWarning, match="slow"):
        assert save_figure(tmp_path / "a.svg", draw) == ""


def test_a_format_that_is_not_drawn_and_no_matplotlib(monkeypatch):
    with refused("unknown_extension", ".png, .svg, .pdf", "'a.jpeg'"):
        check_figure("a.jpeg", (1, 1), 0, [0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused("missing_package", "pip install -e '.[plot]'"):
        check_figure("a.SVG", (1, 1), 0, [0])
