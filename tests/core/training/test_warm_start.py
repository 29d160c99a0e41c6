"""Warm starts: with fewer layers; with another vocabulary, against NumPy; and what they refuse."""

import itertools
import re

import keras
import numpy as np
import pytest
from refusals import refused
from words import Words

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trained_parts import choose_trained
from t2t_keras.training.warm_start import layers_to_keep, warm_start

FIRST, SECOND = (
    SentencePieceTokenizer.train([text] * 9, size, symbols=symbols)
    for text, size, symbols in (
        ("low lower lowest slow slower", 280, ()),
        ("slowest newest fastest café", 295, ["<2de>"]),
    )
)
SIZES = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2)
DEEP = dict(num_layers=4, num_decoder_layers=3)
APART = dict(share_embeddings="none", softmax_bias=True)


def spelled(piece):
    """Byte-pair encoding by the first vocabulary: the earliest merge first, no space in front."""
    ids = FIRST.vocabulary()
    parts = [[c] if c in ids else [f"<0x{byte:02X}>" for byte in c.encode()] for c in piece]
    parts = list(itertools.chain(*parts))
    while True:
        merges = {i: ids.get("".join(parts[i : i + 2]), 999) for i in range(len(parts) - 1)}
        if min(merges.values(), default=999) == 999:
            return [ids[part] for part in parts]
        at = min(merges, key=merges.get)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]


def expected(rows):
    """The rows for the second vocabulary, for those of the first."""
    special, ids = ["<pad>", "</s>", "<unk>"], FIRST.vocabulary()
    spellings = [[ids[p]] if p in ids else spelled(p) for p in SECOND.pieces(range(295))]
    spellings[:3] = [[ids[piece]] for piece in special]
    assert {len(spelling) for spelling in spellings} >= {1, 2, 3}
    return np.stack([np.mean([rows[i] for i in spelling], axis=0) for spelling in spellings])


def test_pieces_by_other_pieces():
    spellings, shared = FIRST.spell(SECOND)
    pieces = SECOND.vocabulary()
    texts = {piece: FIRST.pieces(spellings[i]) for piece, i in pieces.items()}
    assert texts["▁s"] == ["▁s"]
    assert texts["▁slowest"] == ["▁s", "lowe", "st"]
    assert texts["stest"] == ["st", "e", "st"]
    assert texts["ne"] == ["<0x6E>", "e"]
    assert texts["▁<2de>"] == ["▁", *(f"<0x{ord(c):02X}>" for c in "<2d"), "e", "<0x3E>"]
    assert texts["é"] == ["<0xC3>", "<0xA9>"]
    assert texts["<0xC3>"] == ["<0xC3>"]
    assert shared == len(FIRST.vocabulary().keys() & pieces)
    # A vocabulary of characters has no bytes, and a piece may have none of its characters.
    characters = SentencePieceTokenizer.train(["low"], 20, "char")
    of_characters, _ = characters.spell(SECOND)
    assert [of_characters[pieces[piece]] for piece in ("<0xC3>", "é", "▁<2de>")] == [[2], [2], [2]]


@pytest.fixture
def save_first(tmp_path, randomised):
    """save_first(**hparams): writes a run, of the first vocabulary; returns its model."""

    def save(tokenizer=FIRST, **hparams):
        run = run_with(tokenizer, **hparams)
        run.save(tmp_path)
        model = randomised(run.make_model())
        Checkpoints(tmp_path, {"model": model}, keep=1).save(5)
        return model

    return save


def run_with(tokenizer, problem="parallel_text", **hparams):
    hparams = hyperparameters.hparams("transformer_tiny", SIZES | hparams)
    return RunConfig(make_problem(problem), hparams, tokenizer=tokenizer)


def values_of(model):
    return {weight.path.partition("/")[2]: weight.numpy() for weight in model.weights}


@pytest.mark.parametrize("hparams", [{}, APART])
def test_rows_kept_made_and_all_else(save_first, tmp_path, capsys, hparams):
    old, run = values_of(save_first(**hparams)), run_with(SECOND, **hparams)
    model = run.make_model()
    warm_start(model, run, str(tmp_path), adapt_vocabulary=True)
    changed = 0
    for path, value in values_of(model).items():
        rows = old[path].T if path.endswith("reverse_embeddings") else old[path]
        if of_vocabulary := "embedding" in path:
            changed, rows = changed + 1, expected(rows)
        rows = rows.T if path.endswith("reverse_embeddings") else rows
        np.testing.assert_allclose(value, rows, atol=1e-6 * of_vocabulary, rtol=0, err_msg=path)
    assert changed == (4 if hparams else 1)
    num_shared = len(FIRST.vocabulary().keys() & SECOND.vocabulary())
    assert re.search(rf" 295 \D+ {num_shared} \D+ {295 - num_shared} ", capsys.readouterr().out)


def test_adapters_are_added_to_what_was_adapted(save_first, tmp_path):
    rows, run = save_first().embedding.table.embeddings.numpy(), run_with(SECOND, lora_rank=2)
    model = run.make_model()
    choose_trained(model, run.hparams)
    warm_start(model, run, str(tmp_path), adapt_vocabulary=True)
    actual = keras.ops.convert_to_numpy(model.embedding.table.embeddings)
    np.testing.assert_allclose(actual, expected(rows), atol=1e-6)


