"""One HTML page that shows translations and their attention; it needs no network."""

import base64
import dataclasses
import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any

import numpy as np

from t2t_keras.decoding.translation import AttentionWeights, Hypothesis
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.lab.insights.views import (
    DASHES,
    KINDS,
    ON_DARK,
    ON_LIGHT,
    AttentionView,
    attention_view,
)


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


# Files whose names, in double braces, stand in the template for their content.
_PARTS = ("attention_page.css", "attention_drawing.js", "attention_controls.js")
# Weights are whole numbers of ten-thousandths in the page: what is shown has fewer decimals.
_WEIGHT_STEPS = 10_000


def attention_page(sentences: Iterable[SentenceInsights]) -> str:
    """Returns the page, one string of HTML with its style, script and data.

    Weights are rounded to four decimals and take 2 2/3 bytes each: a sentence of 30 pieces with 30
    in its translation, 6 layers and 8 heads takes 350 kB.
    """
    data = {
        "sentences": list(map(_sentence, sentences)),
        "colors": {"light": ON_LIGHT, "dark": ON_DARK},
        "dashes": DASHES,
        "weightSteps": _WEIGHT_STEPS,
    }
    page = _read("attention_page.html")
    for file in _PARTS:
        page = page.replace(f"{{{{{file}}}}}", _read(file))
    # The last: a sentence may hold the other marks.
    return page.replace("{{insights}}", _inside_script(data))


def _read(file: str) -> str:
    return resources.files("t2t_keras.lab.insights").joinpath(file).read_text("utf-8")


def _inside_script(data: Any) -> str:
    """Returns JSON in which nothing can end the script element that it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _sentence(sentence: SentenceInsights) -> dict[str, Any]:
    best = sentence.hypotheses[0].text
    return {
        "source": sentence.source,
        "hypotheses": [
            {"score": hypothesis.score, "parts": _parts(best, hypothesis.text)}
            for hypothesis in sentence.hypotheses
        ],
        "views": {kind: _view(attention_view(sentence.attention, kind)) for kind in KINDS},
    }


def _parts(best: str, text: str) -> list[tuple[str, bool]]:
    """Returns the text cut up, each part with whether it differs from the best hypothesis.

    A part that is empty stands where the best has words and the text has none.
    """
    words = text.split(" ")
    matcher = difflib.SequenceMatcher(a=best.split(" "), b=words, autojunk=False)
    return [
        (" ".join(words[start:end]), operation != "equal")
        for operation, _, _, start, end in matcher.get_opcodes()
    ]


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
