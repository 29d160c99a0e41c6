"""`t2t-decoder --engine=ctranslate2` on what `t2t-exporter` made of a run."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu

from t2t_keras.bin import t2t_decoder, t2t_exporter
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import read_results
from t2t_keras.interop.engines.ctranslate2_export import CTranslate2Export
from t2t_keras.training.checkpoint_files import newest_checkpoint, read, write

FAST = "beam_size=1,extra_length=2"
SOURCES = ["A man eats.", "", "The dog sleeps in the red house."]
WITHOUT = "tensorflow tensorflow_text keras jax".split()


@pytest.fixture(scope="module")
def run(random_run, tmp_path_factory):
    """A run with its export in it."""
    folder = shutil.copytree(random_run, tmp_path_factory.mktemp("engine") / "run")
    flags = [f"--output_dir={folder}", "--format=ctranslate2", f"--decode_hparams={FAST}"]
    t2t_exporter.run(["t2t-exporter", *flags])
    return folder


@pytest.fixture(scope="module")
def by_keras(run):
    """by_keras(lines): their translations by Keras's engine."""
    translator = Translator.from_run(run, decode_hparams=FAST)
    return lambda lines: [translation.text for translation in translator.translate(lines)]


@pytest.mark.parametrize("export", ["", "ctranslate2"])
def test_decodes_without_tensorflow_and_keras(run, by_keras, export):
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({WITHOUT}))\n"
        "from t2t_keras.bin import t2t_decoder; t2t_decoder.run()"
    )
    flags = [f"--output_dir={run / export}", "--engine=ctranslate2", "--decode_from_file=-"]
    done = subprocess.run(
        [sys.executable, "-c", program, *flags],
        input="\n".join(SOURCES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, by_keras(SOURCES)), done.stderr


def test_the_dev_set(run, by_keras, random_run, tmp_path, capsys):
    flags = [f"--output_dir={run}", "--engine=ctranslate2", f"--alignment_file={tmp_path / 'a'}"]
    t2t_decoder.run(["t2t-decoder", *flags, f"--results_file={tmp_path / 'results.jsonl'}"])
    name = "parallel_text.dev.ctranslate2.float32.beam1.alpha0.6.decodes"
    actual = (run / "decodes" / name).read_text().splitlines()
    dev = (random_run.parent / "dev.en").read_text().splitlines()
    assert actual == by_keras(dev)
    [result] = read_results(tmp_path / "results.jsonl")
    assert (result.steps, result.decode["engine"]) == (30, "ctranslate2 float32")
    references = (random_run.parent / "dev.de").read_text().splitlines()
    # A random model's BLEU is 0 with any references; their length is beside it.
    score = sacrebleu.corpus_bleu(actual, [references])
    assert score.format().removeprefix("BLEU") in capsys.readouterr().out
    assert result.bleu == pytest.approx(score.score, abs=0.001)
    assert len((tmp_path / "a").read_text().splitlines()) == len(actual)


def test_an_export_of_no_checkpoint(run, tmp_path, monkeypatch):
    """The current folder is then none that is read."""
    record = shutil.copytree(run / "ctranslate2", tmp_path / "export") / "t2t_keras.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"checkpoint": None}))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").touch()
    (tmp_path / "in").write_text("A man")
    flags = "--output_dir=export --decode_from_file=in --decode_to_file=checkpoint".split()
    t2t_decoder.run(["t2t-decoder", "--engine=ctranslate2", *flags])
    assert (tmp_path / "checkpoint").read_text()


def test_what_is_refused(run, refused, tmp_path):
    engine, text = "--engine=ctranslate2", f"--decode_from_file={__file__}"
    here = f"--output_dir={run}", engine, text
    for models in (f"--ensemble={run}", f"--checkpoint_path={run}"):
        name = models[2:].partition("=")[0]
        refused(f"not_supported {name}", "t2t-decoder", *here, models)
    files = f"--attention_file={tmp_path / 'attention'}", f"--decode_to_file={tmp_path / 'out'}"
    refused("not_supported keras", "t2t-decoder", *here, *files)
    newer = shutil.copytree(run, tmp_path / "newer", copy_function=shutil.copyfile)
    assert CTranslate2Export(newer).checkpoint_identity, "a copy may have other times"
    command = "t2t-decoder", f"--output_dir={newer}", engine, text
    record = newer / "ctranslate2" / "t2t_keras.json"
    content = json.loads(record.read_text())
    del content["checkpoint"]["digest"]  # Nothing says that it is of these weights.
    newest = newest_checkpoint(newer)
    before = record.read_text()
    record.write_text(json.dumps(content))
    refused(f"outdated_export {newest}", *command)
    record.write_text(before)
    arrays, head = read(newest)
    write(newest, arrays | {"model/more": np.zeros(1)}, {})
    refused(f"outdated_export {newest}", *command)
    write(newest, arrays, head)
    for file in newer.glob("model.ckpt-30.*"):
        file.rename(newer / file.name.replace("30", "40"))
    refused("outdated_export model.ckpt-30 model.ckpt-40", *command)
    shutil.rmtree(newer / "ctranslate2")
    refused(f"no_export t2t-exporter --output_dir={newer} --format=ctranslate2", *command)
