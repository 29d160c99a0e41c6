"""Which code runs, on how many cores, and where it keeps what XLA compiles."""

import os
import subprocess
import sys

import pytest

import t2t_keras
from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.environment import keep_compiled, source_version


def run_python(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert "Error" not in done.stderr
    return done.stdout


def test_the_version_of_a_checkout_is_its_commit(tmp_path, tmp_path_factory):
    def git(*arguments):
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "file").write_text("one")
    for arguments in ("init --quiet", "add file", "commit --quiet --message=one"):
        git(*arguments.split())
    commit = git("rev-parse", "HEAD")
    assert len(source_version(tmp_path)) >= 7
    assert commit.startswith(source_version(tmp_path))
    (tmp_path / "file").write_text("two")
    described, dirty = source_version(tmp_path).split("-")
    assert dirty == "dirty"
    assert commit.startswith(described)
    # Only the folder's own repository counts.
    (tmp_path / "site-packages").mkdir()
    (broken := tmp_path_factory.mktemp("broken") / ".git").mkdir()
    for folder in (tmp_path / "site-packages", broken.parent, tmp_path_factory.mktemp("none")):
        assert source_version(folder) == f"t2t_keras {t2t_keras.__version__}"


CONFINED = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from t2t_keras.environment import usable_cores
print(usable_cores())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux's affinity")
def test_usable_cores_of_a_process_confined_to_one():
    assert run_python("-c", CONFINED) == "1\n"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The cache's folder, in an environment in which nothing is set."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"):
        monkeypatch.setenv(name, "before")  # So that it is put back, whatever the test sets.
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "t2t_keras"


def contents(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_continued_run_finds_what_it_has_compiled(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    config = "train_size=50,dev_size=5"
    generate(registry.problem("algorithmic_reverse_binary40", config), tmp_path / "data")
    hparams = "num_layers=1,d_model=8,d_ff=8,num_heads=1,max_length=8,batch_tokens=128"
    seen = []
    for steps in (1, 2):
        printed = run_python(
            *("-m", "t2t_keras.bin.t2t_trainer", "--problem=algorithmic_reverse_binary40"),
            *(f"--problem_config={config}", "--hparams_set=transformer_tiny"),
            *(f"--hparams={hparams},microbatch_tokens=64", f"--data_dir={tmp_path / 'data'}"),
            *(f"--output_dir={tmp_path / 'run'}", f"--train_steps={steps}"),
            *("--schedule=train", "--xla", "--worker_gpu=0"),
        )
        assert ("Continuing from" in printed) == (steps == 2)
        seen.append(contents(cache))
    assert seen[0]
    assert seen[1] == seen[0]


@pytest.mark.usefixtures("cache")
def test_the_user_s_cache_settings_stay(monkeypatch):
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


def test_nothing_is_kept_in_a_folder_that_cannot_be_written(cache, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != cache.parents[1])
    keep_compiled()
    assert "TF_XLA_FLAGS" not in os.environ
    assert not cache.parent.exists()
