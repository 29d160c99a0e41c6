"""Shows translations and their attention on an HTML page, and in figures for papers."""

import base64
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.decoding.translation import AttentionWeights, Hypothesis
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.lab.drawing import (
    LIGHT_COLORS,
    changed_words,
    check_format,
    need_matplotlib,
    render,
    save_figure,
)
from t2t_keras.special_ids import SPACE

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.figure import Figure


_SHOWN_SPACE = "\N{OPEN BOX}"  # for a space that stands alone

START = ""
END = "</s>"


@dataclasses.dataclass(frozen=True)
class ShownPiece:
    """A piece as readers see it."""

    text: str  # The piece without the mark of the space before it.
    joined: bool  # Whether it continues the word of the previous piece.
    special: bool  # Whether it marks the start or end of the sentence, and is not text.


def shown_pieces(pieces: Sequence[str]) -> list[ShownPiece]:
    """Returns the pieces of one sentence for readers.

    START as the first piece is the decoder's start; END as the last piece is EOS.
    """
    result: list[ShownPiece] = []
    for number, piece in enumerate(pieces):
        # Anywhere but at the end, END is ordinary text.
        if (number, piece) in ((0, START), (len(pieces) - 1, END)):
            result.append(ShownPiece(piece or "start", joined=False, special=True))
            continue
        begins_word = piece.startswith(SPACE) or not result or result[-1].special
        text = piece.removeprefix(SPACE) if piece != SPACE else piece
        result.append(ShownPiece(text.replace(SPACE, _SHOWN_SPACE), not begins_word, special=False))
    return result


# Lengths of dashes and gaps. Heads take all colours with one style, then with the next.
DASHES = ((), (6, 3), (1.5, 2.5), (8, 2.5, 1.5, 2.5))


def head_color(head: int) -> str:
    """Returns the colour of a head on white, "#rrggbb"."""
    return LIGHT_COLORS[head % len(LIGHT_COLORS)]


