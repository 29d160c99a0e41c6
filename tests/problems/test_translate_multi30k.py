import hashlib

import pytest

from t2t_keras import registry
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.errors import UserError

COUNTS = {"train": 29_000, "dev": 1_014, "test": 1_000}
STEMS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def name_of(split, language, form):
    return f"{STEMS[split]}{'.lc.norm.tok' if form == 'tok' else ''}.{language}"


@pytest.mark.parametrize(
    ("name", "language", "form", "tokenize"),
    [
        ("translate_ende_multi30k", "de", "raw", "13a"),
        ("translate_enfr_multi30k", "fr", "tok", "none"),
    ],
)
def test_the_data_set(shared_data, tmp_path, name, language, form, tokenize):
    problem = registry.problem(name, "vocab_size=4000")
    folder = shared_data / "multi30k" / ("tok" if form == "tok" else ".")
    generate(problem, tmp_path, folder)
    generated = open_generated(problem, tmp_path)
    assert (generated.problem.text_form, generated.problem.tokenize) == (form, tokenize)
    for split, count in COUNTS.items():
        assert generated.manifest["splits"][split]["examples"] == count
        assert generated.manifest["splits"][split]["left_out"] == {}
    for split in ("dev", "test"):
        for lines, side in zip(generated.text(split), ("en", language), strict=True):
            content = (folder / name_of(split, side, form)).read_bytes().decode()
            assert "".join(f"{line}\n" for line in lines) == content


@pytest.mark.parametrize("language", ["de", "fr"])
def test_sizes_and_checksums_are_those_of_the_raw_files(shared_data, tmp_path, language):
    # Without files, the raw ones are downloaded.
    for split, (pair,) in (
        registry.problem(f"translate_en{language}_multi30k").files(tmp_path).items()
    ):
        assert pair.source.name == name_of(split, "en", "raw")
        assert pair.target.name == name_of(split, language, "raw")
        for file in (pair.source, pair.target):
            content = (shared_data / "multi30k" / file.name).read_bytes()
            assert file.size == len(content)
            assert file.sha256 == hashlib.sha256(content).hexdigest()
            assert file.url.endswith(f"/{file.name}.gz")


def test_both_forms_are_ambiguous(tmp_path):
    # French files do not make German ambiguous.
    for name in ("train.fr", "val.lc.norm.tok.de"):
        (tmp_path / name).touch()
    assert registry.problem("translate_ende_multi30k").resolved(tmp_path).text_form == "tok"
    (tmp_path / "train.en").touch()
    with pytest.raises(UserError, match=r"text_form=raw or --problem_config=text_form=tok"):
        generate(registry.problem("translate_ende_multi30k"), tmp_path / "data", tmp_path)


def test_an_unknown_form_is_not_scored():
    with pytest.raises(UserError, match="text_form=raw or --problem_config=text_form=tok"):
        registry.problem("translate_ende_multi30k").score(["a"], ["a"])
