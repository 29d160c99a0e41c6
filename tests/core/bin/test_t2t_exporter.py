import json
import types

import numpy as np
import pytest
import sacrebleu

from t2t_keras.bin import t2t_exporter
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import append_result, run_result
from t2t_keras.serving import export as export_module
from t2t_keras.serving.card import write_card
from t2t_keras.serving.signatures import TranslationModule
from t2t_keras.training.run_config import RunConfig

SETTINGS = "beam_size=2,extra_length=2"


@pytest.fixture
def run_exporter(random_run, tmp_path):
    """run_exporter(*flags): runs the command."""

    def run_exporter(*flags):
        common = [f"--output_dir={random_run}", f"--results_file={tmp_path / 'results.jsonl'}"]
        t2t_exporter.run(["t2t-exporter", *common, f"--decode_hparams={SETTINGS}", *flags])

    return run_exporter


@pytest.fixture
def exports(monkeypatch):
    """(translator, directory, settings) of each export, which is not made."""
    exports = []

    def export(translator, export_dir, **settings):
        exports.append((translator, export_dir, settings))
        return export_dir / "1"

    monkeypatch.setattr(export_module, "export", export)
    return exports


def test_exports_the_newest_checkpoint_with_its_scores(
    run_exporter, random_run, exports, tmp_path, capsys
):
    record = RunConfig.load(random_run)
    for steps, bleu in ((20, 11.0), (30, 12.34)):
        main = "bleu", bleu
        score = types.SimpleNamespace(bleu=bleu, bleu_signature="nrefs:1", main=main)
        search = {"beam_size": 4, "alpha": 0.6, "ensemble": []}
        result = run_result(record, random_run / f"model.ckpt-{steps}", "test", score, search)
        append_result(tmp_path / "results.jsonl", result)
    run_exporter("--measure", f"--export_dir={tmp_path / 'export'}", "--servable_name=ende")
    [(translator, directory, settings)] = exports
    expected = Translator.from_run(random_run, random_run / "model.ckpt-30", SETTINGS)
    sources, references = (
        (random_run.parent / f"dev.{language}").read_text("utf-8").splitlines()
        for language in ("en", "de")
    )
    for weight, same in zip(translator.models[0].weights, expected.models[0].weights, strict=True):
        np.testing.assert_array_equal(weight, same)
    texts = [translation.text for translation in translator.translate(sources)]
    dev = sacrebleu.corpus_bleu(texts, [references]).score
    *lines, measured = settings["origin"]
    assert measured.startswith(f"dev: {dev:.2f} BLEU (beam 2, alpha 0.6; sacrebleu nrefs:1|case:")
    assert "test: 12.34 BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1)" in lines
    assert {"problem: parallel_text", "optimizer steps: 30"} < set(lines)
    assert not any("11.00" in line for line in lines)
    assert (settings["dtype"], settings["servable_name"]) == ("float32", "ende")
    assert settings["example"] == sources[0]
    assert directory == tmp_path / "export"
    assert translator.config == expected.config
    output = capsys.readouterr().out
    assert measured in output
    assert f"{directory / '1'}: " in output
    # What is recorded is enough.
    run_exporter()
    assert exports[-1][2]["origin"][-1] == "test: 12.34 BLEU (beam 4, alpha 0.6; sacrebleu nrefs:1)"


OWN_FORMAT = """
from t2t_keras.registry import register_export_format
from t2t_keras.serving.formats import ExportFormat

@register_export_format
class OwnFormat(ExportFormat):
    dtypes = ("float32", "float64")

    def write(self, translator, folder, dtype):
        (folder / "own.txt").write_text(f"{dtype} {translator.config.beam_size}")
"""


def test_a_format_of_the_user_s_own_is_chosen(random_run, tmp_path, own_registry, refused, capsys):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "an_own_format.py").write_text(OWN_FORMAT)
    command = ["t2t-exporter", f"--output_dir={random_run}", f"--export_dir={tmp_path / 'own'}"]
    refused("unknown_name 'own_format' --t2t_usr_dir", *command, "--format=own_format")
    command += [f"--t2t_usr_dir={tmp_path / 'user'}", f"--decode_hparams={SETTINGS}"]
    refused("bad_value --dtype=int8 float64", *command, "--format=own_format", "--dtype=int8")
    t2t_exporter.run([*command, "--format=own_format", "--dtype=float64"])
    assert (tmp_path / "own" / "own.txt").read_text() == "float64 2"
    assert "float64, for own_format" in (tmp_path / "own" / "MODEL_CARD.md").read_text("utf-8")
    assert capsys.readouterr().out == f"{tmp_path / 'own'}\n"


def test_every_export_has_a_card(random_run, tmp_path, run_exporter, monkeypatch):
    monkeypatch.setattr(TranslationModule, "signatures", lambda module: {})  # Of test_export.py.
    record = RunConfig.load(random_run)
    score = types.SimpleNamespace(bleu=12.34, bleu_signature="nrefs:1", main=("bleu", 12.34))
    result = run_result(record, random_run / "model.ckpt-30", "test", score, {"beam_size": 4})
    append_result(tmp_path / "results.jsonl", result)
    (tmp_path / "notes.md").write_text("Short sentences. CC BY 2.0.\n", encoding="utf-8")
    run_exporter(f"--export_dir={tmp_path / 'saved'}", f"--card_notes={tmp_path / 'notes.md'}")
    [card] = (tmp_path / "saved").glob("*/MODEL_CARD.md")
    manifest = json.loads((card.parent / "manifest.json").read_text("utf-8"))
    assert "MODEL_CARD.md" in manifest["files"]
    text, problem = card.read_text("utf-8"), record.problem
    weights = Translator.from_run(random_run).models[0].count_params()
    languages = f"source_language={problem.source_language}"
    for part in (
        *("parallel_text", f"{weights:,} weights", "beam_size=2", "float32, for saved_model"),
        *(record.data, "dev: ", "12.34 BLEU", "step 30", "Short sentences. CC BY 2.0."),
        *("t2t-datagen --problem=parallel_text", languages, f"--hparams_set={record.hparams_set}"),
        "t2t-exporter --output_dir=run --format=saved_model --dtype=float32",
    ):
        assert part in text, part


def test_a_card_without_a_run(random_run, tmp_path):
    translator = Translator.from_run(random_run)
    write_card(tmp_path, Translator(translator.models[0], translator.tokenizer), "own", "int8")
    text = (tmp_path / "MODEL_CARD.md").read_text("utf-8")
    assert (text.count("Not known."), text.count("Not measured.")) == (2, 1)
    assert "int8, for own" in text


@pytest.mark.parametrize("flags", [[], ["--dtype=int8", "--nomeasure"]])
def test_a_score_that_is_not_measured(run_exporter, random_run, exports, flags):
    run_exporter(*flags)
    [(_, directory, settings)] = exports
    assert directory == random_run / "export"
    assert "(--measure)" in settings["origin"][-1]
