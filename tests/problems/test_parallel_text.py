from pathlib import Path

import pytest

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.errors import UserError


def names(files):
    return {
        split: [(pair.source.name, pair.target.name) for pair in pairs]
        for split, pairs in files.items()
    }


def test_files_by_language(tmp_path):
    problem = registry.problem("parallel_text", "source_language=en,target_language=de")
    expected = {"train": [("train.en", "train.de")], "dev": [("dev.en", "dev.de")]}
    assert names(problem.files(tmp_path)) == expected
    (tmp_path / "test.de").touch()
    assert names(problem.files(tmp_path)) == expected | {"test": [("test.en", "test.de")]}


def test_half_a_test_set_is_an_error(tmp_path):
    for name in ("train.en", "train.de", "dev.en", "dev.de", "test.de"):
        (tmp_path / name).write_text("some text\n")
    problem = registry.problem("parallel_text", "source_language=en,target_language=de")
    with pytest.raises(UserError, match=r"missing in .*\n  test\.en  \(your own file\)$"):
        generate(problem, tmp_path / "data", tmp_path)


@pytest.mark.parametrize(
    "config",
    ["", "source_language=en", "target_language=de", "source_language=de,target_language=de"],
)
def test_two_languages_are_needed(config):
    problem = registry.problem("parallel_text", config)
    with pytest.raises(UserError, match="source_language=en,target_language=de"):
        problem.files(Path())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "vocab_sise=8000",
            "no setting of problem parallel_text 'vocab_sise'. Did you mean 'vocab_",
        ),
        ("vocab_size=many", "takes a whole number; 'many' came"),
        ("vocab_size=2", "at least 4; 2 came"),
        ("vocab_kind=words", "one of bpe, unigram, char; 'words' came"),
        ("name=other", "no setting of problem parallel_text 'name'"),
    ],
)
def test_settings_are_checked(config, message):
    with pytest.raises(UserError, match=message):
        registry.problem("parallel_text", config)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 2000), ("unigram", 2000), ("char", 500)])
def test_libreoffice_help(shared_data, tmp_path, kind, size):
    text = tmp_path / "text"
    text.mkdir()
    for language in ("en", "de"):
        source = shared_data / "libreoffice_help" / f"dev.en-de.{language}"
        for split in ("train", "dev"):
            (text / f"{split}.{language}").symlink_to(source)
    config = f"source_language=en,target_language=de,vocab_kind={kind},vocab_size={size}"
    problem = registry.problem("parallel_text", config + ",max_pair_length=2000")
    generate(problem, tmp_path, text)
    generated = open_generated(problem, tmp_path)
    # In another way than the library's, so that the line ends are tested too.
    expected = tuple(
        (text / f"dev.{language}").read_bytes().decode().split("\n")[:-1]
        for language in ("en", "de")
    )
    kept = [n for n, pair in enumerate(zip(*expected, strict=True)) if all(map(str.strip, pair))]
    expected = tuple([side[n] for n in kept] for side in expected)
    assert generated.text("dev") == expected
    store = generated.store("train")
    assert len(store) == len(kept) > 1000
    decode = generated.tokenizer.decode
    assert decode(map(store.source, range(len(store)))) == expected[0]
    assert decode(map(store.target, range(len(store)))) == expected[1]
