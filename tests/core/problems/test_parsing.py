import itertools
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from toy_treebank import as_mrg, random_tree, read_trees

from t2t_keras.bin import t2t_bleu, t2t_datagen, t2t_decoder, t2t_eval, t2t_evalb, t2t_trainer
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import read_results
from t2t_keras.parsing.trees import bracketed, cleaned, parsed, symbols, words
from t2t_keras.text.alignment import read_pharaoh
from t2t_keras.training.run_config import RunConfig

# A word like a symbol, a bracket, several roots, a tree without words.
ODD = """
( (FRAG (NP (NN /NP) (-LRB- -LRB-)) (. !)) (INTJ (UH yes)) )
( (X (-NONE- *)) )
"""


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """A directory in the Penn Treebank's form, a file for a parser's trees beside it."""
    generator = random.Random(5)
    folder = tmp_path_factory.mktemp("treebank")
    trees = {1: [3], 2: [9, 20], 15: [11], 21: [5], 22: [6], 23: [4], 24: [3]}
    for section, sizes in trees.items():
        for number, size in enumerate(sizes):
            text = "".join(as_mrg(random_tree(generator)) for _ in range(size))
            path = folder / "wsj" / f"{section:02d}" / f"wsj_{section:02d}{number:02d}.mrg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + (ODD if number == 0 else ""))
    (folder / "silver.trees").touch()
    return folder


def trees_in(treebank, *sections):
    """The clean trees of the treebank's files."""
    paths = [
        path for section in sections for path in sorted((treebank / f"wsj/{section}").iterdir())
    ]
    return list(filter(None, map(cleaned, itertools.chain(*map(read_trees, paths)))))


def test_sections_become_splits(treebank, pairs_of, tmp_path):
    problem = make_problem("parsing_wsj", "vocab_size=370")
    manifest = generate(problem, tmp_path, treebank, 2, chunk_pairs=20)
    generated = open_generated(problem, tmp_path)
    for split, sections in (("train", ("02", "15", "21")), ("dev", ["22"]), ("test", ["23"])):
        trees = trees_in(treebank, *sections)
        expected = [(" ".join(words(tree)), " ".join(symbols(tree))) for tree in trees]
        assert pairs_of(generated, split) == expected
        # The tree that has no words is counted, in the first file of each section.
        left_out = manifest["splits"][split]["left_out"]
        assert left_out["with an empty side"]["count"] == len(sections)
    # Each bracket and tag is a piece, and only those are.
    tokenizer = generated.tokenizer
    for source, target in pairs_of(generated, "train"):
        written = tokenizer.pieces(tokenizer.encode([target])[0][:-1])
        assert [piece.replace("\u2581", "") for piece in written] == target.split()
        read = tokenizer.pieces(tokenizer.encode([source])[0])
        assert not set(read) & set(written)
    line = "NP /NP (NP (NP) /NP) the NP/ /S"
    assert tokenizer.decode(tokenizer.encode([line])) == [line]
    pieces = tokenizer.pieces(tokenizer.encode([problem.preprocess(line)])[0])
    assert not any("(" in piece or ")" in piece for piece in pieces)


def test_silver_trees_follow_the_gold_ones(treebank, tmp_path):
    # After the gold ones by their order, before them by their names.
    silver = [tmp_path / "silver" / "02" / "a.mrg", tmp_path / "silver" / "b"]
    silver[0].parent.mkdir(parents=True)
    (tmp_path / "wsj").symlink_to(treebank / "wsj")
    for path in silver:
        path.touch()
    for folder, files in ((tmp_path, silver), (treebank, [treebank / "silver.trees"])):
        gold = make_problem("parsing_wsj").tree_files(folder)
        assert {path.parent.parent.name for path in gold["train"]} == {"wsj"}
        both = make_problem("parsing_wsj_semi").tree_files(folder)
        assert both == gold | {"train": [*gold["train"], *files]}
    for path in silver:
        path.write_text("(S (X silver))\n")
    [*first, last] = make_problem("parsing_wsj_semi").chunks(tmp_path, 1)["train"]
    names = [span.path.parent.parent.name for chunk in (*first, last) for span in chunk.spans]
    assert names == sorted(names, key=lambda name: name != "wsj") != sorted(names)


