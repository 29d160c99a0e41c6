"""Table 3: the weights of each model, against the sums of their parts."""

import json

import pytest

from t2t_keras.hyperparameters import HParams
from t2t_keras.models.transformer import Transformer
from t2t_keras.tables import weights
from t2t_keras.tables.rendering import render
from t2t_keras.tables.weights import changed_hparams, count_weights, weights_table

WEIGHTS = {
    "transformer_base": 63_045_632,
    "transformer_h1": 63_045_632,
    "transformer_h4": 63_045_632,
    "transformer_h16": 63_045_632,
    "transformer_h32": 63_045_632,
    "transformer_k128": 55_967_744,
    "transformer_k256": 58_327_040,
    "transformer_l2": 33_644_544,
    "transformer_l4": 48_345_088,
    "transformer_l8": 77_746_176,
    "transformer_hs256": 26_816_512,
    "transformer_hs1024": 163_815_424,
    "transformer_ff1024": 50_450_432,
    "transformer_ff4096": 88_236_032,
    "transformer_dr0": 63_045_632,
    "transformer_dr2": 63_045_632,
    "transformer_ls0": 63_045_632,
    "transformer_ls2": 63_045_632,
    "transformer_learned_positions": 63_307_776,
    "transformer_big": 214_171_648,
    "transformer_parameter_attention_a": 63_014_912,
    "transformer_parameter_attention_b": 63_014_912,
}


# What each row of Table 3 changes in the sizes of `sum_of_parts`; the other rows change none.
SIZES = {
    "transformer_h1": dict(h=1, d_k=512, d_v=512),
    "transformer_h4": dict(h=4, d_k=128, d_v=128),
    "transformer_h16": dict(h=16, d_k=32, d_v=32),
    "transformer_h32": dict(h=32, d_k=16, d_v=16),
    "transformer_k128": dict(d_k=16),
    "transformer_k256": dict(d_k=32),
    "transformer_l2": dict(n=2),
    "transformer_l4": dict(n=4),
    "transformer_l8": dict(n=8),
    "transformer_hs256": dict(d=256, d_k=32, d_v=32),
    "transformer_hs1024": dict(d=1024, d_k=128, d_v=128),
    "transformer_ff1024": dict(d_ff=1024),
    "transformer_ff4096": dict(d_ff=4096),
    # A table for the source and one for the target, of 256 positions.
    "transformer_learned_positions": dict(positions=2 * 256),
    "transformer_big": dict(d=1024, d_ff=4096, h=16),
    "transformer_parameter_attention_a": dict(h_p=8, n_p=1536),
    "transformer_parameter_attention_b": dict(h_p=16, n_p=512),
}


def sum_of_parts(n=6, d=512, d_ff=2048, h=8, d_k=64, d_v=64, positions=0, h_p=0, n_p=0):
    """The matrices of sections 3.1 to 3.5: no biases in attention, two in the feed-forward."""
    attention = 2 * d * h * d_k + 2 * d * h * d_v
    feed_forward = d * d_ff + d_ff + d_ff * d + d
    if h_p:  # W^Q and W^O, keys and values, of width 64.
        feed_forward = 2 * d * h_p * 64 + 2 * n_p * h_p * 64
    normalisation = 2 * d
    encoder_layer = attention + feed_forward + 2 * normalisation
    decoder_layer = 2 * attention + feed_forward + 3 * normalisation
    return (37_000 + positions) * d + n * (encoder_layer + decoder_layer)


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_figures_are_the_sums_of_their_parts(name):
    assert sum_of_parts(**SIZES.get(name, {})) == WEIGHTS[name]


@pytest.fixture(scope="module")
def rows():
    return weights_table().rows


def test_every_row_in_order_with_its_exact_weights(rows):
    assert [(row["set"], row["weights"]) for row in rows] == list(WEIGHTS.items())


