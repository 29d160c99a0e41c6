import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.insights.figures import check_figure_file, check_layer_and_heads, write_figure
from t2t_keras.insights.head_colors import head_color
from t2t_keras.insights.views import attention_view

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view(attention):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    return attention_view(attention(heads=10), "cross")


def style(path):
    return dict(item.split(": ") for item in path.get("style").split("; "))


def test_lines_are_as_thick_as_the_weights(view, tmp_path):
    path = tmp_path / "attention.svg"
    assert write_figure(path, view, 1, [0, 9]) == ""
    tree = ElementTree.parse(path)
    for head in (0, 9):
        (group,) = tree.iterfind(f".//{SVG}g[@id='head-{head}']")
        lines = [style(line) for line in group.iter(f"{SVG}path")]
        weights = view.weights[1, head]
        weights = weights[weights >= 0.02]
        widths = np.array([float(line["stroke-width"]) for line in lines])
        np.testing.assert_allclose(widths / widths.sum(), weights / weights.sum(), rtol=1e-4)
        assert {line["stroke"] for line in lines} == {head_color(head)}
        assert all(("stroke-dasharray" in line) == (head == 9) for line in lines)
    assert not list(tree.iterfind(f".//{SVG}g[@id='head-1']"))


def test_lines_go_from_the_reader_above_to_what_it_reads_below(view, tmp_path):
    weights = np.zeros_like(view.weights)
    weights[0, 0, 1, 4] = weights[0, 0, 4, 1] = 1.0
    path = tmp_path / "attention.svg"
    write_figure(path, type(view)(view.queries, view.keys, weights), 0, [0])
    (group,) = ElementTree.parse(path).iterfind(f".//{SVG}g[@id='head-0']")
    lines = [
        np.array([float(number) for number in line.get("d").split() if number not in "ML"])
        for line in group.iter(f"{SVG}path")
    ]
    (x0, y0, x1, y1), (x2, _, x3, _) = lines
    assert y0 < y1, "SVG counts downwards"
    assert x1 - x0 == pytest.approx(3 * 13.0, abs=0.01), "from the second word to the fifth"
    assert (x2, x3) == pytest.approx((x1, x0), abs=0.01)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_weights_give_the_same_bytes(view, tmp_path, suffix):
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file in files:
        write_figure(file, view, 0, [1])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert (
        files[0]
        .read_bytes()
        .startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    )


def test_any_text_can_stand_in_it(attention, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    words = ("▁$x_1$", "▁</svg>", "▁--", "▁&amp;", "▁שלום", "▁漢", "</s>")
    hostile = attention_view(attention(words, words, layers=1, heads=1), "decoder")
    path = tmp_path / "attention.svg"
    assert write_figure(path, hostile, 0, [0]) == "漢", "what the font lacks is told"
    ElementTree.parse(path)


@pytest.mark.parametrize(
    ("layer", "heads", "message"),
    [
        (3, [0], "no layer 3: .* 0 to 2"),
        (-1, [0], "no layer -1"),
        (0, [4], "no head 4: .* 0 to 3"),
        (0, [-1], "no head -1"),
        (0, [1, 1], "each once; 1,1 came"),
        (0, [], "none came"),
    ],
)
def test_layers_and_heads_that_are_not_there(layer, heads, message):
    with pytest.raises(UserError, match=message):
        check_layer_and_heads((3, 4, 5, 6), layer, heads)


def test_a_name_without_a_format(view):
    with pytest.raises(UserError, match=r"'a.jpeg' says no format .* .png, .svg or .pdf"):
        check_figure_file("a.jpeg")
    check_figure_file("a.SVG")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 't2t-keras\[figures\]'"):
        check_figure_file("a.svg")