@pytest.mark.parametrize(
    ("name", "present", "code", "names"),
    [
        ("parsing_craft", [], "missing_source_files", ["train.trees", "dev.trees"]),
        ("parsing_wsj", [], "missing_source_files", [".mrg", "train", "dev"]),
        ("parsing_wsj_semi", [], "missing_source_files", ["silver.trees"]),
        ("parsing_wsj_semi", ["silver/a", "silver.trees"], "ambiguous_files", ["silver.trees"]),
    ],
)
def test_missing_trees(tmp_path, name, present, code, names):
    for path in present:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("(S (NN a))\n")
    with refused(code, *names):
        generate(make_problem(name), tmp_path, tmp_path)


def test_names_and_vocabularies():
    for name, size in (
        ("parsing_wsj", 16_000), ("parsing_wsj_semi", 32_000), ("wsj_parsing", 16_000),
        ("parsing_english_ptb8k", 8192), ("parsing_english_ptb16k", 16_384),
        ("parsing_craft", 8000), ("parsing_trees", 16_000),
    ):  # fmt: skip
        problem = make_problem(name)
        assert problem.vocab_size == size
        assert problem.decoding == {"beam_size": 21, "alpha": 0.3, "extra_length": 300}
    with refused("unknown_name", "'parsing_wsj_rev'"):
        make_problem("parsing_wsj_rev")
    with refused("bad_value", "vocab_kind"):
        make_problem("parsing_wsj", "vocab_kind=char")


def test_a_vocabulary_without_the_symbols_is_refused(run_dir, tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.trees").write_text("(S (ZZ (NN a)))\n")
    vocabulary = run_dir.parent / "parsing_wsj" / "vocab.model"
    problem = make_problem("parsing_trees", f"vocab_file={vocabulary}")
    with refused("other_vocabulary", "vocab.model", "(ZZ, /ZZ"):
        generate(problem, tmp_path, tmp_path)


@pytest.fixture(scope="module")
def run_dir(treebank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    problem = ["--problem=parsing_wsj", "--problem_config=vocab_size=370", f"--data_dir={folder}"]
    t2t_datagen.run(["t2t-datagen", *problem, f"--tmp_dir={treebank}", "--norecommend"])
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=500"
    kind = type(make_problem("parsing_wsj"))
    with pytest.MonkeyPatch.context() as patch:
        # A model that has learned nothing writes until it must stop.
        patch.setattr(kind, "decoding", {**kind.decoding, "max_length": 12})
        t2t_trainer.run(
            ["t2t-trainer", *problem, f"--output_dir={folder / 'run'}", "--train_steps=3",
             "--hparams_set=transformer_tiny", f"--hparams={hparams}", "--eval_bleu",
             "--best_by=f1"]
        )  # fmt: skip
    return folder / "run"


def decode(run_dir, *flags):
    t2t_decoder.run(["t2t-decoder", f"--output_dir={run_dir}", *map(str, flags)])


def test_trees_are_not_disturbed(run_dir, capsys):
    with pytest.raises(SystemExit) as exit_:
        decode(run_dir, "--disturb=upper")
    assert exit_.value.__cause__.code == "not_text"
    error = capsys.readouterr().err
    assert "--disturb" in error
    assert "parsing_wsj" in error


def test_decoding_is_the_paper_s_and_prints_f1(run_dir, treebank, tmp_path, capsys):
    [evaluated] = (run_dir / "evaluations.json").read_text().splitlines()
    assert 0 <= json.loads(evaluated)["f1"] <= 100
    results = tmp_path / "results.jsonl"
    decode(run_dir, "--decode_hparams=max_length=12", f"--results_file={results}")
    printed = capsys.readouterr().out
    [result] = read_results(results)
    assert result.decode.items() >= {"beam_size": 21, "alpha": 0.3, "extra_length": 300}.items()
    assert result.bleu is None
    assert f"F1 = {result.f1:.2f} (" in printed
    # Beside the symbols stand trees over the words, that evalb can read.
    output = run_dir / "decodes" / "parsing_wsj.dev.beam21.alpha0.3.decodes"
    trees = [cleaned(tree) for tree in read_trees(Path(f"{output}.trees"))]
    gold = trees_in(treebank, "22")
    reference = Path(f"{output}.reference.trees")
    assert reference.read_text().splitlines() == list(map(bracketed, gold))
    assert [words(tree) for tree in trees] == [words(tree) for tree in gold]
    # Trees and score are made by the same alignments.
    alignments = list(map(read_pharaoh, Path(f"{output}.alignments").read_text().splitlines()))
    lines = output.read_text().split("\n")[:-1]
    sentences = [" ".join(words(tree)) for tree in gold]
    problem = RunConfig.load(run_dir).problem
    assert [*map(problem.postprocess, sentences, lines, alignments)] == [*map(bracketed, trees)]
    score = problem.score(lines, list(map(bracketed, gold)), sentences, alignments)
    assert score.f1 == pytest.approx(result.f1, abs=1e-3)
    t2t_evalb.run(["t2t-evalb", f"--gold={reference}", f"--test={output}.trees"])
    assert f"Number of sentence        = {len(gold):6d}" in capsys.readouterr().out


def test_a_user_s_sentences_with_brackets(run_dir, tmp_path, capsys):
    source, output, gold = tmp_path / "in.txt", tmp_path / "out", tmp_path / "out.reference.trees"
    source.write_text("the dog ( sees )\n\n  red  house \n")
    trees = "(S (NP (DT the) (NN dog)) (PRN (-LRB- -LRB-) (VBZ sees) (-RRB- -RRB-)))"
    gold.write_text(f"{trees}\n\n( (NP (JJ red) (NN house)) )\n")
    flags = [f"--decode_from_file={source}", f"--decode_to_file={output}"]
    flags += ["--decode_hparams=beam_size=1,max_length=9"]
    # A reference is not written over.
    with pytest.raises(SystemExit):
        decode(run_dir, *flags, f"--decode_reference={gold}")
    assert str(gold) in capsys.readouterr().err
    assert gold.read_text().startswith(trees)
    decode(run_dir, *flags, f"--decode_reference={gold.rename(tmp_path / 'gold')}")
    first, blank, second = Path(f"{output}.trees").read_text().split("\n")[:-1]
    assert blank == ""
    for line, sentence in ((first, "the dog -LRB- sees -RRB-"), (second, "red house")):
        [tree] = parsed(line)
        assert (tree.label, " ".join(words(tree))) == ("TOP", sentence)
    assert " 3 " in capsys.readouterr().out.splitlines()[-1]
    assert gold.read_text() == f"(TOP {trees})\n\n(TOP (NP (JJ red) (NN house)))\n"


def test_checkpoints_are_scored_by_f1(run_dir, treebank, tmp_path, capsys, monkeypatch):
    run = shutil.copytree(run_dir, tmp_path / "run")
    right = [Translation(" ".join(symbols(tree)), 0.0) for tree in trees_in(treebank, "22")]
    monkeypatch.setattr(Translator, "translate", lambda self, lines: right)
    t2t_eval.run(["t2t-eval", f"--output_dir={run}", "--worker_gpu=0"])
    assert "F1 = 100.00 " in capsys.readouterr().out
    [result] = read_results(run / "eval_dev" / "results.jsonl")
    assert (result.f1, result.bleu, result.bleu_signature) == (100, None, "")


def test_parses_have_no_bleu(tmp_path, capsys):
    parses = tmp_path / "parsing_wsj.dev-3"
    parses.write_text("(S (NN) /S)\n")
    (tmp_path / "parsing_wsj.dev.json").write_text('{"problem": "parsing_wsj"}')
    with pytest.raises(SystemExit):
        t2t_bleu.run(["t2t-bleu", f"--translations_dir={tmp_path}", f"--reference={parses}"])
    assert "parsing_wsj.dev-<step>.trees" in capsys.readouterr().err


def test_a_run_knows_its_symbols(run_dir):
    record = RunConfig.load(run_dir)
    pieces = record.tokenizer.vocabulary()
    glued = next(piece for piece in pieces if piece.isalpha())
    ids = [pieces[piece] for piece in ("\u2581(NP", glued, "\u2581(NN)", "\u2581/NP)")]
    [output] = record.tokenizer.decode([ids])
    assert output == f"(NP{glued} (NN) /NP)"
    assert record.problem.postprocess("dog", output) == "(TOP (NN dog))"
    score = record.problem.score([output], ["(NN)"], ["dog"])
    assert score.repairs["unknown symbol"] == 1


def test_tags_belong_to_the_words_that_were_looked_at(run_dir):
    problem = RunConfig.load(run_dir).problem
    output = "(S (NN) (NP (NN) (ZZ) (NN) /NP) /S)".split()
    # The first tag looks at the first word, the second at the third; (ZZ) is no symbol.
    weights = np.full([len(output), 3], 0.1, np.float32)
    weights[1, 0] = weights[3, 2] = 0.8
    weights[4] = 1.0
    weights[5, 1] = 0.3
    alignment = problem.align(output, weights)
    assert alignment == [(0, 1), (2, 3)]
    tree = problem.postprocess("dogs see cats", " ".join(output), alignment)
    assert tree == "(TOP (S (NN dogs) (XX see) (NP (NN cats))))"
