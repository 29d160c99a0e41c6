"""What XLA compiles in one process, another need not compile again."""

import os
import subprocess
import sys

import pytest

from t2t_keras import registry
from t2t_keras.compilation_cache import keep_compiled
from t2t_keras.data.generate import generate

COMPILE = """
from t2t_keras.compilation_cache import keep_compiled
from t2t_keras.environment import prepare_tensorflow
prepare_tensorflow()
keep_compiled()
import tensorflow as tf
print(tf.function(lambda x: tf.nn.softmax(x @ x) + 1, jit_compile=True)(tf.ones([2, 2])).numpy())
"""


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """An environment in which nothing is set; its cache is in tmp_path."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"):
        monkeypatch.setenv(name, "before")  # So that it is put back, whatever the test sets.
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def contents(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("environment")
def test_the_second_process_finds_what_the_first_compiled(tmp_path):
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], capture_output=True, text=True, check=True
        )
        assert "Error" not in done.stderr
        seen.append((done.stdout, contents(tmp_path / "cache" / "t2t_keras")))
    # TensorFlow writes what it compiles; what it finds it does not write again.
    assert len(seen[0][1]) == 1
    assert seen[1] == seen[0]


@pytest.mark.usefixtures("environment")
def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory=mine")
    keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_persistent_cache_directory=mine"
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_min_cluster_size=3")
    keep_compiled()
    mine, added = os.environ["TF_XLA_FLAGS"].split()
    assert mine == "--tf_xla_min_cluster_size=3"
    assert added.startswith("--tf_xla_persistent_cache_directory=")


@pytest.mark.usefixtures("environment")
def test_nothing_is_kept_where_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    keep_compiled()
    assert "TF_XLA_FLAGS" not in os.environ
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("split", ["", ",microbatch_tokens=64"])
@pytest.mark.usefixtures("environment")
def test_a_run_that_goes_on_finds_what_it_has_compiled(tmp_path, monkeypatch, split):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    problem = registry.problem("algorithmic_reverse_binary40", "train_size=50,dev_size=5")
    generate(problem, tmp_path / "data")
    hparams = "num_layers=1,d_model=8,d_ff=8,num_heads=1,max_length=8,batch_tokens=128" + split
    seen = []
    for steps in (1, 2):
        arguments = [
            *("--problem=algorithmic_reverse_binary40", "--hparams_set=transformer_tiny"),
            *("--problem_config=train_size=50,dev_size=5", f"--hparams={hparams}"),
            *(f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'run'}"),
            *(f"--train_steps={steps}", "--schedule=train", "--xla", "--worker_gpu=0"),
        ]
        command = [sys.executable, "-m", "t2t_keras.bin.t2t_trainer", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("Continuing from" in done.stdout) == (steps == 2)
        seen.append(contents(tmp_path / "cache" / "t2t_keras"))
    assert seen[0]
    assert seen[1] == seen[0]
