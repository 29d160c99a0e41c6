import base64
import json
import os
import re

import numpy as np
import pytest

from t2t_keras.bin import t2t_insights
from t2t_keras.decoding.translator import Translator

FAST = "beam_size=2,extra_length=2"
SENTENCE = "A man sleeps in the red house."


@pytest.fixture(scope="module")
def made_before():
    """Translators by what they were made of: each takes seconds to trace."""
    return {}


@pytest.fixture(autouse=True)
def translators(made_before, monkeypatch):
    make = Translator.from_run

    def from_run(output_dir, checkpoint_path, decode_hparams):
        key = (output_dir, checkpoint_path, *sorted(decode_hparams.items()))
        if key not in made_before:
            made_before[key] = make(output_dir, checkpoint_path, decode_hparams)
        return made_before[key]

    monkeypatch.setattr(Translator, "from_run", from_run)


def insights(*arguments):
    t2t_insights.run(["t2t-insights", f"--decode_hparams={FAST}", *map(str, arguments)])


def data_of(page):
    text = page.read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" [^>]*>(.*?)</script>', text)[1])


def test_a_page_and_a_figure_of_a_sentence(random_run, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    page, figure = tmp_path / "new" / "page.html", tmp_path / "figure.png"
    insights(
        f"--output_dir={random_run}",
        f"--sentence={SENTENCE}",
        f"--page={page}",
        f"--figure={figure}",
        "--figure_kind=decoder",
        "--figure_heads=1",
    )
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == (
        f"{page}: 1 sentence, {page.stat().st_size / 1e6:.2f} MB\n"
        f"{figure}: decoder, layer 0, heads 1\n"
    )
    settings = {"return_beams": True, "beam_size": "2", "extra_length": "2"}
    translator = Translator.from_run(str(random_run), "", settings)
    (translation,) = translator.translate([SENTENCE])
    (weights,) = translator.attention([SENTENCE], [translation.text])
    data = data_of(page)
    (sentence,) = data["sentences"]
    assert sentence["source"] == SENTENCE
    found = [
        (" ".join(text for text, _ in hypothesis["parts"] if text), hypothesis["score"])
        for hypothesis in sentence["hypotheses"]
    ]
    assert [score for _, score in found] == pytest.approx(
        [hypothesis.score for hypothesis in translation.hypotheses]
    )
    assert len(found) == 2, "the whole beam is shown"
    assert found[0][0] == translation.text
    for kind in ("encoder", "decoder", "cross"):
        packed = sentence["views"][kind]
        steps = np.frombuffer(base64.b64decode(packed["weights"]), "<u2") / data["weightSteps"]
        np.testing.assert_allclose(steps, getattr(weights, kind).ravel(), atol=1e-4)


def test_a_file_of_sentences(random_run, tmp_path, capsys):
    source = tmp_path / "in.txt"
    source.write_text("The dog eats.\n\nA man\n")
    insights(
        f"--output_dir={random_run}",
        f"--sentences_from_file={source}",
        f"--page={tmp_path / 'page.html'}",
    )
    printed = capsys.readouterr().out
    assert "1 blank lines are left out.\n" in printed
    assert "2 sentences" in printed
    found = data_of(tmp_path / "page.html")["sentences"]
    assert [sentence["source"] for sentence in found] == ["The dog eats.", "A man"]
    assert [len(sentence["hypotheses"]) for sentence in found] == [2, 2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Give one of --sentence and --sentences_from_file"),
        (["--sentence=x", "--sentences_from_file=y"], "Give one of"),
        (["--sentences_from_file=nowhere"], "nowhere cannot be read"),
        (["--sentence=\udcff"], "--sentence is not UTF-8"),
        (["--sentence=  "], "nothing to translate: --sentence is blank"),
        (["--sentence=x", "--figure_heads=1"], "--figure_heads .* without --figure"),
        (["--sentence=x", "--figure=a.jpg"], "'a.jpg' says no format"),
        (["--sentence=x", "--figure=a.svg", "--figure_layer=1"], "no layer 1: .* 0 to 0"),
        (["--sentence=x", "--figure=a.svg", "--figure_heads=0,2"], "no head 2: .* 0 to 1"),
        (["--sentence=x", "--figure=a.svg", "--figure_heads=a"], "takes numbers.*'a' came"),
        (["--sentence=x", "--figure=a.svg", "--figure_kind=croos"], "figure_kind"),
        (["--sentences_from_file=TWO", "--figure=a.svg"], "shows one sentence; .* has 2"),
        (["--sentence=x", "--page=TWO/page.html"], "cannot be made"),
        (["--sentence=x", "--page=/proc/page.html"], "Nothing can be written in /proc: "),
        (["--sentence=x", "--figure=/proc/a.svg"], "Nothing can be written in /proc: "),
        (["--sentence=x", "--page=PIPE"], "--page .*: name a file, not '.*pipe'"),
        (["--sentence=x", "--page=-"], "--page .*: name a file, not '-'"),
        (["--sentences_from_file=ONE", "--page=ONE"], "write over .*one.txt, which is read"),
        (["--sentences_from_file=ONE", "--figure=LINK"], "write over .*one.txt, which is read"),
        (["--sentence=x", "--page=NEW", "--figure=NEW"], "write over .*new.svg, another output"),
        (["--sentence=x", "--page=FOLDER"], "is a directory"),
    ],
)
def test_errors_are_one_message_before_the_work(
    random_run, tmp_path, capsys, monkeypatch, flags, message
):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    monkeypatch.delattr(Translator, "from_run")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one.txt").write_text("A\n")
    (tmp_path / "two.txt").write_text("A\nB\n")
    (tmp_path / "link.svg").symlink_to("one.txt")
    files = dict(ONE="one.txt", TWO="two.txt", LINK="link.svg", NEW="new.svg", PIPE="pipe")
    files["FOLDER"] = ""
    for name, file in files.items():
        flags = [flag.replace(name, str(tmp_path / file)) for flag in flags]
    with pytest.raises(SystemExit) as caught:
        insights(f"--output_dir={random_run}", *flags)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("t2t-insights: ")
    assert re.search(message, printed.err)
    assert (tmp_path / "one.txt").read_text() == "A\n"
