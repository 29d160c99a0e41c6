import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.io.files import (
    check_parent,
    damaged_files,
    make_parent,
    replaced_atomically,
    write_atomically,
)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_file_replaces_an_older_one_at_once(tmp_path, monkeypatch):
    path, synced = tmp_path / "some", []
    monkeypatch.setattr(os, "fsync", synced.append)
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), replaced_atomically(path) as file:
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
    with replaced_atomically(path) as first:
        first.write(b"a lot of it")
        first.flush()
        (begun,) = tmp_path.iterdir()
        os.utime(begun, (1, 1))  # It is old, but locked.
        with replaced_atomically(path) as second:
            second.write(b"all")
        assert path.read_bytes() == b"all"
        first.write(b" and the rest")
    assert contents(tmp_path) == {"some": b"a lot of it and the rest"}


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    program = (
        "import os, pathlib, sys; from t2t_keras.io.files import replaced_atomically\n"
        "with replaced_atomically(pathlib.Path(sys.argv[1])) as file: os.kill(os.getpid(), 9)"
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
