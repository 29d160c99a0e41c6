import dataclasses
import hashlib

import pytest
import sacrebleu

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.errors import UserError

LANGUAGES = [("translate_ende_multi30k", "de"), ("translate_enfr_multi30k", "fr")]
COUNTS = {"train": 29_000, "dev": 1_014, "test": 1_000}
STEMS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


@pytest.mark.parametrize(("name", "language"), LANGUAGES)
@pytest.mark.parametrize(("form", "tokenize"), [("raw", "13a"), ("tok", "none")])
def test_the_data_set(shared_data, tmp_path, name, language, form, tokenize):
    problem = registry.problem(name, "vocab_size=4000")
    assert problem.languages() == ("en", language)
    folder = shared_data / "multi30k" / ("tok" if form == "tok" else ".")
    generate(problem, tmp_path, folder)
    generated = open_generated(problem, tmp_path)
    assert generated.problem.text_form == form
    assert generated.problem.tokenize == tokenize
    for split, count in COUNTS.items():
        assert generated.manifest["splits"][split]["examples"] == count
        assert generated.manifest["splits"][split]["left_out"] == {}
        if split != "train":
            ending = ".lc.norm.tok" if form == "tok" else ""
            for lines, side in zip(generated.text(split), ("en", language), strict=True):
                path = folder / f"{STEMS[split]}{ending}.{side}"
                assert "".join(f"{line}\n" for line in lines) == path.read_bytes().decode()
    # The form that was found is the same as the form asked for, the other is not.
    open_generated(registry.problem(name, f"vocab_size=4000,text_form={form}"), tmp_path)
    other = {"raw": "tok", "tok": "raw"}[form]
    with pytest.raises(UserError, match=f"text_form={form} there, text_form={other} asked for"):
        open_generated(registry.problem(name, f"vocab_size=4000,text_form={other}"), tmp_path)


@pytest.mark.parametrize(("name", "language"), LANGUAGES)
def test_sizes_and_checksums_are_those_of_the_raw_files(shared_data, name, language):
    files = registry.problem(name, "text_form=raw").files(shared_data)
    for split, (pair,) in files.items():
        assert pair.source.name == f"{STEMS[split]}.en"
        assert pair.target.name == f"{STEMS[split]}.{language}"
        for file in (pair.source, pair.target):
            content = (shared_data / "multi30k" / file.name).read_bytes()
            assert file.size == len(content)
            assert file.sha256 == hashlib.sha256(content).hexdigest()
            assert file.url.endswith(f"/{file.name}.gz")


def test_both_forms_are_ambiguous(tmp_path):
    for name in ("train.en", "val.lc.norm.tok.de"):
        (tmp_path / name).touch()
    problem = registry.problem("translate_ende_multi30k")
    with pytest.raises(UserError, match=r"text_form=raw or --problem_config=text_form=tok"):
        generate(problem, tmp_path / "data", tmp_path)
    for form, name in (("raw", "val.de"), ("tok", "val.lc.norm.tok.de")):
        decided = dataclasses.replace(problem, text_form=form)
        assert decided.files(tmp_path)["dev"][0].target.name == name


def test_french_files_do_not_make_german_ambiguous(tmp_path):
    for name in ("train.fr", "val.lc.norm.tok.de"):
        (tmp_path / name).touch()
    assert registry.problem("translate_ende_multi30k").resolved(tmp_path).text_form == "tok"


def test_without_files_the_raw_ones_are_wanted(tmp_path):
    files = registry.problem("translate_enfr_multi30k").files(tmp_path)
    assert [pair.target.name for (pair,) in files.values()] == [
        "train.fr",
        "val.fr",
        "test_2016_flickr.fr",
    ]


def test_tokenised_files_are_put_there_by_hand(tmp_path):
    problem = registry.problem("translate_ende_multi30k", "text_form=tok")
    with pytest.raises(UserError) as caught:
        generate(problem, tmp_path / "data", tmp_path)
    listed = [line.split()[0] for line in str(caught.value).splitlines()[1:]]
    assert listed == [
        f"{stem}.lc.norm.tok.{side}" for stem in STEMS.values() for side in ("en", "de")
    ]


@pytest.mark.parametrize(("form", "tokenize"), [("raw", "13a"), ("tok", "none")])
def test_score(form, tokenize):
    problem = registry.problem("translate_ende_multi30k", f"text_form={form}")
    hypotheses = ["ein mann (links) fährt rad, oder nicht."]
    references = ["ein mann ( links ) fährt rad , oder nicht ."]
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenize, force=True).score
    assert problem.score(hypotheses, references).bleu == pytest.approx(expected)


def test_the_score_of_an_unknown_form_is_refused():
    with pytest.raises(UserError, match="depends on the form of its text"):
        registry.problem("translate_ende_multi30k").score(["a"], ["a"])


def test_the_languages_are_fixed():
    with pytest.raises(UserError, match=r"no setting .*'target_language'"):
        registry.problem("translate_ende_multi30k", "target_language=fr")
