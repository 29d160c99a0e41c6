"""A small recipe with all steps goes on where it was, however often it is killed."""

import itertools
import os
import random
import signal
import subprocess
import sys

import pytest
import yaml

from t2t_keras.problems.translate_toy import TranslateEndeToy

MODEL = {
    "hparams_set": "transformer_cpu",
    "hparams": {
        "num_layers": 1,
        "d_model": 64,
        "d_ff": 128,
        "batch_tokens": 1024,
        "compute_dtype": "float32",
    },
    "train_steps": 400,
}
CONFIG = {
    "source_language": "en",
    "target_language": "de",
    "corpora": {"toy": "text/train"},
    "noisy": {"web": ["text/web", 0.8]},
    "monolingual": {"news": "text/news"},
    "back_translation": {"decode_hparams": {"beam_size": 2}},  # Samples would be drawn anew.
    "dev": {"toy": "text/dev"},
    "vocab_size": 400,
    "backward": MODEL,
    "teachers": MODEL,
    "student": MODEL,
    "average": 1,  # Which checkpoints come before the last is a matter of time.
    "save_checkpoints_secs": 5,
    "trainer_flags": {"cpu_replicas": 1},
}
OUTPUTS = (
    *("text/*.en", "text/*.de", "text/*.scores", "translated/*"),
    *("data/*/*/*.npy", "data/*/*/*.model", "exports/*/model.bin"),
)


def command(folder):
    """Writes a configuration and its texts, and returns the command for it."""
    (folder / "text").mkdir(parents=True)
    pairs = list(itertools.islice(TranslateEndeToy(name="toy").examples("train"), 4_700))
    texts = dict(train=pairs[:3_000], web=pairs[3_000:4_000], news=pairs[4_000:4_500])
    for name, some in (texts | {"dev": pairs[4_500:]}).items():
        for code, side in zip(("en", "de"), zip(*some, strict=True), strict=True):
            lines = "".join(f"{line}\n" for line in side)
            (folder / "text" / f"{name}.{code}").write_text(lines, encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    return [sys.executable, "-m", "t2t_keras.recipes.t2t_recipe", "student", folder / "config.yaml"]


def outputs(folder):
    files = [file for pattern in OUTPUTS for file in (folder / "work").glob(pattern)]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.slow
def test_a_killed_recipe_makes_the_same_files(tmp_path):
    whole, killed = (command(tmp_path / name) for name in ("whole", "killed"))
    subprocess.run(whole, check=True)
    seconds = random.Random(1)
    for _ in range(10):
        with subprocess.Popen(killed, start_new_session=True) as process:
            try:
                process.wait(timeout=seconds.uniform(5, 60))
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # All its programs at once.
    subprocess.run(killed, check=True)
    expected, files = outputs(tmp_path / "whole"), outputs(tmp_path / "killed")
    assert len(expected) > 60
    names = expected.keys() | files.keys()
    assert not [name for name in names if expected.get(name) != files.get(name)]
