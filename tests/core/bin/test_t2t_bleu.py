import pytest
import sacrebleu

from t2t_keras.bin import t2t_bleu
from t2t_keras.evaluation.results import read_results
from t2t_keras.metrics import bleu

HYPOTHESES = ["The cat sat , on the mat .", "It is raining ( again ) ."]
REFERENCES = ["the cat is on the mat .", "It rains ( again ) ."]


@pytest.fixture
def files(tmp_path):
    for name, lines in (("news-5", HYPOTHESES), ("references", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return [f"--translation={tmp_path / 'news-5'}", f"--reference={tmp_path / 'references'}"]


def test_prints_both_scores_with_signatures(files, capsys):
    t2t_bleu.run(["t2t-bleu", *files, "--tokenize=none", "--lowercase"])
    assert capsys.readouterr().out == f"{bleu(HYPOTHESES, REFERENCES, 'none', lowercase=True)}\n"


def test_arguments_are_those_of_sacrebleu(files, tmp_path, capsys, refused):
    more_references = [
        ["The cat sat.", "It is raining (again)."],
        ["A cat sat on the mat.", "It rains."],
    ]
    for name, lines in zip("ab", more_references, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    paths = [str(tmp_path / name) for name in ("news-5", "references", "a", "b")]
    t2t_bleu.run(["t2t-bleu", *paths, "--lowercase"])
    references = [REFERENCES, *more_references]
    expected = sacrebleu.corpus_bleu(HYPOTHESES, references, lowercase=True)
    shown = capsys.readouterr().out
    assert "nrefs:3" in shown
    assert f" = {expected.score:.2f} " in shown
    t2t_bleu.run(["t2t-bleu", *paths[:2]])
    assert capsys.readouterr().out == f"{bleu(HYPOTHESES, REFERENCES)}\n"
    refused(f"bad_arguments {paths[0]}", "t2t-bleu", paths[0])
    refused("bad_arguments --reference", "t2t-bleu", *paths[:2], files[1])
    flags = ["--convention=compound_split", "--language=en"]
    refused("bad_arguments compound_split 2", "t2t-bleu", *paths[:3], *flags)


def test_another_convention_is_named(files, capsys):
    t2t_bleu.run(["t2t-bleu", *files, "--convention=compound_split", "--language=en"])
    starts = [line.split("|")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["BLEU", "chrF2", "BLEU (compound_split)"]


def test_a_directory_of_translations(files, tmp_path):
    flags = [f"--translations_dir={tmp_path}", files[1], f"--event_dir={tmp_path / 'curve'}"]
    for more in ([], ["--min_steps=5", "--source=any/news"], ["--lowercase"]):
        t2t_bleu.run(["t2t-bleu", *flags, *more])
    results = read_results(tmp_path / "curve" / "results.jsonl")
    assert [(result.steps, "case:lc" in result.bleu_signature) for result in results] == [
        (5, False),
        (5, True),
    ]
