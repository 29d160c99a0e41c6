"""Decoding under JAX, without TensorFlow: the same outputs as TensorFlow's."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import jax_decoding
from jax_decoding import FORBIDDEN, LINES, SHORT, outputs_of, translator
from tiny_runs import TinyRun
from training_runs import flags_of

from t2t_keras.bin import t2t_eval
from t2t_keras.evaluation.results import read_results
from t2t_keras.training.run_config import RunConfig

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the runs that jax_decoding.py decoded."""
    folder = tmp_path_factory.mktemp("jax")
    tiny = TinyRun(folder)
    tiny.save(2)
    shutil.copytree(tiny.path, folder / "other")
    shutil.rmtree(tiny.path)
    RunConfig.load(folder / "other").save(tiny.path)
    tiny.save(1)
    (folder / "flags.json").write_text(json.dumps(flags_of(RunConfig.load(tiny.path))))
    shutil.copytree(tiny.path, folder / "under_tensorflow")
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
    expected = outputs_of(folder / "run")
    assert actual.pop("next") == expected.pop("next")
    for name in ("scores", "attention"):
        for ours, theirs in zip(actual.pop(name), expected.pop(name), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
    for name, rows in expected.items():
        for ours, theirs in zip(actual[name], rows, strict=True):
            ids, scores = zip(*theirs, strict=True)
            assert [row for row, _ in ours] == list(ids), name
            np.testing.assert_allclose([score for _, score in ours], scores, atol=1e-4)
    begins = translator(folder / "run", SHORT).tokenizer
    texts = begins.decode([ids for outputs in actual["constraints"] for ids, _ in outputs])
    assert not any(f" {FORBIDDEN}" in f" {text}" for text in texts)
    assert actual["constraints"] != actual["beam"]


def test_commands_write_the_same(folder):
    settings = dict(beam_size=1, extra_length=4)
    texts = [output.text for output in translator(folder / "run", settings).translate(LINES)]
    assert (folder / "lines.de").read_text().splitlines() == texts
    run = folder / "under_tensorflow"
    t2t_eval.run(["t2t-eval", f"--output_dir={run}", "--decode_hparams=beam_size=1,extra_length=4"])
    ours, theirs = (
        read_results(path / "eval_dev" / "results.jsonl")[0] for path in (folder / "run", run)
    )
    for name in ("bleu", "chrf", "loss"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5), name
    assert ours.chrf > 0
