import json

import pytest
import sacrebleu

from t2t_keras.bin import t2t_bleu
from t2t_keras.evaluation.follow import score_all
from t2t_keras.evaluation.results import read_results
from t2t_keras.metrics.bleu import bleu
from t2t_keras.training.checkpoints.watch import PollPolicy

HYPOTHESES = ["The cat sat , on the mat .", "It is raining ( again ) ."]
REFERENCES = ["the cat is on the mat .", "It rains ( again ) ."]


@pytest.fixture
def files(tmp_path):
    hypotheses, references = tmp_path / "hypotheses", tmp_path / "references"
    hypotheses.write_text("".join(f"{line}\n" for line in HYPOTHESES))
    references.write_text("".join(f"{line}\n" for line in REFERENCES))
    return f"--translation={hypotheses}", f"--reference={references}"


def test_prints_both_scores_with_signatures(files, capsys):
    t2t_bleu.run(["t2t-bleu", *files, "--tokenize=none", "--lowercase"])
    assert capsys.readouterr().out == f"{bleu(HYPOTHESES, REFERENCES, 'none', lowercase=True)}\n"


def test_another_convention_is_named(files, capsys):
    t2t_bleu.run(["t2t-bleu", *files, "--convention=compound_split", "--language=en"])
    starts = [line.split("|")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["BLEU", "chrF2", "BLEU (compound_split)"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--reference=x"], "--translation"),
        (["BOTH", "--reference=nowhere"], "nowhere"),
        (["BOTH", "--reference=TMP/short"], "2 translations and 1 references"),
        (["BOTH", "--convention=tokenised"], "language"),
        (["BOTH", "--convention=tokenized"], "'tokenised'"),
        (["BOTH", "--convention=tokenised", "--language=de", "--tokenize=none"], "--tokenize"),
        (["BOTH", "--translations_dir=x"], "--translation or --translations_dir"),
        (["BOTH", "--min_steps=1"], "--min_steps"),
        (["--translations_dir=nowhere", "--reference=TMP/references"], "nowhere"),
        (["BOTH", "--tokenize=13"], "'13a'"),
    ],
)
def test_errors_are_one_message(files, tmp_path, refused, flags, named):
    (tmp_path / "short").write_text("one\n")
    given = " ".join(flags).replace("BOTH", " ".join(files)).replace("TMP", str(tmp_path))
    assert named in refused("t2t-bleu", *given.split())


def test_what_made_the_translations_counts(files, tmp_path):
    def translate(**settings):
        several = settings.get("return_beams")
        lines = [f"{line}\tanother\n" if several else f"{line}\n" for line in HYPOTHESES]
        (folder / "news-5").write_text("".join(lines))
        (folder / "news.json").write_text(json.dumps(settings))

    folder = tmp_path / "translations"
    folder.mkdir()
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    for settings in ({"alpha": 0.6}, {"alpha": 0.6, "return_beams": True}, {"alpha": 1.0}):
        translate(**settings)
        for _ in range(2):
            t2t_bleu.run(["t2t-bleu", f"--translations_dir={folder}", files[1]])
    found = [result.bleu for result in read_results(folder / "results.jsonl")]
    assert found == [pytest.approx(expected, abs=1e-3)] * 3


@pytest.mark.parametrize("source", ["", "any/news"])
def test_the_first_translation_is_waited_for(tmp_path, source, capsys):
    def translate(_):
        (tmp_path / "news.json").write_text('{"write_beam_scores": true, "text": "news, in full"}')
        (tmp_path / "news-5").write_text("".join(f"{line}\t-1.5\n" for line in REFERENCES))

    policy = PollPolicy(wait_minutes=1e-3, poll_seconds=0.01, sleep=translate)
    assert score_all(tmp_path, REFERENCES, bleu, {}, source=source, policy=policy) == [5]
    [result] = read_results(tmp_path / "results.jsonl")
    assert (result.bleu, result.text) == (100, "news, in full")
    assert f"{tmp_path / 'news-5'}, news, in full:\nBLEU" in capsys.readouterr().out


def test_the_files_of_a_directory_each_once(files, tmp_path, capsys, refused):
    folder, results = tmp_path / "translations", tmp_path / "curve" / "results.jsonl"
    folder.mkdir()
    for step, lines in ((5, HYPOTHESES), (10, REFERENCES)):
        (folder / f"news-{step}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "news.json").write_text("{}")
    flags = [f"--translations_dir={folder}", files[1], f"--event_dir={tmp_path / 'curve'}"]
    t2t_bleu.run(["t2t-bleu", *flags])
    printed = capsys.readouterr().out
    assert printed.index(f"{folder / 'news-5'}:\nBLEU|") < printed.index(f"{folder / 'news-10'}:")
    found = [(result.split, result.steps, result.bleu) for result in read_results(results)]
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert found == [("news", 5, pytest.approx(expected, abs=1e-3)), ("news", 10, 100.0)]
    (folder / "news-20").write_text((folder / "news-5").read_text())
    t2t_bleu.run(["t2t-bleu", *flags])
    assert [result.steps for result in read_results(results)] == [5, 10, 20]
    # Scored in another way, all are scored again.
    t2t_bleu.run(["t2t-bleu", *flags, "--lowercase", "--min_steps=10", "--source=any/news"])
    assert [result.steps for result in read_results(results)] == [5, 10, 20, 10, 20]
    (folder / "other-5").touch()
    assert "news, other" in refused("t2t-bleu", *flags)
