"""Paths that TensorFlow does not read as patterns."""

import tempfile
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.io.files import plain_path


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
        prefix.with_name(each)
        for each in (f"{name}.index", f"{name}.data-0", f"{name}0.index", "other")
    )


def test_nothing_is_begun_that_could_not_be_read_again(tmp_path, monkeypatch):
    (tmp_path / "[tmp]").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "[tmp]"))
    with plain_path(tmp_path / "run") as plain:
        assert plain == str(tmp_path / "run")
    with refused("path_is_a_pattern"), plain_path(tmp_path / "run[1]"):
        pass