def head_dashes(head: int) -> tuple[float, ...]:
    """Returns the lengths of dashes and gaps in a head's lines; () = solid lines."""
    return DASHES[head // len(LIGHT_COLORS) % len(DASHES)]


KINDS = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """One kind of attention, with its queries and keys as pieces."""

    queries: list[ShownPiece]  # In the decoder, the predicted pieces.
    keys: list[ShownPiece]  # In the decoder's self-attention, the inputs: the start, then pieces.
    weights: np.ndarray  # float32 [layers, heads, queries, keys]


def attention_view(attention: AttentionWeights, kind: str) -> AttentionView:
    """Returns self-attention of the "encoder" or "decoder", or attention to the source: "cross"."""
    source, target = shown_pieces(attention.source), shown_pieces(attention.target)
    if kind == "encoder":
        return AttentionView(source, source, attention.encoder)
    if kind == "cross":
        return AttentionView(target, source, attention.cross)
    inputs = shown_pieces((START, *attention.target[:-1]))
    return AttentionView(target, inputs, attention.decoder)


@dataclasses.dataclass(frozen=True)
class SentenceInsights:
    """A sentence with its translation, the other hypotheses, and the model's attention."""

    source: str
    # Hypotheses of the search, best first, or samples; the first is the translation.
    hypotheses: tuple[Hypothesis, ...]
    # The vocabulary divides the translation into pieces; the search may have used other pieces.
    attention: AttentionWeights


# Few, because attention weights take memory.
_LINES_AT_ONCE = 8
_MAX_PAGE_BYTES = 2**28  # Browsers cannot hold much longer strings.


def sentence_insights(translator: Translator, lines: Sequence[str]) -> Iterator[SentenceInsights]:
    """Translates lines, none of them blank; yields each with its hypotheses and attention.

    With `return_beams` in the translator's settings, all hypotheses are included.

    Raises:
      UserError: a sentence, its translation or their page is too long; the translator is an
        ensemble, or the model computes NaN.
    """
    config = translator.models[0].config
    lengths = [len(part.ids) for line in translator.prepare(lines) for part in line.parts]
    # See `attention_page`; translations are assumed to be as long as sources.
    encoders, decoders = config.depths()
    size = 8 / 3 * (encoders + 2 * decoders) * config.num_heads * sum(n**2 for n in lengths)
    if size > _MAX_PAGE_BYTES:
        raise UserError(
            f"Expected sentences for a page of at most {_MAX_PAGE_BYTES / 1e6:.0f} MB, got "
            f"{len(lines):,} for about {size / 1e6:,.0f} MB. Give fewer or shorter ones.",
            code="too_long",
        )
    translations = translator.translate(lines)
    for start in range(0, len(lines), _LINES_AT_ONCE):
        batch = slice(start, start + _LINES_AT_ONCE)
        texts = [translation.text for translation in translations[batch]]
        hypotheses = [translation.hypotheses for translation in translations[batch]]
        attentions = translator.attention(lines[batch], texts)
        yield from map(SentenceInsights, lines[batch], hypotheses, attentions)


# The page stores weights as multiples of 1 / _WEIGHT_STEPS, more exactly than it shows them.
_WEIGHT_STEPS = 10_000


def attention_page(sentences: Iterable[SentenceInsights]) -> str:
    """Returns the page, one string of HTML with its style, script and data.

    Weights have four decimals and take 2 2/3 bytes each: a sentence and a translation of 30 pieces
    each, 6 layers and 8 heads take 350 kB.
    """
    sentences_data = list(map(_sentence_data, sentences))
    data = {
        "sentences": sentences_data,
        "colors": len(LIGHT_COLORS),
        "weightSteps": _WEIGHT_STEPS,
    }
    views = sentences_data[0]["views"]
    return render(
        "attention.html",
        scripts=True,
        title="Attention",
        data=data,
        num_layers={kind: view["layers"] for kind, view in views.items()},
        num_heads=views["cross"]["heads"],
        head_dashes=head_dashes,
    )


def _sentence_data(sentence: SentenceInsights) -> dict[str, Any]:
    best = sentence.hypotheses[0].text
    return {
        "source": sentence.source,
        "hypotheses": [
            {"score": hypothesis.score, "parts": [*changed_words(best, hypothesis.text)]}
            for hypothesis in sentence.hypotheses
        ],
        "views": {kind: _view_data(attention_view(sentence.attention, kind)) for kind in KINDS},
    }


def _view_data(view: AttentionView) -> dict[str, Any]:
    layers, heads = view.weights.shape[:2]
    steps = np.rint(view.weights * _WEIGHT_STEPS).astype("<u2")
    return {
        "reads": list(map(dataclasses.asdict, view.queries)),
        "read": list(map(dataclasses.asdict, view.keys)),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }


FORMATS = (".png", ".svg", ".pdf")

# Lengths in points, 1/72 inch, which are also the units of the drawing.
_WORD_WIDTH = 13.0
_ROW_DISTANCE = 120.0
_MAX_THICKNESS = 2.4
_HEADS_SPREAD = 8.0
_FONT_SIZE = 9.0
_GRAY = "#62605a"
_MIN_WEIGHT = 0.02
_DOTS_PER_INCH = 300


def check_figure(path: str | Path, shape: Sequence[int], layer: int, heads: Sequence[int]) -> None:
    """Checks, before any work, that a model of `shape` (layers, heads) can have this figure.

    Raises:
      UserError: matplotlib is not installed, the name's ending is not in FORMATS, there is no such
        layer or head, or a head is given twice.
    """
    need_matplotlib()
    check_format(path, FORMATS)
    num_layers, num_heads = shape[:2]
    if not 0 <= layer < num_layers:
        raise UserError(f"The layer must be 0 to {num_layers - 1}, got {layer}.", code="bad_value")
    if not heads or len(set(heads)) < len(heads) or not set(heads) <= set(range(num_heads)):
        head_list = ",".join(map(str, heads)) or "none"
        raise UserError(
            f"Heads must be 0 to {num_heads - 1}, each at most once; got {head_list}.",
            code="bad_value",
        )


def write_figure(path: str | Path, view: AttentionView, layer: int, heads: Sequence[int]) -> str:
    """Draws one layer: queries in a row above, keys in a row below.

    The thickness of a line shows its weight; weights under 0.02 have no line. Each head has its
    colour. Layers and heads are counted from 0, see `check_figure`.

    Returns:
      The characters that the font lacks, which the figure shows as boxes.

    Raises:
      UserError: the file cannot be written.
    """
    options = {"dpi": _DOTS_PER_INCH, "bbox_inches": "tight", "pad_inches": 0.03}
    return save_figure(path, lambda: _drawing(view, layer, heads), **options)


def _drawing(view: AttentionView, layer: int, heads: Sequence[int]) -> "Figure":
    """Returns the matplotlib figure, without pyplot's global state."""
    from matplotlib.figure import Figure

    width = _WORD_WIDTH * max(len(view.queries), len(view.keys))
    figure = Figure(figsize=(width / 72, _ROW_DISTANCE / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, _ROW_DISTANCE))
    axes.set_axis_off()
    _draw_words(axes, view.queries, _ROW_DISTANCE, direction=1)
    _draw_words(axes, view.keys, 0.0, direction=-1)
    for number, head in enumerate(heads):
        spacing = min(2.0, _HEADS_SPREAD / max(1, len(heads) - 1))
        shift = (number - (len(heads) - 1) / 2) * spacing
        _draw_head(axes, view.weights[layer, head], head, shift)
    return figure


def _draw_words(
    axes: "matplotlib.axes.Axes", pieces: Sequence[ShownPiece], y: float, direction: int
) -> None:
    for number, piece in enumerate(pieces):
        x = _WORD_WIDTH * (number + 0.5)
        axes.text(
            x,
            y + direction * 5,
            piece.text,
            rotation=90,
            rotation_mode="anchor",
            horizontalalignment="left" if direction > 0 else "right",
            verticalalignment="center",
            fontsize=_FONT_SIZE,
            color=_GRAY if piece.special else "black",
            style="italic" if piece.special else "normal",
            parse_math=False,  # "$" is a piece like any other.
        )
        if piece.joined:
            # Join the pieces of one word by a line.
            ends = x - _WORD_WIDTH, x
            axes.hlines(y + direction * 2.5, *ends, color=_GRAY, linewidth=0.8, clip_on=False)


def _draw_head(axes: "matplotlib.axes.Axes", weights: np.ndarray, head: int, shift: float) -> None:
    from matplotlib.collections import LineCollection

    queries, keys = np.nonzero(weights >= _MIN_WEIGHT)
    query_x, key_x = (_WORD_WIDTH * (words + 0.5) + shift for words in (queries, keys))
    axes.add_collection(
        LineCollection(
            [[(top, _ROW_DISTANCE), (low, 0.0)] for top, low in zip(query_x, key_x, strict=True)],
            linewidths=_MAX_THICKNESS * weights[queries, keys],
            colors=head_color(head),
            linestyles=(0, head_dashes(head)) if head_dashes(head) else "solid",
            alpha=0.9,
            gid=f"head-{head}",
            clip_on=False,
        ),
        autolim=False,
    )