def test_what_was_shared_may_be_divided_but_not_the_other_way_round(save_first, tmp_path, capsys):
    rows = save_first().embedding.table.embeddings.numpy()
    run = run_with(FIRST.with_source(SECOND), **APART)
    model = run.make_model()
    warm_start(model, run, str(tmp_path), adapt_vocabulary=True)
    source, target = model.source_embedding.table, model.embedding.table
    np.testing.assert_allclose(source.embeddings.numpy(), expected(rows), atol=1e-6)
    np.testing.assert_array_equal(target.embeddings.numpy(), rows)
    np.testing.assert_array_equal(target.reverse_embeddings.numpy(), rows.T)
    assert not np.any(model.embedding.bias.numpy())
    assert re.search(r"^Target: \D+ 280 \D+ 280 \D+ 0 ", capsys.readouterr().out, re.MULTILINE)
    save_first(**APART)
    run = run_with(SECOND)
    with refused("other_model", "softmax bias", "softmax matrix", "source embeddings"):
        warm_start(run.make_model(), run, str(tmp_path), adapt_vocabulary=True)


@pytest.mark.parametrize(
    ("run", "code", "names"),
    [
        (run_with(SECOND, d_ff=9), "other_model", ["inner/kernel", "[8, 8]", "[8, 9]"]),
        (run_with(SECOND, num_layers=2), "other_model", ["encoder_1/", "[8"]),
        (run_with(SECOND, "algorithmic_identity_binary40"), "not_text", ["algorithmic_identity"]),
        (run_with(Words.of(["p", "e", "u", "a"])), "other_vocabulary_kind", [".test_words"]),
    ],
)
def test_what_does_not_fit_is_refused(save_first, tmp_path, run, code, names):
    save_first()
    with refused(code, *names):
        warm_start(run.make_model(), run, str(tmp_path), adapt_vocabulary=True)


def test_the_start_of_the_decoder_and_a_run_are_needed(save_first, tmp_path):
    start = FIRST.vocabulary()["▁lower"]
    rows = save_first(start_id=start).embedding.table.embeddings.numpy()
    run = run_with(SECOND, start_id=start)
    with refused("bad_value", "--hparams=start_id=2", "▁lower", start):
        warm_start(run.make_model(), run, str(tmp_path), adapt_vocabulary=True)
    run = run_with(SECOND, start_id=2)
    model = run.make_model()
    warm_start(model, run, str(tmp_path), adapt_vocabulary=True)
    np.testing.assert_array_equal(model.embedding.table.embeddings.numpy()[2], rows[start])
    (tmp_path / "run.json").unlink()
    with refused("no_run", "--adapt_vocabulary", tmp_path):
        warm_start(run.make_model(), run, str(tmp_path), adapt_vocabulary=True)


def test_evenly_spread_layers():
    chosen = [layers_to_keep(count, 6) for count in range(1, 7)]
    assert chosen[:4] == [[0], [0, 5], [0, 2, 5], [0, 2, 3, 5]]
    assert chosen[5] == [0, 1, 2, 3, 4, 5]


def test_layers_keep_their_weights(save_first, tmp_path, capsys):
    teacher = values_of(save_first(**DEEP))
    run = run_with(FIRST, num_layers=2, num_decoder_layers=1)
    model = run.make_model()
    warm_start(model, run, str(tmp_path), drop_layers=True)
    for name, value in values_of(model).items():
        before = re.sub("^encoder_1/", "encoder_3/", name)
        np.testing.assert_array_equal(value, teacher[before], err_msg=name)
    assert " encoder 0, 3; decoder 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "hparams", "names"),
    [
        ({}, dict(num_layers=5), ["encoder", " 4 ", " 5"]),
        ({}, dict(d_ff=16), ["feed_forward/inner/kernel", "[8, 8]", "[8, 16]"]),
        (dict(pre_norm=True), dict(num_layers=2), ["decoder_norm/beta", "[8]"]),
        (dict(softmax_bias=True), {}, ["bias", "[280]"]),
        (dict(attention_bias=True), dict(num_layers=2), ["decoder_", "/bias", "[8]"]),
    ],
)
def test_layers_that_do_not_fit_are_refused(save_first, tmp_path, theirs, hparams, names):
    save_first(**DEEP, **theirs)
    run = run_with(FIRST, **{**DEEP, **hparams})
    with refused("other_model", tmp_path / "model.ckpt-5", *names):
        warm_start(run.make_model(), run, str(tmp_path), drop_layers=True)


def test_flags_that_do_not_fit():
    for flag in ("drop_layers", "adapt_vocabulary"):
        with refused("conflicting_settings", f"--{flag}", "--warm_start_from"):
            TrainOptions(**{flag: True})
    with refused("conflicting_settings", "--adapt_vocabulary", "--drop_layers"):
        TrainOptions(warm_start_from="run", drop_layers=True, adapt_vocabulary=True)
