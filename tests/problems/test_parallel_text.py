from pathlib import Path

import pytest

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.errors import UserError


def problem_of(config=""):
    return registry.problem("parallel_text", f"source_language=en,target_language=de{config}")


def touch(folder, present):
    for name in present.split():
        (folder / name).touch()


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("", "train.en train.de"),
        ("train.en.gz train.de", "train.en.gz train.de"),
        ("train-src.en.sgm.gz train-src.de.sgm", "train-src.en.sgm.gz train-src.de.sgm"),
        # Half a text in another format does not count.
        ("train.tmx.gz train.en", "train.tmx.gz train.tmx.gz"),
    ],
)
def test_files_by_language_format_and_packing(tmp_path, present, expected):
    touch(tmp_path, present)
    splits = problem_of().files(tmp_path)
    names = [(pair.source.name, pair.target.name) for [pair] in splits.values()]
    assert dict(zip(splits, names, strict=True)) == {
        "train": tuple(expected.split()),
        "dev": ("dev.en", "dev.de"),
    }


def test_half_a_test_set_is_an_error(tmp_path):
    touch(tmp_path, "train.en train.de dev.en dev.de test.de.gz")
    with pytest.raises(UserError, match=r"missing in .*\n  test\.en  \(your own file\)$"):
        generate(problem_of(), tmp_path / "data", tmp_path)


@pytest.mark.parametrize(
    "present",
    ["train.en train.de train.tsv", "train.en train.en.gz train.de", "train.tmx train.tmx.gz"],
)
def test_more_than_one_format_is_an_error(tmp_path, present):
    touch(tmp_path, present)
    with pytest.raises(UserError, match=r"train in more than one format: .*train\.(tsv|de|tmx)"):
        problem_of().files(tmp_path)


@pytest.mark.parametrize("config", [",target_language=", ",source_language=de"])
def test_two_languages_are_needed(config):
    with pytest.raises(UserError, match="source_language=en,target_language=de"):
        problem_of(config).files(Path())
