"""Untrusted files, atomic writes, JSON, locks, and outputs that must not replace other files."""

import ast
import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.io.files import (
    EVALUATIONS_FILE,
    HAS_SAVED_FILE,
    MANIFEST_FILE,
    MICROBATCH_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SAVED_MODEL_FILE,
    UNFINISHED_FILE,
    as_json,
    atomic_writer,
    check_outputs,
    check_parent,
    check_regular,
    damaged_files,
    differences,
    is_stream,
    last_writer,
    locked_directory,
    make_parent,
    not_a_run,
    open_regular,
    path_inside,
    plain_path,
    read_bounded,
    read_json,
    write_atomically,
    write_json,
)


def test_the_largest_file(tmp_path):
    for size in (4, 5):
        (tmp_path / "a").write_bytes(b"x" * size)
        assert read_bounded(tmp_path / "a", max_bytes=5) == b"x" * size
    (tmp_path / "a").write_bytes(b"x" * 6)
    with refused("file_too_large"):
        read_bounded(tmp_path / "a", max_bytes=5)


@pytest.mark.parametrize("name", ["vocab.model", "a/b", "./a", "a/../b", "..a", "é" * 255])
def test_names_that_lead_to_a_file_in_the_folder(tmp_path, name):
    actual = path_inside(tmp_path, name)
    assert actual == tmp_path / os.path.normpath(name)
    assert tmp_path in actual.parents


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("..", "outside_folder"),
        ("a/../..", "outside_folder"),
        (".", "outside_folder"),
        ("//etc/passwd", "outside_folder"),
        ("é" * 256, "bad_file_name"),
        ("a\0b", "bad_file_name"),
        ("", "bad_file_name"),
        (None, "bad_file_name"),
    ],
)
def test_names_that_lead_elsewhere(tmp_path, name, code):
    with refused(code):
        path_inside(tmp_path, name)


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    opened = len([*Path("/dev/fd").iterdir()])
    for path in (tmp_path / "fifo", Path("/dev/null")):
        with refused("not_a_file", path):
            open_regular(path)
        with refused("not_a_file", path):
            check_regular([tmp_path, path])
    check_regular([tmp_path, tmp_path / "nothing"])
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    assert len([*Path("/dev/fd").iterdir()]) == opened


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_file_replaces_an_older_one_at_once(tmp_path, monkeypatch):
    path, synced = tmp_path / "some", []
    monkeypatch.setattr(os, "fsync", synced.append)
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), atomic_writer(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert (contents(tmp_path), synced) == ({"some": b"old"}, [])
    with path.open("rb") as reader:
        record = write_atomically(path, b"newer")
        assert synced
        assert reader.read() == b"old"
    assert path.read_bytes() == b"newer"
    assert damaged_files(tmp_path, {"some": record}) == []


def test_damaged_files(tmp_path):
    files = {name: write_atomically(tmp_path / name, b"newer") for name in ("a", "b", "c", "d")}
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"newe")
    (tmp_path / "c").write_bytes(b"never")
    assert damaged_files(tmp_path, files) == ["a (missing)", "b (differs)", "c (differs)"]


def test_two_may_write_one_file(tmp_path):
    path = tmp_path / "some"
    with atomic_writer(path) as first:
        first.write(b"a lot of it")
        first.flush()
        (begun,) = tmp_path.iterdir()
        os.utime(begun, (1, 1))  # It is old, but locked.
        with atomic_writer(path) as second:
            second.write(b"all")
        assert path.read_bytes() == b"all"
        first.write(b" and the rest")
    assert contents(tmp_path) == {"some": b"a lot of it and the rest"}


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    program = (
        "import os, pathlib, sys; from t2t_keras.io.files import atomic_writer\n"
        "with atomic_writer(pathlib.Path(sys.argv[1])) as file: os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "some"])
    assert done.returncode == -signal.SIGKILL
    (begun,) = tmp_path.iterdir()
    os.utime(begun, (1, 1))
    write_atomically(tmp_path / "some", b"all")
    assert contents(tmp_path) == {"some": b"all"}


@pytest.mark.parametrize(
    ("name", "age", "is_removed"),
    [
        ("s[o]me.12345678.partial", 70, True),
        # It may just have been made, and not be locked yet.
        ("s[o]me.12345678.partial", 50, False),
        # These are of other files.
        ("some.12345678.partial", 70, False),
        ("s[o]me.more.12345678.partial", 70, False),
    ],
)
def test_what_is_removed_is_old_and_of_this_file(tmp_path, name, age, is_removed):
    (tmp_path / name).touch()
    os.utime(tmp_path / name, (time.time() - age,) * 2)
    write_atomically(tmp_path / "s[o]me", b"all")
    assert contents(tmp_path) == {"s[o]me": b"all"} | ({} if is_removed else {name: b""})


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "some"
    # The only random name is a device that is always full.
    monkeypatch.setattr("secrets.token_hex", lambda _: "random")
    (tmp_path / "some.random.partial").symlink_to("/dev/full")
    with refused("not_written", path, os.strerror(errno.ENOSPC)):
        write_atomically(path, b"content")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "write", [make_parent, check_parent, lambda path: write_atomically(path, b"content")]
)
def test_a_directory_that_cannot_be_written_is_named(tmp_path, write):
    (tmp_path / "file").write_text("a file where a directory should be")
    # A folder that is there need not be made.
    there = [Path("/proc/sys")] * (write is not make_parent)
    for directory in (tmp_path / "file", Path("/proc/sys/none"), *there):
        with refused("not_written", directory):
            write(directory / "some")


