import errno
import os
import re
import socket
import subprocess
import sys

import pytest
from refusals import refused

from t2t_keras.io.files import (
    as_json,
    differences,
    last_writer,
    locked_directory,
    read_json,
    write_json,
)


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
    found = [re.findall(r"\b(?:\w|None)\b", line) for line in differences(recorded, requested)]
    assert found == [["b", "2", "5"], ["c", "3", "None"], ["d", "None", "4"]]


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
