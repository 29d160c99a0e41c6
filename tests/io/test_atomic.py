import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import (
    check_parent,
    damaged_files,
    make_parent,
    replaced_atomically,
    write_atomically,
)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_file_replaces_an_older_one_at_once(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), replaced_atomically(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"some": b"old"}
    with path.open("rb") as reader:
        record = write_atomically(path, b"newer")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"newer"
    assert damaged_files(tmp_path, {"some": record}) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda path: path.unlink(), ["some (missing)"]),
        (lambda path: path.write_bytes(b"newe"), ["some (differs)"]),
        (lambda path: path.write_bytes(b"never"), ["some (differs)"]),
    ],
)
def test_damaged_files(tmp_path, change, expected):
    record = write_atomically(tmp_path / "some", b"newer")
    change(tmp_path / "some")
    assert damaged_files(tmp_path, {"some": record}) == expected


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
        "import os, pathlib, sys; from t2t_keras.io.atomic import replaced_atomically\n"
        "with replaced_atomically(pathlib.Path(sys.argv[1])) as file: os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "some"])
    assert done.returncode == -signal.SIGKILL
    (begun,) = tmp_path.iterdir()
    os.utime(begun, (1, 1))
    write_atomically(tmp_path / "some", b"all")
    assert contents(tmp_path) == {"some": b"all"}


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "some"
    # The only random name is a device that is always full.
    monkeypatch.setattr("secrets.token_hex", lambda _: "random")
    (tmp_path / "some.random.partial").symlink_to("/dev/full")
    with pytest.raises(UserError, match=rf"{path} cannot be written: No space left on device"):
        write_atomically(path, b"content")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "write", [make_parent, check_parent, lambda path: write_atomically(path, b"content")]
)
def test_a_directory_that_is_none_is_named(tmp_path, write):
    (tmp_path / "file").write_text("a file where a directory should be")
    with pytest.raises(UserError, match=f"{tmp_path}/file"):
        write(tmp_path / "file" / "some")


@pytest.mark.parametrize("write", [check_parent, lambda path: write_atomically(path, b"content")])
def test_a_read_only_file_system_is_named(write):
    with pytest.raises(UserError, match="/proc/sys"):
        write(Path("/proc/sys/some"))
