import re
import types

import pytest
import sacrebleu

from t2t_keras import load_export
from t2t_keras.bin import t2t_exporter
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import append_result
from t2t_keras.evaluation.run_result import run_result
from t2t_keras.serving.export import export as export_module
from t2t_keras.serving.export.weights import rounded_weights
from t2t_keras.training.run_config import RunConfig

LINES = ["A man sleeps.", "", "The dog eats in the red house."]


@pytest.fixture
def run_exporter(random_run, tmp_path):
    """run_exporter(*flags): runs the command."""

    def run_exporter(*flags):
        common = [f"--output_dir={random_run}", f"--results_file={tmp_path / 'results.jsonl'}"]
        t2t_exporter.run(["t2t-exporter", *common, *flags])

    return run_exporter


@pytest.fixture
def fail(run_exporter, random_run, capsys):
    """fail(*flags): the error of the command, which must fail and write nothing."""

    def fail(*flags):
        with pytest.raises(SystemExit) as caught:
            run_exporter(*flags)
        assert caught.value.code == 2
        assert not (random_run / "export").exists()
        return capsys.readouterr().err

    return fail


@pytest.fixture
def exports(monkeypatch):
    """The keyword arguments of each export, which is not made."""
    exports = []
    monkeypatch.setattr(export_module, "export", lambda *_, **settings: exports.append(settings))
    return exports


def test_exports_the_newest_checkpoint(run_exporter, random_run, tmp_path, capsys):
    record = RunConfig.load(random_run)
    for steps, bleu in ((20, 11.0), (30, 12.34)):
        score = types.SimpleNamespace(bleu=bleu, bleu_signature="nrefs:1")
        search = {"beam_size": 4, "alpha": 0.6, "ensemble": []}
        result = run_result(record, random_run / f"model.ckpt-{steps}", "test", score, search)
        append_result(tmp_path / "results.jsonl", result)
    settings = "beam_size=3,extra_length=2"
    export_dir = tmp_path / "export"
    run_exporter(f"--export_dir={export_dir}", f"--decode_hparams={settings}", "--dtype=bfloat16")
    loaded = load_export(export_dir)
    output = capsys.readouterr().out
    assert str(loaded.directory) in output
    readme = (loaded.directory / "README.md").read_text("utf-8")
    measured = (
        r"dev: \S+ BLEU \(beam 3, alpha 0.6; sacrebleu nrefs:1\S+\), with weights as bfloat16"
    )
    assert re.search(measured, output)
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
    with rounded_weights(translator, "bfloat16"):
        expected = [translation.text for translation in translator.translate(LINES)]
    assert [translation.text for translation in loaded.translate(LINES)] == expected


def test_the_dev_set_is_scored_on_request(run_exporter, random_run, exports, capsys):
    settings = "beam_size=2,extra_length=2"
    run_exporter("--measure", f"--decode_hparams={settings}")
    translator = Translator.from_run(random_run, random_run / "model.ckpt-30", settings)
    sources, references = (
        (random_run.parent / f"dev.{language}").read_text("utf-8").splitlines()
        for language in ("en", "de")
    )
    found = [translation.text for translation in translator.translate(sources)]
    score = sacrebleu.corpus_bleu(found, [references]).score
    line = exports[0]["origin"][-1]
    assert line.startswith(
        f"dev: {score:.2f} BLEU (beam 2, alpha 0.6; sacrebleu nrefs:1|case:mixed"
    )
    assert line in capsys.readouterr().out
    run_exporter()
    run_exporter("--dtype=int8", "--nomeasure")
    assert all("not measured" in each["origin"][-1] for each in exports[1:])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--measure", "--decode_hparams=xla=true"], "xla"),
        (["--decode_hparams=alpha=x"], "alpha"),
        (["--dtype=int4"], "--dtype"),
        (["--data_dir=none/at/all"], "no generated data"),
    ],
)
def test_errors(fail, flags, message):
    assert message in fail(*flags)


@pytest.mark.parametrize("file", ["run.json", "manifest.json", "saved_model.pb"])
def test_a_run_data_or_another_export_is_not_written_into(fail, tmp_path, file):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / file).touch()
    assert "7" in fail(f"--export_dir={tmp_path / '7'}")
