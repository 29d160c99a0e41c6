"""Scores of translations as they appear: each once, and again where what they depend on changed."""

import json
import re
import types

import pytest
import sacrebleu
from refusals import refused

from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.decoding.translation import Translation
from t2t_keras.evaluation.follow import model_scorer, score_all
from t2t_keras.evaluation.results import read_results
from t2t_keras.metrics import bleu
from t2t_keras.training.checkpoint_files import PollPolicy

HYPOTHESES = ["The cat sat , on the mat .", "It is raining ( again ) ."]
REFERENCES = ["the cat is on the mat .", "It rains ( again ) ."]
BLEU = round(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, 3)
CHRF = round(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score, 3)


def translate(folder, step, lines, end="", **settings):
    """Writes what t2t-translate-all does."""
    (folder / f"news-{step}").write_text("".join(f"{line}{end}\n" for line in lines))
    (folder / "news.json").write_text(json.dumps(settings))


def test_each_step_once_in_order(tmp_path, capsys):
    translate(tmp_path, 10, REFERENCES)
    translate(tmp_path, 5, HYPOTHESES)
    for other in ("other-1", "news.en-1"):
        (tmp_path / other).touch()

    def score(**options):
        options = {"source": "any/news", "event_dir": tmp_path / "curve"} | options
        return score_all(tmp_path, REFERENCES, bleu, {}, **options)

    assert score() == [5, 10]
    printed = capsys.readouterr().out
    assert printed.index(f"{tmp_path / 'news-5'}:\nBLEU|") < printed.index("news-10:\nBLEU|")
    assert f"{tmp_path / 'curve' / 'results.jsonl'}: 2 " in printed
    results = read_results(tmp_path / "curve" / "results.jsonl")
    actual = [(result.split, result.steps, result.bleu, result.chrf) for result in results]
    assert actual == [("news", 5, BLEU, CHRF), ("news", 10, 100, 100)]
    assert len(list((tmp_path / "curve").glob("events*"))) == 1
    translate(tmp_path, 20, HYPOTHESES)
    translate(tmp_path, 30, HYPOTHESES)
    assert score(min_steps=30) == [30]
    assert score() == [20]
    assert score() == []
    counts = re.findall(r"results\.jsonl: (\d+) ", capsys.readouterr().out)
    assert counts == ["2", "3", "3", "4", "4", "4"]


def test_what_changes_a_score_counts(tmp_path):
    def score(references=REFERENCES, **score_settings):
        return score_all(tmp_path, references, bleu, score_settings)

    translate(tmp_path, 5, HYPOTHESES)
    assert [score(), score()] == [[5], []]
    assert [score(lowercase=True), score(lowercase=True)] == [[5], []]
    assert [score(HYPOTHESES), score(HYPOTHESES)] == [[5], []]
    for settings in (dict(alpha=1.0), dict(text="news, in full")):
        translate(tmp_path, 5, HYPOTHESES, **settings)
        assert [score(), score()] == [[5], []]
    results = read_results(tmp_path / "results.jsonl")
    assert [result.bleu for result in results] == [BLEU, BLEU, 100, BLEU, BLEU]


def test_names_of_any_bytes(tmp_path, capsys):
    """They are shown and recorded so that they stay the same and control no terminal."""
    (tmp_path / "n\udcff-5").write_text("\n".join(REFERENCES))
    (tmp_path / "n\udcff.json").write_text(json.dumps({"text": "\x1b[2J"}))
    actual = [score_all(tmp_path, REFERENCES, bleu, {}) for _ in range(2)]
    assert actual == [[5], []]
    assert r"n\udcff-5, \x1b[2J:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "settings"),
    [("\tanother\tone", {"return_beams": True}), ("\t-1.5", {"write_beam_scores": True})],
)
def test_the_first_translation_is_waited_for(tmp_path, capsys, end, settings):
    def appear(_):
        translate(tmp_path, 5, REFERENCES, end, text="news, in full", **settings)

    policy = PollPolicy(wait_minutes=1e-3, poll_seconds=0.01, sleep=appear)
    assert score_all(tmp_path, REFERENCES, bleu, {}, policy=policy) == [5]
    [result] = read_results(tmp_path / "results.jsonl")
    # The first hypothesis of each line is scored.
    assert (result.bleu, result.text) == (100, "news, in full")
    assert f"{tmp_path / 'news-5'}, news, in full:\nBLEU" in capsys.readouterr().out


def test_the_sample_is_short_and_spread_evenly(monkeypatch):
    class Translator:
        def __init__(self, *_, problem):
            self.problem = problem

        def translate(self, sources):
            return [Translation(f"{text}!\n", 0.0) for text in sources]

    monkeypatch.setattr("t2t_keras.evaluation.follow.Translator", Translator)
    config = types.SimpleNamespace(problem=make_problem("translate_ende"), vocabulary=None)

    def sample(*sources):
        text = sources, [f"reference of {source}" for source in sources]
        scorer = model_scorer(None, config, types.SimpleNamespace(text=lambda split: text), "dev")
        score, actual = scorer()
        assert score.bleu == pytest.approx(sacrebleu.corpus_bleu(*expected(text)).score)
        assert (score.main[1], actual) == (scorer()[0].main[1], scorer()[1])
        return [tuple(call) for call in actual]

    def expected(text):
        return [f"{line}! " for line in text[0]], [text[1]]

    long, blank = "long " * 21, " "
    short = [f"line {number}" for number in range(12)]
    every = [line for text in short for line in (text, long, blank)]
    assert sample(*every) == [
        (text, f"{text}! ", f"reference of {text}") for text in (short[2], short[6], short[10])
    ]
    assert [source for source, *_ in sample(long, "one", "two")] == ["one", "two"]
    assert sample(long) == []
    assert [source for source, *_ in sample("long " * 20, long)] == ["long " * 20]


class Parsing(Problem):
    decoding = types.MappingProxyType({"beam_size": 21, "alpha": 0.3})


def test_checkpoints_are_decoded_as_the_problem_is_but_for_what_is_set(monkeypatch):
    decodings = []

    def translator(model, tokenizer, decoding, problem):
        decodings.append((decoding.alpha, decoding.beam_size))

    monkeypatch.setattr("t2t_keras.evaluation.follow.Translator", translator)
    config = types.SimpleNamespace(problem=Parsing(), vocabulary=None)
    generated = types.SimpleNamespace(text=lambda split: ([], []))
    model_scorer(None, config, generated, "dev", "beam_size=2")
    model_scorer(None, config, generated, "dev", "alpha=0.5")
    assert decodings == [(0.3, 2), (0.5, 21)]


@pytest.mark.parametrize(
    ("files", "options", "code", "names"),
    [
        ([], {}, "no_translations", ["--translations_dir"]),
        (["news-5"], {"source": "other"}, "no_translations", ["--translations_dir"]),
        (["news-5"], {"min_steps": 6}, "nothing_to_score", ["news-<step>"]),
        (["news-5", "other-5"], {}, "ambiguous_files", ["news", "other", "--source"]),
        (["trees-5"], {}, "not_text", ["parsing_wsj", "t2t-evalb"]),
    ],
)
def test_refused(tmp_path, files, options, code, names):
    (tmp_path / "trees.json").write_text('{"problem": "parsing_wsj"}')
    for name in files:
        (tmp_path / name).write_text("\n".join(REFERENCES))
    with refused(code, *names):
        score_all(tmp_path, REFERENCES, bleu, {}, **options)
