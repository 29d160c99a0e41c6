"""Placeholders of training text become symbols, which the model and its users see."""

import pytest

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import decode_config
from t2t_keras.workbench.placeholders.finding import SYMBOLS


def problem_of(config=""):
    return make_problem("parallel_text", f"source_language=en,target_language=de{config}")


LINES = {
    "en": ["_Open %s in {name}", "Save %d of %d files", "see http://a.b/c"],
    "de": ["%s in {name} ö_ffnen", "%d von %d Dateien sichern", "siehe http://a.b/d"],
}


@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_placeholders_of_both_sides_become_symbols(tmp_path, pairs_of, kind):
    for split in ("train", "dev"):
        for language, lines in LINES.items():
            text = "".join(f"{line}\n" for line in lines * (30 if split == "train" else 1))
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    problem = problem_of(
        f",transforms=placeholders,vocab_kind={kind},vocab_size=316,shared_vocabulary=false"
    )
    generate(problem, tmp_path / "data", tmp_path)
    generated = open_generated(problem, tmp_path / "data")
    pieces = generated.tokenizer.vocabulary()
    assert set(SYMBOLS) <= pieces.keys()
    assert not {"%", "{"} & pieces.keys(), "the vocabulary is learned from what models see"
    for split in ("train", "dev"):
        opened, saved, seen = pairs_of(generated, split)[:3]
        assert [sign for sign in opened[0] if sign in SYMBOLS] == [
            sign for sign in opened[1] if sign in SYMBOLS
        ]
        assert (opened[0][:5], opened[1][-6:]) == ("Open ", "öffnen")
        assert saved[0][5] in SYMBOLS
        assert len({*saved[0]} & {*saved[1]} & {*SYMBOLS}) == 2
        assert not any(sign in side for side in seen for sign in SYMBOLS)
    # References are those that people read.
    written = (generated.directory / "dev.target.txt").read_text(encoding="utf-8")
    assert written.split("\n")[:3] == LINES["de"]
    lines = [source for source, _ in pairs_of(generated, "train")[:3]]
    graph = generated.tokenizer.source.graph_tokenizer().tokenize(lines).to_list()
    assert graph == [ids.tolist() for ids in generated.tokenizer.source.encode(lines)]


def test_models_of_symbols_check_them_and_say_so():
    problem = problem_of(",transforms=placeholders")
    assert decode_config("", problem.decoding_defaults).check_placeholders
    assert not decode_config(
        "check_placeholders=false", problem.decoding_defaults
    ).check_placeholders
    assert "shield(line" in problem.raw_output
    assert (problem_of().raw_output, problem_of().decoding_defaults) == ("", {})
    multilingual = make_problem(
        "multilingual_text", "train=a.en-de,dev=a.en-de,target_language=de,transforms=placeholders"
    )
    assert list(multilingual.pair_transforms) == ["placeholders"]