def test_json_comes_back(tmp_path):
    content = {"größe": [1, 2.5, None], "tuple": (1, "a"), "not UTF-8": "/data/\udcff", "": 0}
    record = write_json(tmp_path / "a.json", content)
    assert record["size"] == (tmp_path / "a.json").stat().st_size
    assert (tmp_path / "a.json").read_text().endswith("\n}\n")
    assert read_json(tmp_path / "a.json", "", content) == as_json(content) != content


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        (b"{", "damaged_file", "JSONDecodeError"),
        (b"\xff{}", "damaged_file", "UnicodeDecodeError"),
        (b"[" * 100_000, "damaged_file", "RecursionError"),
        (b"[]", "damaged_file", "list"),
        (b'{"a": 1}', "damaged_file", "'b'"),
        (None, "not_read", os.strerror(errno.ENOENT)),
    ],
)
def test_json_that_cannot_be_used(tmp_path, content, code, named):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with refused(code, "a.json", named, "Make it again."):
        read_json(tmp_path / "a.json", "Make it again.", ("a", "b"))


def test_differences():
    recorded, requested = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 4}
    values = [re.findall(r"\b(?:\w|None)\b", line) for line in differences(recorded, requested)]
    assert values == [["b", "2", "5"], ["c", "3", "None"], ["d", "None", "4"]]


def test_one_process_at_a_time_has_the_lock(tmp_path):
    program = (
        "import os, sys; from t2t_keras.io.files import locked_directory\n"
        "with locked_directory(sys.argv[1], 'killed'): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path]).returncode == -9
    names = tmp_path.name, f"t2t-trainer, process {os.getpid()} on {socket.gethostname()}."
    with locked_directory(tmp_path, "t2t-trainer"), refused("in_use", *names):
        locked_directory(tmp_path, "t2t-eval").__enter__()
    with locked_directory(tmp_path, "t2t-eval"):
        pass
    assert [last_writer(path) for path in (tmp_path, tmp_path / "none")] == ["t2t-eval", ""]


def test_a_full_disk_keeps_nobody_out(tmp_path):
    (tmp_path / ".lock").symlink_to("/dev/full")
    with locked_directory(tmp_path, "t2t-trainer"):
        pass


@pytest.mark.parametrize("directory", ["file", "file/run", "/proc/run", "/proc/sys"])
def test_a_directory_that_cannot_be_written(tmp_path, directory):
    (tmp_path / "file").write_text("")
    with refused("not_written", directory.partition("/run")[0]):
        locked_directory(tmp_path / directory, "t2t-trainer").__enter__()


@pytest.fixture
def run(tmp_path):
    """A run with an export, which is the working directory's neighbour."""
    run = tmp_path / "run"
    names = (
        "run.json",
        "vocab.model",
        "vocab.source.model",
        "news.de",
        "best/model.ckpt-5.safetensors",
    )
    for name in (*names, "eval_dev/results.jsonl", "export/7/saved_model.pb"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    return run


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "vocab.model",
        "VOCAB.model",
        "model.ckpt-11.safetensors",
        "best/model.ckpt-5.safetensors",
        "best/../evaluations.json",
        "eval_dev/results.jsonl",
        "export/7/new",
        "onnx/model.onnx",
        "keras_hub/source_tokenizer.json",
        "keras_hub/assets/tokenizer/vocabulary.spm",
        "events.out.tfevents.2",
        "train/scalars.jsonl",
        "evaluations.json",
        "microbatch.json",
        "has_saved",
        "results.jsonl",
        ".lock",
    ],
)
def test_files_of_a_run_and_its_exports(run, name):
    with refused("output_belongs_to_other", run / name):
        check_outputs([], [run / name])


@pytest.mark.parametrize("name", ["manifest.json", "vocab.model", "dev.source.txt", "train-0.npy"])
@pytest.mark.parametrize("marker", ["manifest.json", "unfinished.json"])
def test_files_of_generated_data(tmp_path, marker, name):
    (tmp_path / marker).write_text('{"splits": {}}')
    with refused("output_belongs_to_other", tmp_path / name):
        check_outputs([], [tmp_path / name])
    check_outputs([], [tmp_path / f"{name}.decodes"])


@pytest.mark.parametrize("marker", ["t2t_keras.json", "task.json", "model.onnx", "model.tflite"])
def test_models_for_other_programs(tmp_path, marker):
    (tmp_path / marker).touch()
    with refused("output_belongs_to_other", "model.weights.h5"):
        check_outputs([], [tmp_path / "model.weights.h5"])


