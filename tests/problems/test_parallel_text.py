from pathlib import Path

import pytest

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.errors import UserError


@pytest.fixture
def problem():
    return registry.problem("parallel_text", "source_language=en,target_language=de")


def names(files):
    return {
        split: [(pair.source.name, pair.target.name) for pair in pairs]
        for split, pairs in files.items()
    }


def test_files_by_language(problem, tmp_path):
    expected = {"train": [("train.en", "train.de")], "dev": [("dev.en", "dev.de")]}
    assert names(problem.files(tmp_path)) == expected
    (tmp_path / "test.de").touch()
    assert names(problem.files(tmp_path)) == expected | {"test": [("test.en", "test.de")]}


def test_half_a_test_set_is_an_error(problem, tmp_path):
    for name in ("train.en", "train.de", "dev.en", "dev.de", "test.de.gz"):
        (tmp_path / name).write_text("some text\n")
    with pytest.raises(UserError, match=r"missing in .*\n  test\.en  \(your own file\)$"):
        generate(problem, tmp_path / "data", tmp_path)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("train.en train.de.gz", ("train.en", "train.de.gz")),
        ("train.en.gz train.de", ("train.en.gz", "train.de")),
        ("train-src.en.sgm train-ref.de.sgm", ("train-src.en.sgm", "train-ref.de.sgm")),
        ("train-src.en.sgm.gz train-src.de.sgm", ("train-src.en.sgm.gz", "train-src.de.sgm")),
        ("train.tmx.gz train.en", ("train.tmx.gz", "train.tmx.gz")),
        ("train.tsv", ("train.tsv", "train.tsv")),
    ],
)
def test_formats_and_packings(problem, tmp_path, present, expected):
    for name in present.split():
        (tmp_path / name).touch()
    assert names(problem.files(tmp_path))["train"] == [expected]


@pytest.mark.parametrize(
    "present",
    ["train.en train.de train.tsv", "train.en train.en.gz train.de", "train.tmx train.tmx.gz"],
)
def test_more_than_one_format_is_an_error(problem, tmp_path, present):
    for name in present.split():
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"train in more than one format: .*train\.(tsv|de|tmx)"):
        problem.files(tmp_path)


def test_several_files(tmp_path):
    config = "source_language=en,target_language=de,train=europarl + news"
    for name in ("europarl.en", "europarl.de", "news.tmx.gz"):
        (tmp_path / name).touch()
    files = registry.problem("parallel_text", config).files(tmp_path)["train"]
    assert [pair.source.name for pair in files] == ["europarl.en", "news.tmx.gz"]


@pytest.mark.parametrize(
    "config", ["", "source_language=en", "source_language=de,target_language=de"]
)
def test_two_languages_are_needed(config):
    problem = registry.problem("parallel_text", config)
    with pytest.raises(UserError, match="source_language=en,target_language=de"):
        problem.files(Path())
