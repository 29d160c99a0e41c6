from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem


def problem_of(config=""):
    return make_problem("parallel_text", f"source_language=en,target_language=de{config}")


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
        ("train.tsv.gz train-src.en.sgm", "train.tsv.gz train.tsv.gz"),
        ("train.en.sgm train.de.sgm", "train.en.sgm train.de.sgm"),
        ("train.en.sgml train.de.sgml.gz", "train.en.sgml train.de.sgml.gz"),
        ("train-src.en.sgm train-ref.de.sgm", "train-src.en.sgm train-ref.de.sgm"),
        ("train-ref.en.sgm train-src.de.sgm", "train-ref.en.sgm train-src.de.sgm"),
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


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", "test.en"),
        (",test=", None),
        (",test=other", "other.en"),
        (",test=[dev, test]", "dev.en"),
    ],
)
def test_the_test_set_is_there_if_it_is_named_or_its_file_is(tmp_path, config, expected):
    assert "test" not in problem_of().files(tmp_path)
    touch(tmp_path, "test.en test.de")
    [first, *further] = problem_of(config).files(tmp_path).get("test", [None])
    assert first == expected or first.source.name == expected
    assert len(further) == ("[" in config)


@pytest.mark.parametrize(("name", "swapped"), [("news.de-en.tsv", True), ("news.en-de.tsv", False)])
def test_the_name_of_a_table_tells_the_order_of_its_columns(tmp_path, name, swapped):
    touch(tmp_path, name)
    [pair] = problem_of(f",train={name.removesuffix('.tsv')}").files(tmp_path)["train"]
    assert (pair.source.name, pair.swapped, pair.languages) == (name, swapped, ("en", "de"))


def test_half_a_test_set_is_an_error(tmp_path):
    touch(tmp_path, "train.en train.de dev.en dev.de test.de.gz")
    with refused("missing_source_files", "test.en") as error:
        generate(problem_of(), tmp_path / "data", tmp_path)
    assert "test.de" not in str(error.value)


@pytest.mark.parametrize(
    "present",
    ["train.en train.de train.tsv", "train.en train.en.gz train.de", "train.tmx train.tmx.gz"],
)
def test_more_than_one_format_is_an_error(tmp_path, present):
    touch(tmp_path, present)
    with refused("ambiguous_files", *present.split()):
        problem_of().files(tmp_path)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_text_that_is_named_twice_is_an_error(tmp_path, split):
    with refused("given_twice", f"{split}=[a, b, a]"):
        problem_of(f",{split}=[a, b, a]").files(tmp_path)


@pytest.mark.parametrize("languages", [("en", ""), ("", "de"), ("de", "de")])
def test_two_languages_are_needed(languages):
    config = dict(zip(("source_language", "target_language"), languages, strict=True))
    with refused("bad_value", *(f"{side}='{language}'" for side, language in config.items())):
        make_problem("parallel_text", config).files(Path())


def test_scores_name_the_files_where_they_say_more_than_the_split():
    problem = problem_of(",dev=newstest2013,test=")
    assert problem.text_name("dev", 3000) == "newstest2013 (3,000 lines)"
    assert [problem_of().text_name(split, 3) for split in ("dev", "test", "")] == [""] * 3
