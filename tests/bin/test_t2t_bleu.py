import json

import pytest
import sacrebleu

from t2t_keras.bin import t2t_bleu
from t2t_keras.evaluation.bleu import bleu
from t2t_keras.evaluation.score_all import score_all
from t2t_keras.tables.results import read_results
from t2t_keras.training.following import Patience

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
    bleu_line, chrf_line = capsys.readouterr().out.splitlines()
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize="none", lowercase=True)
    version = sacrebleu.__version__
    signature = f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:{version}"
    assert bleu_line.startswith(f"BLEU|{signature} = {expected.score:.2f} ")
    chrf = sacrebleu.CHRF(lowercase=True).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert chrf_line.startswith("chrF2|nrefs:1|case:lc|")
    assert chrf_line.endswith(f" = {chrf:.2f}")


def test_another_convention_is_named(files, capsys):
    t2t_bleu.run(["t2t-bleu", *files, "--convention=compound_split", "--language=en"])
    starts = [line.split("|")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["BLEU", "chrF2", "BLEU (compound_split)"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reference=x"], "Please give --translation"),
        (["--translation=FILES", "--reference=nowhere"], "nowhere cannot be read"),
        (["FILES", "--convention=tokenised"], "give that of the translations"),
        (["FILES", "--convention=tokenized"], "Did you mean 'tokenised'"),
        (
            ["FILES", "--convention=tokenised", "--language=de", "--tokenize=none"],
            "--convention=tokenised takes plain text",
        ),
        (["--translations_dir=x", "FILES"], "exclude each other"),
        (["FILES", "--min_steps=1"], "--min_steps have no meaning without --translations_dir"),
        (["--translations_dir=nowhere", "--reference=FILES"], "There are no translations <name>-"),
        (["FILES", "--tokenize=13"], "There is no tokenisation '13'. Did you mean '13a'"),
    ],
)
def test_errors_are_one_message(files, capsys, flags, message):
    translation = files[0].partition("=")[2]
    given = [each for flag in flags for each in (files if flag == "FILES" else [flag])]
    with pytest.raises(SystemExit) as caught:
        t2t_bleu.run(["t2t-bleu", *[flag.replace("FILES", translation) for flag in given]])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_different_numbers_of_lines(files, tmp_path, capsys):
    (tmp_path / "references").write_text("one\n")
    with pytest.raises(SystemExit):
        t2t_bleu.run(["t2t-bleu", *files])
    assert "2 translations cannot be scored against 1 references" in capsys.readouterr().err


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

    patience = Patience(wait_minutes=1e-3, poll_seconds=0.01, sleep=translate)
    assert score_all(tmp_path, REFERENCES, bleu, {}, source=source, patience=patience) == [5]
    [result] = read_results(tmp_path / "results.jsonl")
    assert (result.bleu, result.text) == (100, "news, in full")
    assert f"{tmp_path / 'news-5'}, news, in full:\nBLEU" in capsys.readouterr().out


def test_the_files_of_a_directory_each_once(files, tmp_path, capsys):
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
    with pytest.raises(SystemExit):
        t2t_bleu.run(["t2t-bleu", *flags])
    assert "There are translations of news, other in" in capsys.readouterr().err
