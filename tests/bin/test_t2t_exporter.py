import re
import types

import pytest
import sacrebleu
import tensorflow as tf

from t2t_keras.bin import t2t_exporter
from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.stored_weights import rounded_weights
from t2t_keras.tables.results import append_result
from t2t_keras.tables.run_result import run_result
from t2t_keras.training.run_record import RunRecord

LINES = ["A man sleeps.", "", "The dog eats in the red house."]


def test_exports_the_newest_checkpoint(random_run, tmp_path, capsys):
    results, record = tmp_path / "results.jsonl", RunRecord.load(random_run)
    for steps, bleu in ((20, 11.0), (30, 12.34)):
        score = types.SimpleNamespace(bleu=bleu, bleu_signature="nrefs:1")
        search = {"beam_size": 4, "alpha": 0.6, "ensemble": []}
        checkpoint = random_run / f"model.ckpt-{steps}"
        append_result(results, run_result(record, checkpoint, "test", score, search))
    settings = "beam_size=3,extra_length=2"
    t2t_exporter.run(
        [
            "t2t-exporter",
            f"--output_dir={random_run}",
            f"--export_dir={tmp_path / 'export'}",
            f"--decode_hparams={settings}",
            "--dtype=bfloat16",
            f"--results_file={results}",
        ]
    )
    (version,) = (tmp_path / "export").iterdir()
    output = capsys.readouterr().out
    assert f"{version}: SavedModel" in output
    measured = (
        r"dev: \S+ BLEU with weights as bfloat16, \S+ as float32 "
        r"\(beam 3, alpha 0.6; [+-]\S+; sacrebleu nrefs:1"
    )
    assert re.search(measured, output)
    readme = (version / "README.md").read_text("utf-8")
    assert re.search(measured, readme)
    for line in (
        "problem: parallel_text",
        "steps: 30",
        "weights: bfloat16",
        "test: 12.34 BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1)",
    ):
        assert line in readme
    assert "11.00" not in readme
    translator = Translator.from_run(random_run, random_run / "model.ckpt-30", settings)
    (model,) = translator.models
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    texts = [text.decode() for text in serve(text=tf.constant(LINES))["translation"].numpy()]
    with rounded_weights(model.weights, "bfloat16"):
        assert texts == [translation.text for translation in translator.translate(LINES)]


def test_what_cannot_be_measured_is_said(random_run, tmp_path, capsys, monkeypatch):
    exported = []
    monkeypatch.setattr(
        "t2t_keras.serving.export.export", lambda *_, **settings: exported.append(settings)
    )
    t2t_exporter.run(["t2t-exporter", f"--output_dir={random_run}", "--dtype=int8", "--nomeasure"])
    line = "what weights as int8 lose was not measured"
    assert line in capsys.readouterr().out
    assert exported[0]["origin"].scores == (line,)
    with pytest.raises(SystemExit):
        t2t_exporter.run(
            ["t2t-exporter", f"--output_dir={random_run}", f"--data_dir={tmp_path / 'none'}"]
        )
    assert "There is no generated data" in capsys.readouterr().err


def test_the_dev_set_is_scored_on_request(random_run, tmp_path, capsys, monkeypatch):
    exported = []
    monkeypatch.setattr(
        "t2t_keras.serving.export.export", lambda *_, **settings: exported.append(settings)
    )
    common = ["t2t-exporter", f"--output_dir={random_run}", f"--results_file={tmp_path / 'none'}"]
    settings = "beam_size=2,extra_length=2"
    t2t_exporter.run([*common, "--measure", f"--decode_hparams={settings}"])
    translator = Translator.from_run(random_run, random_run / "model.ckpt-30", settings)
    folder = random_run.parent
    sources, references = (
        (folder / f"dev.{language}").read_text("utf-8").splitlines() for language in ("en", "de")
    )
    found = [translation.text for translation in translator.translate(sources)]
    score = sacrebleu.corpus_bleu(found, [references]).score
    (line,) = exported[0]["origin"].scores
    how = "beam 2, alpha 0.6; sacrebleu nrefs:1|case:mixed"
    assert line.startswith(f"dev: {score:.2f} BLEU ({how}")
    assert line in capsys.readouterr().out
    t2t_exporter.run(common)
    assert "--measure measures one" in capsys.readouterr().out
    assert exported[1]["origin"].scores == ()


def test_what_cannot_be_exported_is_refused_before_anything_is_measured(
    random_run, capsys, monkeypatch
):
    measured = []
    monkeypatch.setattr("t2t_keras.serving.origin.measured_score", lambda *_: measured.append(1))
    with pytest.raises(SystemExit):
        t2t_exporter.run(
            ["t2t-exporter", f"--output_dir={random_run}", "--measure", "--decode_hparams=xla=true"]
        )
    assert "compiled by XLA" in capsys.readouterr().err
    assert not measured


def test_errors_are_one_message(random_run, capsys):
    with pytest.raises(SystemExit) as caught:
        t2t_exporter.run(["t2t-exporter", f"--output_dir={random_run}", "--decode_hparams=alpha=x"])
    assert caught.value.code == 2
    assert "'alpha' takes a number" in capsys.readouterr().err
    assert not (random_run / "export").exists()
