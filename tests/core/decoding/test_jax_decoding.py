"""Decoding under JAX, without TensorFlow: the same outputs as TensorFlow's."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import jax_decoding
import numpy as np
import pytest
from tiny_runs import TinyRun
from training_runs import flags_of

from t2t_keras.bin import t2t_eval
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import read_results
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, random_model):
    """The folder of the runs that jax_decoding.py decoded."""
    folder = tmp_path_factory.mktemp("jax")
    config = RunConfig.load(TinyRun(folder).path)
    tokenizer = config.tokenizer
    for seed, name in enumerate(("run", "other")):
        size = dict(num_layers=1, d_model=16, d_ff=16)
        model = random_model(seed, tokenizer.vocab_size, **size)
        matrix = model.embedding.table.embeddings.numpy()
        matrix[[i for piece, i in tokenizer.vocabulary().items() if piece.startswith("<0x")]] = 0
        model.embedding.table.embeddings.assign(matrix)
        config.save(folder / name)
        Checkpoints(folder / name, {"model": model}, keep=1).save(1)
    (folder / "flags.json").write_text(json.dumps(flags_of(config)))
    shutil.copytree(folder / "run", folder / "under_tensorflow")
    finished = subprocess.run(
        [sys.executable, jax_decoding.__file__, folder],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


def test_outputs_are_those_of_tensorflow(folder):
    actual = json.loads((folder / "outputs.json").read_text())
    expected = jax_decoding.outputs_of(folder / "run")
    assert actual.pop("next") == expected.pop("next")
    for name in ("scores", "attention", "weights"):
        for ours, theirs in zip(actual.pop(name), expected.pop(name), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
    for name, rows in expected.items():
        for ours, theirs in zip(actual[name], rows, strict=True):
            ids, scores = zip(*theirs, strict=True)
            assert [row for row, _ in ours] == list(ids), name
            np.testing.assert_allclose([score for _, score in ours], scores, atol=1e-4)
    tokenizer = RunConfig.load(folder / "run").tokenizer
    texts = tokenizer.decode([ids for outputs in actual["constraints"] for ids, _ in outputs])
    assert not any(f" {jax_decoding.FORBIDDEN}" in f" {text}" for text in texts)
    assert texts[0].startswith("Ein Hund")


def test_commands_write_the_same(folder):
    settings = "beam_size=1,extra_length=4"
    translator = Translator.from_run(folder / "run", decode_hparams=settings)
    texts = [output.text for output in translator.translate(jax_decoding.LINES)]
    assert (folder / "lines.de").read_text().splitlines() == texts
    run = folder / "under_tensorflow"
    t2t_eval.run(["t2t-eval", f"--output_dir={run}", f"--decode_hparams={settings}"])
    ours, theirs = (
        read_results(path / "eval_dev" / "results.jsonl")[0] for path in (folder / "run", run)
    )
    for name in ("bleu", "chrf", "loss"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5), name
    assert ours.chrf > 0
