"""Attention as the paper's Figures 3 to 5 draw it, for papers: PNG, SVG or PDF."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.lab.figures import check_format, need_matplotlib, save_figure
from t2t_keras.lab.insights.page import AttentionView, ShownPiece, head_color, head_dashes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

# All lengths are in points, 1/72 inch, which are the units of the drawing too.
_WORD_WIDTH = 13.0
_BETWEEN_ROWS = 120.0
_THICKEST = 2.4
_HEADS_SPREAD = 8.0
_FONT_SIZE = 9.0
_GRAY = "#62605a"
_LEAST_WEIGHT = 0.02
_DOTS_PER_INCH = 300


def check_figure(path: str | Path, shape: Sequence[int], layer: int, heads: Sequence[int]) -> None:
    """Checks, before the work, that a figure of a model with `shape` layers and heads can be drawn.

    Raises:
      UserError: matplotlib is not installed, the name ends in no format of FORMATS, there is no
        such layer or head, or a head is given twice.
    """
    need_matplotlib()
    check_format(path, FORMATS)
    layers, all_heads = shape[:2]
    if not 0 <= layer < layers:
        raise UserError(f"The layer must be 0 to {layers - 1}, got {layer}.", code="bad_value")
    if not heads or len(set(heads)) < len(heads) or not set(heads) <= set(range(all_heads)):
        given = ",".join(map(str, heads)) or "none"
        raise UserError(
            f"Heads must be 0 to {all_heads - 1}, each at most once; got {given}.", code="bad_value"
        )


def write_figure(path: str | Path, view: AttentionView, layer: int, heads: Sequence[int]) -> str:
    """Draws one layer: the words that read in a row above, the words they read in a row below.

    Lines are as thick as their weights; those under 0.02 are left out. Each head has its colour.
    `layer` and `heads` are counted from 0, as `check_figure` allows them.

    Returns:
      The characters that the font lacks, which the figure shows as boxes.

    Raises:
      UserError: the file cannot be written.
    """
    page = {"dpi": _DOTS_PER_INCH, "bbox_inches": "tight", "pad_inches": 0.03}
    return save_figure(path, lambda: _drawing(view, layer, heads), **page)


def _drawing(view: AttentionView, layer: int, heads: Sequence[int]) -> "Figure":
    """Returns the matplotlib figure; it is no part of pyplot's state."""
    from matplotlib.figure import Figure

    width = _WORD_WIDTH * max(len(view.queries), len(view.keys))
    figure = Figure(figsize=(width / 72, _BETWEEN_ROWS / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, _BETWEEN_ROWS))
    axes.set_axis_off()
    _draw_words(axes, view.queries, _BETWEEN_ROWS, upwards=1)
    _draw_words(axes, view.keys, 0.0, upwards=-1)
    for number, head in enumerate(heads):
        apart = min(2.0, _HEADS_SPREAD / max(1, len(heads) - 1))
        shift = (number - (len(heads) - 1) / 2) * apart
        _draw_head(axes, view.weights[layer, head], head, shift)
    return figure


def _draw_words(axes: "Axes", pieces: Sequence[ShownPiece], y: float, upwards: int) -> None:
    for number, piece in enumerate(pieces):
        x = _WORD_WIDTH * (number + 0.5)
        axes.text(
            x,
            y + upwards * 5,
            piece.text,
            rotation=90,
            rotation_mode="anchor",
            horizontalalignment="left" if upwards > 0 else "right",
            verticalalignment="center",
            fontsize=_FONT_SIZE,
            color=_GRAY if piece.special else "black",
            style="italic" if piece.special else "normal",
            parse_math=False,  # "$" is a piece like any other.
        )
        if piece.joined:
            # Pieces of one word hang on one line.
            ends = x - _WORD_WIDTH, x
            axes.hlines(y + upwards * 2.5, *ends, color=_GRAY, linewidth=0.8, clip_on=False)


def _draw_head(axes: "Axes", weights: np.ndarray, head: int, shift: float) -> None:
    from matplotlib.collections import LineCollection

    queries, keys = np.nonzero(weights >= _LEAST_WEIGHT)
    above, below = (_WORD_WIDTH * (ends + 0.5) + shift for ends in (queries, keys))
    axes.add_collection(
        LineCollection(
            [[(x, _BETWEEN_ROWS), (end, 0.0)] for x, end in zip(above, below, strict=True)],
            linewidths=_THICKEST * weights[queries, keys],
            colors=head_color(head),
            linestyles=(0, head_dashes(head)) if head_dashes(head) else "solid",
            alpha=0.9,
            gid=f"head-{head}",
            clip_on=False,
        ),
        autolim=False,
    )
