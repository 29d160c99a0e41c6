import os
import subprocess
import sys
from pathlib import Path

import pytest

import t2t_keras
from t2t_keras import environment
from t2t_keras.environment import (
    compile_cache_folder,
    enable_compile_cache,
    free_memory,
    prepare_tensorflow,
    source_version,
    usable_cores,
)


def test_the_version_of_a_checkout_is_its_commit(tmp_path, tmp_path_factory):
    def git(*arguments):
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "file").write_text("one")
    for arguments in ("init --quiet", "add file", "commit --quiet --message=one"):
        git(*arguments.split())
    commit = source_version(tmp_path)
    assert git("rev-parse", "HEAD").startswith(commit)
    assert len(commit) >= 7
    (tmp_path / "file").write_text("two")
    assert source_version(tmp_path) == f"{commit}-dirty"
    # Only the folder's own repository counts, if git can read it.
    (tmp_path / "site-packages").mkdir()
    (broken := tmp_path_factory.mktemp("broken") / ".git").mkdir()
    for folder in (tmp_path / "site-packages", broken.parent):
        assert source_version(folder) == f"t2t_keras {t2t_keras.__version__}"


def test_usable_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {*range(99)}, raising=False)
    assert usable_cores() == 99


def test_the_user_s_settings_of_tensorflow_stay(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    prepare_tensorflow()
    names = "TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"
    assert [os.environ[name] for name in names] == ["0", "1"]


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The cache's folder, in an environment in which nothing is set."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"):
        monkeypatch.setenv(name, "before")  # So that it is put back, whatever the test sets.
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "t2t_keras"


# The two processes are forked from one, since importing TensorFlow takes longest.
COMPILED = """
import os, sys
from pathlib import Path
from t2t_keras.environment import enable_compile_cache
enable_compile_cache()
import tensorflow as tf
for _ in range(2):
    if not os.fork():
        print(tf.function(lambda x: x @ x + 1, jit_compile=True)(tf.ones([2, 2]))[0, 0].numpy())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    print(sorted((path.name, path.stat().st_mtime_ns) for path in Path(sys.argv[1]).rglob("*")))
    sys.stdout.flush()
"""


@pytest.mark.slow
def test_another_process_finds_what_was_compiled(cache):
    command = [sys.executable, "-c", COMPILED, cache]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    computed, keeps, again, kept_again = done.stdout.splitlines()
    assert (computed, again, "Error" in done.stderr) == ("3.0", "3.0", False)
    assert kept_again == keeps != "[]"


def test_another_version_or_machine_has_a_folder_of_its_own(cache, monkeypatch):
    folders = [compile_cache_folder(), compile_cache_folder()]
    monkeypatch.setattr(environment, "installed_versions", lambda: {"keras": "99"})
    folders.append(compile_cache_folder())
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    folders.append(compile_cache_folder())
    for flags in ("sse", "sse avx"):
        monkeypatch.setattr(Path, "read_text", lambda *_, flags=flags, **__: f"x\nflags: {flags}\n")
        folders.append(compile_cache_folder())
    assert folders[0] == folders[1]
    assert [len({*folders}), {folder.parent for folder in folders}] == [5, {cache}]
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(cache.parents[1]))
    assert compile_cache_folder().parent == cache.parents[1] / ".cache" / "t2t_keras"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("mine", "added"),
    [("--tf_xla_persistent_cache_directory=mine", 0), ("--tf_xla_min_cluster_size=3", 1)],
)
def test_the_user_s_cache_settings_stay(monkeypatch, mine, added):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    monkeypatch.setenv("TF_XLA_FLAGS", mine)
    enable_compile_cache()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    flags = os.environ["TF_XLA_FLAGS"].split()
    assert (flags[0], len(flags)) == (mine, 1 + added)
    assert flags[-1].startswith("--tf_xla_persistent_cache_directory=") or not added


def test_a_folder_that_tensorflow_cannot_name(cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "with space"))
    enable_compile_cache()
    assert "TF_XLA_FLAGS" not in os.environ
    assert "with space" in os.environ["JAX_COMPILATION_CACHE_DIR"]


def test_nothing_is_kept_in_a_folder_that_cannot_be_written(cache, monkeypatch):
    monkeypatch.setattr(
        os, "access", lambda path, mode: mode != os.W_OK or path != cache.parents[1]
    )
    enable_compile_cache()
    assert "TF_XLA_FLAGS" not in os.environ
    assert not cache.parent.exists()


ENDING = """
import threading, time
from t2t_keras.bin.flags import command
from t2t_keras.environment import COMPILE_THREAD

@command(lambda flags: None)
def main(flags):
    threading.Thread(target=time.sleep, args=[300], name=COMPILE_THREAD).start()
    print("done", end="")
    return 3

main()
"""


def test_a_command_does_not_wait_for_a_compilation():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == (b"done", b"", 3)


KB = 1024
MACHINE = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  7 kB\nMemAvailable:    1000 kB\n"}
VERSION_2 = {"memory.max": 500, "memory.current": 400}
VERSION_1 = {"memory.limit_in_bytes": 300, "memory.usage_in_bytes": 100}
VERSION_1_FILES = {
    "sys/fs/cgroup/memory/job/memory.stat": "inactive_file 10240\ntotal_inactive_file 20480\n"
}


def group(path, numbers):
    """The files of a control group, with numbers in kB."""
    return {f"sys/fs/cgroup{path}/{name}": f"{kb * KB}\n" for name, kb in numbers.items()}


@pytest.mark.parametrize(
    ("groups", "files", "free"),
    [
        ("", {}, 1000),
        ("0::/user/one", group("/user", VERSION_2), 100),
        ("0::/user/one", group("/two", VERSION_2), 1000),
        # The kernel gives up its copies of files.
        ("0::/", group("", VERSION_2) | {"sys/fs/cgroup/memory.stat": "inactive_file 30720"}, 130),
        # The smallest group counts.
        ("4:memory:/job\n0::/", group("/memory/job", VERSION_1) | group("", VERSION_2), 100),
        ("4:memory:/job\n0::/", group("/memory/job", VERSION_1), 200),
        # There, those of the groups within count only in the total.
        ("4:memory:/job", group("/memory/job", VERSION_1) | VERSION_1_FILES, 220),
        ("0::/", group("", VERSION_2) | {"sys/fs/cgroup/memory.max": "max"}, 1000),
        ("0::/", group("", {"memory.max": 3, "memory.current": 5}), 0),
    ],
)
def test_the_free_memory_of_a_machine_and_its_control_groups(tmp_path, groups, files, free):
    for path, text in (MACHINE | {"proc/self/cgroup": groups} | files).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert free_memory(tmp_path) == free * KB
    assert free_memory(tmp_path / "nowhere") is None
    assert free_memory() > 1e6, "of this machine"
