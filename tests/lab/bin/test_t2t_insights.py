"""The page and the figure that the command writes, and what it refuses before the work."""

import base64
import json
import re

import numpy as np
import pytest

from t2t_keras.decoding.translator import Translator
from t2t_keras.lab.bin import t2t_insights

SENTENCE = "A man sleeps in the red house."
SETTINGS = {"return_beams": True, "beam_size": "2", "extra_length": "2"}


@pytest.fixture(scope="module")
def translator(random_run):
    return Translator.from_run(random_run, "", SETTINGS)


@pytest.fixture
def insights(random_run, translator, monkeypatch):
    """insights(flag, ...): runs the command with one translator, which takes seconds to trace."""

    def from_run(*arguments):
        assert arguments == (str(random_run), "", SETTINGS)
        return translator

    monkeypatch.setattr(Translator, "from_run", from_run)
    flags = f"--output_dir={random_run}", "--decode_hparams=beam_size=2,extra_length=2"
    return lambda *more: t2t_insights.run(["t2t-insights", *flags, *map(str, more)])


def data_of(page):
    text = page.read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" [^>]*>(.*?)</script>', text)[1])


def test_a_page_and_a_figure_of_a_sentence(insights, translator, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    page, figure = tmp_path / "new" / "page.html", tmp_path / "figure.png"
    files = f"--page={page}", f"--figure={figure}"
    insights(f"--sentence={SENTENCE}", *files, "--figure_kind=decoder", "--figure_heads=1")
    assert figure.read_bytes().startswith(b"\x89PNG")
    of_page, of_figure = capsys.readouterr().out.splitlines()
    assert of_page.startswith(f"{page}: 1 ")
    assert of_page.endswith(f" {page.stat().st_size / 1e6:.2f} MB")
    assert of_figure.startswith(f"{figure}: decoder, ")
    assert re.findall(r" \d+", of_figure) == [" 0", " 1"], "the layer and the head"
    (translation,) = translator.translate([SENTENCE])
    (weights,) = translator.attention([SENTENCE], [translation.text])
    data = data_of(page)
    (sentence,) = data["sentences"]
    assert sentence["source"] == SENTENCE
    scores = [hypothesis["score"] for hypothesis in sentence["hypotheses"]]
    assert scores == pytest.approx([hypothesis.score for hypothesis in translation.hypotheses])
    assert len(scores) == 2, "the whole beam is shown"
    assert sentence["hypotheses"][0]["parts"] == [[translation.text, False]]
    for kind in ("encoder", "decoder", "cross"):
        packed = base64.b64decode(sentence["views"][kind]["weights"])
        actual = np.frombuffer(packed, "<u2") / data["weightSteps"]
        np.testing.assert_allclose(actual, getattr(weights, kind).ravel(), atol=1e-4)


def test_several_sentences(insights, tmp_path, refused, random_run, monkeypatch):
    sentences = ["A dog eats.", "The house, red."]
    flags = [f"--sentence={sentence}" for sentence in sentences]
    insights(*flags, f"--page={tmp_path / 'page.html'}")
    data = data_of(tmp_path / "page.html")
    assert [sentence["source"] for sentence in data["sentences"]] == sentences
    written = []
    monkeypatch.setattr(t2t_insights, "write_atomically", lambda path, _: written.append(path))
    insights(flags[0])
    assert written == [random_run / "insights.html"]
    flags += [f"--output_dir={random_run}", "--figure=a.svg"]
    refused("conflicting_settings --figure --sentence 2", "t2t-insights", *flags)


def test_a_file_of_sentences(insights, tmp_path, capsys, refused, random_run):
    source, page = tmp_path / "in.txt", tmp_path / "page.html"
    source.write_text("The dog eats.\n\n" + "A man\n" * 8)
    insights(f"--sentences_from_file={source}", f"--page={page}")
    of_blank, of_page = capsys.readouterr().out.splitlines()
    assert of_blank.endswith(" 1")
    assert of_page.startswith(f"{page}: 9 ")
    actual = [sentence["source"] for sentence in data_of(page)["sentences"]]
    assert actual == ["The dog eats.", *["A man"] * 8]
    source.write_text(("a " * 512 + "\n") * 65)
    flags = [f"--output_dir={random_run}", "--decode_hparams=beam_size=2,extra_length=2"]
    flags += [f"--sentences_from_file={source}", f"--page={page}"]
    refused("too_long 65 273", "t2t-insights", *flags)
