"""Which code it was: a commit, or the version that is installed."""

import subprocess

import pytest

import t2t_keras
from t2t_keras.versions import source_version


@pytest.fixture
def checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "--message=one")
    return tmp_path, git("rev-parse", "HEAD")


def test_the_commit_of_a_checkout(checkout):
    folder, commit = checkout
    assert len(source_version(folder)) >= 7
    assert commit.startswith(source_version(folder))
    (folder / "file").write_text("two")
    described = source_version(folder)
    assert described.endswith("-dirty")
    assert commit.startswith(described.removesuffix("-dirty"))


def test_the_version_where_there_is_no_checkout(checkout, tmp_path_factory):
    version = f"t2t_keras {t2t_keras.__version__}"
    assert source_version(tmp_path_factory.mktemp("installed")) == version
    inside = checkout[0] / "site-packages"
    inside.mkdir()
    assert source_version(inside) == version
    broken = tmp_path_factory.mktemp("broken")
    (broken / ".git").mkdir()
    assert source_version(broken) == version
