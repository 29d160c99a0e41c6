import hashlib

import pytest
from refusals import refused

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem


@pytest.mark.parametrize(
    ("language", "form", "ending", "tokenize"),
    [("de", "raw", "", "13a"), ("fr", "tok", ".lc.norm.tok", "none")],
)
def test_the_data_set(shared_data, tmp_path, language, form, ending, tokenize):
    problem = make_problem(f"translate_en{language}_multi30k", "vocab_size=4000")
    folder = shared_data / "multi30k" / ("tok" if form == "tok" else ".")
    generate(problem, tmp_path, folder)
    generated = open_generated(problem, tmp_path)
    assert (generated.problem.text_form, generated.problem.tokenize) == (form, tokenize)
    for split, count in {"train": 29_000, "dev": 1_014, "test": 1_000}.items():
        assert generated.manifest["splits"][split]["examples"] == count
        assert generated.manifest["splits"][split]["left_out"] == {}
    for split, stem in (("dev", "val"), ("test", "test_2016_flickr")):
        for path, side in zip(generated.text_paths(split), ("en", language), strict=True):
            assert path.read_bytes() == (folder / f"{stem}{ending}.{side}").read_bytes()


@pytest.mark.parametrize("language", ["de", "fr"])
def test_sizes_and_checksums_are_those_of_the_raw_files(shared_data, tmp_path, language):
    # Without files, the raw ones are downloaded.
    splits = make_problem(f"translate_en{language}_multi30k").files(tmp_path)
    for stem, (pair,) in zip(("train", "val", "test_2016_flickr"), splits.values(), strict=True):
        for file, code in ((pair.source, "en"), (pair.target, language)):
            content = (shared_data / "multi30k" / f"{stem}.{code}").read_bytes()
            assert file.name == f"{stem}.{code}"
            assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
            assert file.url.endswith(f"/{file.name}.gz")


def test_the_form_is_that_of_the_files_or_must_be_given(tmp_path):
    problem = make_problem("translate_ende_multi30k")
    # French files do not make German ambiguous.
    for name in ("train.fr", "val.lc.norm.tok.de"):
        (tmp_path / name).touch()
    assert problem.resolved(tmp_path).text_form == "tok"
    (tmp_path / "train.en").touch()
    for code, ambiguous in (
        ("ambiguous_files", lambda: generate(problem, tmp_path / "data", tmp_path)),
        ("missing_setting", lambda: problem.score(["a"], ["a"])),
    ):
        with refused(code, *(f"--problem_config=text_form={form}" for form in ("raw", "tok"))):
            ambiguous()
