"""Sentences with made-up attention, pages of them, and a browser to open the pages in."""

import numpy as np
import pytest
from browser import chromium, opening  # noqa: F401

from t2t_keras.decoding.translation import AttentionWeights, Hypothesis
from t2t_keras.lab.insights import SentenceInsights, attention_page

SOURCE = ("▁two", "▁dogs", "▁play", "ing", "▁.", "</s>")
TARGET = ("▁zwei", "▁spielen", "de", "▁hunde", "</s>")
# What could end the script element, or be read as HTML, or turn the line around.
HOSTILE = (
    '</script><b>"Q"</b> {{attention_page.css}} '
    "& &amp; <!-- \\u003c $x_1$ \u2028 ' שלום 😀 <img src=x onerror=alert(1)>"
)


@pytest.fixture(scope="session")
def attention():
    """attention(source, target, layers, heads): weights as a softmax gives them."""

    def attention(source=SOURCE, target=TARGET, layers=3, heads=8):
        random = np.random.default_rng(len(source))

        def weights(queries, keys, legal=True):
            logits = 2.5 * random.normal(size=(layers, heads, len(queries), len(keys)))
            odds = np.where(legal, np.exp(logits), 0.0)
            return (odds / odds.sum(axis=-1, keepdims=True)).astype(np.float32)

        return AttentionWeights(
            tuple(source),
            tuple(target),
            encoder=weights(source, source),
            decoder=weights(target, target, np.tri(len(target), dtype=bool)),
            cross=weights(target, source),
        )

    return attention


@pytest.fixture(scope="session")
def sentences(attention):
    """Two sentences; the second is hostile."""
    words = tuple(f"▁{word}" for word in HOSTILE.split(" "))
    actual = {"zwei spielende hunde": -0.5, "zwei hunde": -0.75, "zwei spielende katzen": -1.25}
    hypotheses = tuple(Hypothesis(*text_and_score) for text_and_score in actual.items())
    hostile = attention((*words, "</s>"), (*words, "</s>"))
    return [
        SentenceInsights("two dogs playing .", hypotheses, attention()),
        SentenceInsights(HOSTILE, (Hypothesis(HOSTILE, -2.0),), hostile),
    ]


@pytest.fixture
def open_page(browser, sentences, tmp_path):
    """open_page(width, scheme): the browser with the page; at the end, nothing went wrong."""
    path = tmp_path / "page.html"
    path.write_text(attention_page(sentences), "utf-8")
    with opening(browser, path.as_uri()) as open_page:
        yield open_page