@pytest.mark.parametrize("name", ["out.de.gz", "out.GZ", "out.bz2", "out.xz", "out.zst"])
def test_nothing_is_packed(tmp_path, name):
    for outputs, result_files in (([tmp_path / name], []), ([], [tmp_path / name])):
        with refused("packed_output", tmp_path / name):
            check_outputs([], outputs, result_files)
    check_outputs([tmp_path / name], [tmp_path / "gz", tmp_path / "out.gz.de"])


@pytest.mark.parametrize("suffix", ["", ".safetensors"])
def test_a_checkpoint_is_named_as_a_flag_takes_it(run, suffix):
    message = not_a_run(run / "best" / f"model.ckpt-5{suffix}")
    assert re.findall(r"\S+/model\S+", message)[1:] == [f"{run}/best/model.ckpt-5{suffix}"]
    assert "--checkpoint_path" in message


def test_a_folder_of_many_runs_names_five(tmp_path):
    for name in "abcdef":
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    assert not_a_run(tmp_path).endswith(f"{tmp_path / 'd'}, {tmp_path / 'e'}.")


def test_a_manifest_that_is_not_ours(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    check_outputs([], [tmp_path / "checkpoint"])


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("place", ["link", "run/link"])
def test_links_to_files_of_a_run_that_is_read(run, tmp_path, link, place):
    link(run / "vocab.model", tmp_path / place)
    owned = link == os.symlink or place.startswith("run/")
    with refused("output_belongs_to_other" if owned else "output_is_input", tmp_path / place):
        check_outputs([run], [tmp_path / place])
    if link == os.symlink:
        with refused("output_belongs_to_other", tmp_path / place):
            check_outputs([], [tmp_path / place])


@pytest.mark.parametrize("name", ["in", "link", "hard", "folder/../in"])
def test_inputs(tmp_path, name):
    (tmp_path / "in").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to(tmp_path / "in")
    for outputs, result_files in (([tmp_path / name], []), ([], [tmp_path / name])):
        with refused("output_is_input", tmp_path / name, f"({tmp_path / 'in'})"):
            check_outputs([tmp_path / "in"], outputs, result_files)


def test_two_outputs_and_a_folder(tmp_path):
    with refused("output_twice", tmp_path / "b" / ".." / "a"):
        check_outputs([], [tmp_path / "a", tmp_path / "b" / ".." / "a"])
    for outputs, result_files in (([tmp_path], []), ([], [tmp_path])):
        with refused("is_a_folder", tmp_path):
            check_outputs([], outputs, result_files)


def test_what_may_be_written_in_a_run(run):
    writes = [run / "news.de", run / "news.en-10", run / "translations" / "new.de"]
    check_outputs([run], writes, result_files=[run / "eval_dev" / "results.jsonl"])
    with refused("output_belongs_to_other", run / "vocab.model"):
        check_outputs([run], [], result_files=[run / "vocab.model"])


def test_streams_are_left_out():
    check_outputs(["-"], ["-", "/dev/null", "/dev/null"])
    assert [is_stream(path) for path in ("-", "/dev/null", "new")] == [True, True, False]


@pytest.mark.parametrize("name", ["plain", "a[1]", "a\\b", "a*?"])
def test_the_same_files_under_a_plain_name(tmp_path, name):
    (tmp_path / "in[2]").mkdir()
    prefix = tmp_path / "in[2]" / name
    for suffix in (".index", ".data-0"):
        prefix.with_name(f"{name}{suffix}").write_text(suffix)
    prefix.with_name("other").touch()
    prefix.with_name(f"{name}0.index").touch()  # Of another prefix.
    for path, suffixes in ((prefix, (".index", ".data-0")), (prefix.with_name("other"), ("",))):
        with plain_path(path) as plain:
            assert not set(plain) & set("[]*?\\")
            for suffix in suffixes:
                assert Path(f"{plain}{suffix}").read_text() == suffix
            assert not Path(f"{plain}0.index").exists()
    assert sorted(prefix.parent.iterdir()) == sorted(
        prefix.with_name(file_name)
        for file_name in (f"{name}.index", f"{name}.data-0", f"{name}0.index", "other")
    )


def test_nothing_is_begun_that_could_not_be_read_again(tmp_path, monkeypatch):
    (tmp_path / "[tmp]").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "[tmp]"))
    with plain_path(tmp_path / "run") as plain:
        assert plain == str(tmp_path / "run")
    with refused("path_is_a_pattern"), plain_path(tmp_path / "run[1]"):
        pass


def test_names_of_a_run_s_files_are_written_in_one_module(root):
    names = {RUN_FILE, EVALUATIONS_FILE, MICROBATCH_FILE, HAS_SAVED_FILE, RESULTS_FILE}
    names |= {MANIFEST_FILE, UNFINISHED_FILE, SAVED_MODEL_FILE}
    modules = {
        file.relative_to(root).as_posix()
        for file in (root / "t2t_keras").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert modules == {"t2t_keras/io/files.py"}
