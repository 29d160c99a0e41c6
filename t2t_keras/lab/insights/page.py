"""Translations and the three attentions of each, on one HTML page that needs no network."""

import base64
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.translation import AttentionWeights, Hypothesis
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.lab.pages import ON_LIGHT, changed_words, render
from t2t_keras.special_ids import SPACE

_SHOWN_SPACE = "\N{OPEN BOX}"  # for a space that stands alone

START = ""
END = "</s>"


@dataclasses.dataclass(frozen=True)
class ShownPiece:
    """A piece as it is shown."""

    text: str  # Without the sign of the space before it.
    joined: bool  # Whether it continues the word of the piece before it.
    special: bool  # Whether it stands for no text: the start, or the end of sentence.


def shown_pieces(pieces: Sequence[str]) -> list[ShownPiece]:
    """Returns how the pieces of one sentence, as the vocabulary spells them, are shown.

    START is the start that a decoder reads where it is the first, END the end where it is the last.
    """
    shown: list[ShownPiece] = []
    for number, piece in enumerate(pieces):
        # In the middle, END is what the vocabulary makes of a text like it, hence text.
        if (number, piece) in ((0, START), (len(pieces) - 1, END)):
            shown.append(ShownPiece(piece or "start", joined=False, special=True))
            continue
        begins_word = piece.startswith(SPACE) or not shown or shown[-1].special
        text = piece.removeprefix(SPACE) if piece != SPACE else piece
        shown.append(ShownPiece(text.replace(SPACE, _SHOWN_SPACE), not begins_word, special=False))
    return shown


# Lengths of lines and gaps; each is used for as many heads as there are colours.
DASHES = ((), (6, 3), (1.5, 2.5), (8, 2.5, 1.5, 2.5))


def head_color(head: int) -> str:
    """Returns the colour of a head on white, "#rrggbb"."""
    return ON_LIGHT[head % len(ON_LIGHT)]


def head_dashes(head: int) -> tuple[float, ...]:
    """Returns the lengths of the dashes and gaps of a head's lines; none for a whole line."""
    return DASHES[head // len(ON_LIGHT) % len(DASHES)]


KINDS = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """One kind of attention, with the words at both ends of its weights."""

    queries: list[ShownPiece]  # The words that read; in the decoder, each where it is predicted.
    # The words that are read. In the decoder's self-attention these are its inputs: the start and
    # then the words before the one that is predicted.
    keys: list[ShownPiece]
    weights: np.ndarray  # float32 [layers, heads, queries, keys]


def attention_view(attention: AttentionWeights, kind: str) -> AttentionView:
    """Returns "encoder" or "decoder" self-attention, or "cross", of the decoder to the source."""
    source, target = shown_pieces(attention.source), shown_pieces(attention.target)
    if kind == "encoder":
        return AttentionView(source, source, attention.encoder)
    if kind == "cross":
        return AttentionView(target, source, attention.cross)
    inputs = shown_pieces((START, *attention.target[:-1]))
    return AttentionView(target, inputs, attention.decoder)


@dataclasses.dataclass(frozen=True)
class SentenceInsights:
    """A sentence, what the search made of it, and where the model looked."""

    source: str
    # What the search found, best first, or the samples; the first is the translation.
    hypotheses: tuple[Hypothesis, ...]
    # The weights with which the first one's text is predicted, in the pieces that the vocabulary
    # divides it into. A search may have spelled the same text in other pieces.
    attention: AttentionWeights


# Weights take memory: those of a few lines are computed at once.
_LINES_AT_ONCE = 8
_MAX_PAGE_BYTES = 2**28  # Browsers hold no much longer string.


def sentence_insights(translator: Translator, lines: Sequence[str]) -> Iterator[SentenceInsights]:
    """Translates lines, none of them blank, and yields each with its translation's attention.

    All hypotheses are there if the translator's settings say `return_beams`.

    Raises:
      UserError: a sentence or its translation is too long, or their page would be; several models
        translate together, or the model computes NaN.
    """
    config = translator.models[0].config
    lengths = [len(part.ids) for line in translator.read(lines) for part in line.parts]
    # As `attention_page` says, if translations are as long.
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
        some = slice(start, start + _LINES_AT_ONCE)
        texts = [translation.text for translation in translations[some]]
        hypotheses = [translation.hypotheses for translation in translations[some]]
        attentions = translator.attention(lines[some], texts)
        yield from map(SentenceInsights, lines[some], hypotheses, attentions)


# Weights are whole numbers of ten-thousandths in the page: what is shown has fewer decimals.
_WEIGHT_STEPS = 10_000


def attention_page(sentences: Iterable[SentenceInsights]) -> str:
    """Returns the page, one string of HTML with its style, script and data.

    Weights are rounded to four decimals and take 2 2/3 bytes each: a sentence of 30 pieces with 30
    in its translation, 6 layers and 8 heads takes 350 kB.
    """
    data = {
        "sentences": list(map(_sentence, sentences)),
        "colors": len(ON_LIGHT),
        "dashes": DASHES,
        "weightSteps": _WEIGHT_STEPS,
    }
    return render("attention.html", title="Attention", data=data)


def _sentence(sentence: SentenceInsights) -> dict[str, Any]:
    best = sentence.hypotheses[0].text
    return {
        "source": sentence.source,
        "hypotheses": [
            {"score": hypothesis.score, "parts": [*changed_words(best, hypothesis.text)]}
            for hypothesis in sentence.hypotheses
        ],
        "views": {kind: _view(attention_view(sentence.attention, kind)) for kind in KINDS},
    }


def _view(view: AttentionView) -> dict[str, Any]:
    layers, heads = view.weights.shape[:2]
    steps = np.rint(view.weights * _WEIGHT_STEPS).astype("<u2")
    return {
        "queries": list(map(dataclasses.asdict, view.queries)),
        "keys": list(map(dataclasses.asdict, view.keys)),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }
