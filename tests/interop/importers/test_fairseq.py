"""Models that fairseq trained and saved (experiments/importing_models), as runs."""

import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from torch_files import save_as_torch

from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.importers.fairseq import read_fairseq
from t2t_keras.interop.importers.files import read_pytorch
from t2t_keras.interop.importers.pickles import to_containers
from t2t_keras.special_ids import SPACE
from t2t_keras.text.tokenizer import vocabulary_settings
from t2t_keras.training.checkpoints import load_model

FOLDER = Path(__file__).parent / "fixtures" / "fairseq"
SHARED = FOLDER / "shared"
SPM = FOLDER / "spm.model"
MARIAN = FOLDER.parent / "marian_shared" / "target.spm"
LANGUAGES = ("en", "de")


@pytest.mark.parametrize("kind", ["shared", "many"])
def test_answers(kind, import_run, check_answers, tmp_path, capsys):
    folder = FOLDER / kind
    run = import_run(tmp_path / "run", "fairseq", folder / "checkpoint.pt", f"{folder},{SPM}")
    vocabulary = vocabulary_settings(run, load_model(run).tokenizer)
    printed = capsys.readouterr().out
    assert f"--problem_config={vocabulary}," in printed
    assert f"--warm_start_from={run} " in printed
    limits = "min_length=2,extra_length=50"
    check_answers(run, folder, lambda size: [1, 2, 3, 0, *range(4, size)], limits)
    assert len(list(run.glob("model.ckpt-[1-9]*.safetensors"))) == 1  # The steps of its training.


def test_words_that_are_divided_already(import_run, tmp_path):
    """As those of subword-nmt: without a SentencePiece model, source and target are such words."""
    for code in LANGUAGES:
        words = (FOLDER / "many" / f"dict.{code}.txt").read_text(encoding="utf-8")
        (tmp_path / f"dict.{code}.txt").write_text(words.replace(SPACE, "@"), encoding="utf-8")
    checkpoint = FOLDER / "many" / "checkpoint.pt"
    run = import_run(tmp_path / "run", "fairseq", checkpoint, tmp_path)
    decoding = "beam_size=1,min_length=2,extra_length=50"
    translator = Translator.from_run(run, decode_hparams=decoding)
    answers = np.load(FOLDER / "many" / "answers.npz")
    source, target = (
        (tmp_path / f"dict.{code}.txt").read_text(encoding="utf-8").split("\n")
        for code in LANGUAGES
    )
    for number in range(8):
        line, expected = (
            " ".join(words[i - 4].partition(" ")[0] for i in answers[f"{kind}_{number}"][:-1])
            for kind, words in (("source", source), ("greedy", target))
        )
        assert translator.translate([line])[0].text == expected


def test_older_files():
    new, old = (
        read_fairseq(SHARED / f"{name}.pt", LANGUAGES, SPM) for name in ("checkpoint", "old")
    )
    assert new.weights.keys() == old.weights.keys()
    for name, value in new.weights.items():
        np.testing.assert_array_equal(old.weights[name], value)
    assert old.hparams == new.hparams
    assert (old.steps, new.steps) == (300, 300)


def test_files_saved_again_as_the_documentation_says(tmp_path):
    content = read_pytorch(SHARED / "checkpoint.pt")
    expected = read_fairseq(SHARED / "checkpoint.pt", LANGUAGES, SPM)
    # What is no weight, and a copy of weights.
    unused = ("encoder.version", "decoder.embed_positions._float_tensor")
    unused_weights = dict.fromkeys((*unused, "encoder.layers.0.in_proj_weight"), np.ones(1))
    again = {
        "args": to_containers(content["cfg"]["model"], "it"),
        "model": content["model"] | unused_weights,
    }
    again["optimizer_history"] = [{"num_updates": 5}, {"num_updates": 7}]
    path = save_as_torch(again, tmp_path / "again.pt")
    actual = read_fairseq(path, LANGUAGES, f"{SHARED}, {SPM}")
    assert actual.steps == 7
    assert actual.hparams == expected.hparams
    assert actual.weights.keys() == expected.weights.keys()
    for name, value in expected.weights.items():
        np.testing.assert_array_equal(actual.weights[name], value)


@pytest.mark.parametrize("output_name", ["decoder.output_projection.weight", "decoder.embed_out"])
def test_an_output_of_its_own(tmp_path, output_name):
    """Nothing is tied: each of the three tables has its rows in our order."""
    content = read_pytorch(FOLDER / "many" / "checkpoint.pt")
    values = to_containers(content["cfg"]["model"], "it")
    values |= {"share_all_embeddings": False, "share_decoder_input_output_embed": False}
    weights, random = dict(content["model"]), np.random.default_rng(1)
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", output_name)
    ours = ("source_embedding/table/embeddings", "target_embedding/table/embeddings")
    sizes = [len(weights[name]) for name in (*names[:2], names[1])]
    tables = [random.normal(size=(size, values["encoder_embed_dim"])) for size in sizes]
    weights |= dict(zip(names, tables, strict=True))
    path = save_as_torch({"args": values, "model": weights}, tmp_path / "untied.pt")
    actual = read_fairseq(path, LANGUAGES, f"{FOLDER / 'many'},{SPM}")
    assert actual.hparams["share_embeddings"] == "none"
    source, target, output = (
        table[[1, 2, 3, 0, *range(4, len(table))]].astype(np.float32) for table in tables
    )
    np.testing.assert_array_equal(actual.weights[ours[0]], source)
    np.testing.assert_array_equal(actual.weights[ours[1]], target)
    reverse = actual.weights["target_embedding/table/reverse_embeddings"]
    np.testing.assert_array_equal(reverse, output.T)


@pytest.mark.parametrize("name", ["encoder.layers.0.fc1.weight_g", "encoder.layers.0.fc3.bias"])
def test_a_weight_without_counterpart_is_named(tmp_path, name):
    content = read_pytorch(SHARED / "checkpoint.pt")
    again = {"args": to_containers(content["cfg"]["model"], "it"), "model": content["model"]}
    again["model"] |= {name: np.ones(1)}
    with refused("unknown_weight", name):
        read_fairseq(save_as_torch(again, tmp_path / "it.pt"), LANGUAGES, f"{SHARED},{SPM}")


def test_another_task_is_refused(tmp_path):
    content = read_pytorch(SHARED / "checkpoint.pt")
    values = to_containers(content["cfg"]["model"], "it")
    cfg = {"model": values, "task": {"_name": "other"}}
    for settings in ({"args": values | {"task": "other"}}, {"cfg": cfg}):
        path = save_as_torch(settings | {"model": content["model"]}, tmp_path / "it.pt")
        with refused("not_supported", "it.pt: task='other'"):
            read_fairseq(path, LANGUAGES, SPM)


def test_a_shorter_table_of_positions_ends_in_its_last_row(tmp_path):
    content = read_pytorch(FOLDER / "many" / "checkpoint.pt")
    weights, name = dict(content["model"]), "encoder.embed_positions.weight"
    weights[name] = shorter = np.asarray(weights[name])[:-3]
    again = {"args": to_containers(content["cfg"]["model"], "it"), "model": weights}
    path = save_as_torch(again, tmp_path / "shorter.pt")
    actual = read_fairseq(path, LANGUAGES, f"{FOLDER / 'many'},{SPM}")
    table, longer = (actual.weights[f"{side}_positions/table"] for side in ("source", "target"))
    behind = len(longer) - len(shorter)
    assert behind > 0
    assert actual.hparams["max_positions"] == len(longer)
    np.testing.assert_array_equal(table, [*shorter, *[shorter[-1]] * behind])


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize("old", [False, True])
def test_a_file_that_would_run_code_is_refused(old, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({"model": Harmful()}, protocol=2)
    if old:
        parts = [0x1950A86A20F9469CFC6C, 1001, {}]
        Path("it.pt").write_bytes(b"".join(pickle.dumps(part, 2) for part in parts) + content)
    else:
        with zipfile.ZipFile("it.pt", "w") as archive:
            archive.writestr("archive/data.pkl", content)
    with refused("might_run_code", ".mkdir"):
        read_fairseq("it.pt", LANGUAGES)
    assert not Path("harm").exists()


def test_a_cut_file_is_refused(tmp_path):
    content = (SHARED / "old.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) - 9])
    with refused("damaged_file", "cut.pt"):
        read_fairseq(tmp_path / "cut.pt", LANGUAGES)


def test_a_word_that_is_in_a_dictionary_twice(tmp_path):
    """fairseq then says which one counts, behind the word and its count."""
    for code in LANGUAGES:
        lines = (SHARED / f"dict.{code}.txt").read_text(encoding="utf-8").split("\n")
        lines[0] += " #fairseq:overwrite"
        (tmp_path / f"dict.{code}.txt").write_text("\n".join(lines), encoding="utf-8")
    actual, expected = (
        read_fairseq(SHARED / "checkpoint.pt", LANGUAGES, f"{folder},{SPM}").tokenizer
        for folder in (tmp_path, SHARED)
    )
    assert actual.vocabulary() == expected.vocabulary()


def test_dictionaries_are_files_or_next_to_the_model():
    many, shared = (FOLDER / kind for kind in ("many", "shared"))
    two = ",".join(str(many / f"dict.{code}.txt") for code in LANGUAGES)
    for folder, vocabulary in ((many, two), (many, ""), (shared, shared / "dict.de.txt")):
        actual, expected = (
            read_fairseq(folder / "checkpoint.pt", LANGUAGES, f"{files},{SPM}").tokenizer
            for files in (vocabulary, folder)
        )
        assert actual.vocabulary() == expected.vocabulary()
        assert actual.source.vocabulary() == expected.source.vocabulary()


def test_another_dictionary_is_named(tmp_path):
    shutil.copy(SHARED / "dict.en.txt", tmp_path)
    lines = (SHARED / "dict.de.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "dict.de.txt").write_text("".join(lines[1:]), encoding="utf-8")
    actual, expected = len(lines) - 1, len(lines)
    with refused("other_vocabulary", "dict.de.txt", f" {expected} ", f" {actual}."):
        read_fairseq(SHARED / "checkpoint.pt", LANGUAGES, f"{tmp_path},{SPM}")
    with refused("not_read", "dict.fr.txt"):
        read_fairseq(SHARED / "checkpoint.pt", ("fr", "de"), SPM)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "not_sentencepiece"),
        (MARIAN.read_bytes(), "other_vocabulary"),
    ],
)
@pytest.mark.parametrize("kind", ["shared", "many"])
def test_another_sentencepiece_model_is_refused(kind, content, code, tmp_path):
    (tmp_path / "other.model").write_bytes(content)
    vocabulary = f"{FOLDER / kind},{tmp_path / 'other.model'}"
    with refused(code, "other.model"):
        read_fairseq(FOLDER / kind / "checkpoint.pt", LANGUAGES, vocabulary)


def test_the_other_direction_and_pieces_without_their_model_are_refused():
    with refused("other_direction", "en to de"):
        read_fairseq(SHARED / "checkpoint.pt", ("de", "en"), SPM)
    with refused("no_vocabulary", ".model", "--vocabulary"):
        read_fairseq(SHARED / "checkpoint.pt", LANGUAGES)
