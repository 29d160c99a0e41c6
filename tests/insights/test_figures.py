import dataclasses
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.insights.figures import check_figure, write_figure
from t2t_keras.insights.views import attention_view, head_color

pytest.importorskip("matplotlib", reason="needs matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view(attention):
    return attention_view(attention(heads=10), "cross")


def drawn_lines(path, head):
    """Attributes of the lines of a head."""
    groups = ElementTree.parse(path).iterfind(f".//{SVG}g[@id='head-{head}']")
    return [line.attrib for group in groups for line in group.iter(f"{SVG}path")]


def test_lines_are_as_thick_as_the_weights(view, tmp_path):
    path = tmp_path / "attention.svg"
    assert write_figure(path, view, 1, [0, 9]) == ""
    for head in (0, 9):
        styles = [each["style"].split("; ") for each in drawn_lines(path, head)]
        styles = [dict(item.split(": ") for item in style) for style in styles]
        weights = view.weights[1, head]
        weights = weights[weights >= 0.02]
        widths = np.array([float(style["stroke-width"]) for style in styles])
        np.testing.assert_allclose(widths / widths.sum(), weights / weights.sum(), rtol=1e-4)
        assert {style["stroke"] for style in styles} == {head_color(head)}
        assert all(("stroke-dasharray" in style) == (head == 9) for style in styles)
    assert not drawn_lines(path, 1)


def test_lines_go_from_the_reader_above_to_what_it_reads_below(view, tmp_path):
    weights = np.zeros_like(view.weights)
    weights[0, 0, 1, 4] = 1.0
    write_figure(tmp_path / "a.svg", dataclasses.replace(view, weights=weights), 0, [0])
    [line] = drawn_lines(tmp_path / "a.svg", 0)
    _, x0, y0, _, x1, y1 = line["d"].split()
    assert float(y0) < float(y1), "SVG counts downwards"
    assert float(x1) - float(x0) == pytest.approx(3 * 13.0, abs=0.01), "from word 1 to word 4"


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
    ("path", "layer", "heads", "named"),
    [
        ("a.svg", 3, [0], "0 to 2, got 3"),
        ("a.svg", -1, [0], "got -1"),
        ("a.svg", 0, [4], "0 to 3.* got 4"),
        ("a.svg", 0, [-1], "got -1"),
        ("a.svg", 0, [1, 1], "got 1,1"),
        ("a.svg", 0, [], "got none"),
        ("a.jpeg", 0, [0], ".png, .svg, .pdf.*'a.jpeg'"),
    ],
)
def test_what_cannot_be_drawn(path, layer, heads, named):
    with pytest.raises(UserError, match=named):
        check_figure(path, (3, 4, 5, 6), layer, heads)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 't2t-keras\[figures\]'"):
        check_figure("a.SVG", (1, 1), 0, [0])
