"""Files of strangers: how large they may be, and where they may lead, at the limits."""

import os
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.io.files import TreeBound, check_regular, inside, open_regular, read_bounded


def test_the_largest_file(tmp_path):
    for size in (4, 5):
        (tmp_path / "a").write_bytes(b"x" * size)
        assert read_bounded(tmp_path / "a", 5) == b"x" * size
    (tmp_path / "a").write_bytes(b"x" * 6)
    with refused("file_too_large"):
        read_bounded(tmp_path / "a", 5)


@pytest.mark.parametrize("name", ["vocab.model", "a/b", "./a", "a/../b", "..a", "é" * 255])
def test_names_that_lead_to_a_file_in_the_folder(tmp_path, name):
    found = inside(tmp_path, name)
    assert found == tmp_path / os.path.normpath(name)
    assert tmp_path in found.parents


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
        inside(tmp_path, name)


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


def test_the_deepest_settings():
    TreeBound("it").check(64)
    with refused("too_many_values"):
        TreeBound("it").check(65)


def test_the_most_settings():
    bound = TreeBound("it")
    for _ in range(1_000_000):
        bound.check(1)
    with refused("too_many_values"):
        bound.check(1)