def test_the_paper_s_figures_stand_beside_ours(rows):
    by_set = {row["set"]: row for row in rows}
    base, big = by_set["transformer_base"], by_set["transformer_big"]
    assert (base["row"], base["paper_steps"], base["paper_perplexity"]) == ("base", 100_000, 4.92)
    assert base["changed"] == {}
    assert big["changed"] == {
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,
        "dropout": 0.3,
        "train_steps": 300_000,
    }
    assert (big["paper_steps"], big["paper_bleu"], big["paper_millions"]) == (300_000, 26.4, 213)
    assert by_set["transformer_k128"]["changed"] == {"d_k": 16}
    for row in rows:
        if row["paper_millions"]:
            # The paper counted some other way, but the same model.
            assert row["weights"] / 1e6 == pytest.approx(row["paper_millions"], rel=0.08)


def test_the_vocabulary_is_one_matrix_and_models_made_later_have_values():
    hparams = HParams(num_layers=1, d_model=16, d_ff=8, num_heads=2)
    assert count_weights(hparams, 1010) - count_weights(hparams, 1000) == 10 * 16
    # Only what is counted is made without values.
    embedding, *_ = Transformer.from_hparams(hparams, 1000).get_weights()
    assert embedding.std() > 0


def test_what_differs_from_a_set():
    changed = HParams(num_heads=1, dropout=0.0)
    assert changed_hparams(changed) == {"num_heads": 1, "dropout": 0.0}
    assert changed_hparams(changed, "transformer_h1") == {"dropout": 0.0}
    assert changed_hparams(changed, "a set of the user's own") == changed_hparams(changed)


@pytest.fixture
def uncounted(monkeypatch):
    """Weights are not counted, which takes most of the time."""
    monkeypatch.setattr(weights, "count_weights", lambda *arguments: 0)


def test_results_of_the_dev_set_stand_beside_the_paper_s(make_result, make_dev_result, uncounted):
    shown = [make_dev_result(bleu=25.0), make_dev_result(hparams={"d_ff": 1})]
    # Table 3 is without averaging.
    shown.append(make_dev_result(bleu=26.0, averaged=5))
    others = [make_result(), make_dev_result(problem="parsing_wsj")]
    table = weights_table([*shown, *others])
    assert list(table.results) == shown
    assert {
        row["set"]: (row["our_bleu"], row["our_steps"]) for row in table.rows if row["our_bleu"]
    } == {"transformer_base": (25.0, 100_000)}


@pytest.fixture
def base_row(uncounted):
    """Returns a function that gives our PPL, our BLEU and the step of the base model's row."""

    def row(*results):
        (row, *_) = weights_table(results).rows
        return row["our_perplexity"], row["our_bleu"], row["our_steps"]

    return row


def test_our_perplexity_and_bleu_are_of_one_checkpoint(make_dev_result, base_row):
    # As t2t-eval --noeval_bleu and t2t-decoder measure one after the other.
    measured = make_dev_result(steps=9, checkpoint="a", bleu=None, perplexity=4.95)
    scored = make_dev_result(steps=9, checkpoint="a", bleu=25.7)
    later = make_dev_result(steps=10, checkpoint="b", bleu=None, perplexity=4.5)
    assert base_row(measured) == (4.95, None, 9)
    assert base_row(scored) == (None, 25.7, 9)
    assert base_row(measured, scored, later) == (4.95, 25.7, 9)
    both = make_dev_result(steps=10, checkpoint="b", bleu=25.8, perplexity=4.5)
    assert base_row(measured, scored, both) == (4.5, 25.8, 10)
    assert base_row() == (None, None, None)


def test_our_perplexity_is_printed_in_every_format(make_dev_result, uncounted):
    table = weights_table([make_dev_result(perplexity=4.95)])
    assert "our PPL" in render(table, "text")
    heading, _, base, *_ = (
        [cell.strip() for cell in line.split("|")]
        for line in render(table, "markdown").splitlines()
        if line.startswith("|")
    )
    assert dict(zip(heading, base, strict=True))["our PPL"] == "4.95"
    assert json.loads(render(table, "json"))[0]["our_perplexity"] == 4.95
