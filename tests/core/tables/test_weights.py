"""Table 3: the weights of each model, against the sums of their parts."""

import pytest

from t2t_keras import hyperparameters
from t2t_keras.hparams.table_3 import PARAMETER_ATTENTION, TABLE_3
from t2t_keras.tables import weights_table


def sum_of_parts(hparams, vocab_size):
    """The matrices of sections 3.1 to 3.5: no biases in attention, two in the feed-forward."""
    d, d_ff, (d_k, d_v) = hparams.d_model, hparams.d_ff, hparams.head_widths(hparams.d_model)
    attention = 2 * d * hparams.num_heads * (d_k + d_v)
    feed_forward = d * d_ff + d_ff + d_ff * d + d
    if hparams.feed_forward == "parameter_attention":  # W^Q and W^O, keys and values, width 64.
        heads = hparams.parameter_attention_heads
        feed_forward = 2 * d * heads * 64 + 2 * d_ff * heads * 64
    normalisation = 2 * d
    encoder_layer = attention + feed_forward + 2 * normalisation
    decoder_layer = 2 * attention + feed_forward + 3 * normalisation
    rows = vocab_size + 2 * hparams.max_positions * (hparams.positions == "learned")
    return rows * d + hparams.num_layers * (encoder_layer + decoder_layer)


def test_every_row_has_its_exact_weights():
    rows = weights_table().rows
    variations = [*TABLE_3, *PARAMETER_ATTENTION]
    assert [row["set"] for row in rows] == [variation.hparams_set for variation in variations]
    names = "row", "changed", "paper_steps", "paper_perplexity", "paper_bleu", "paper_millions"
    assert [tuple(row[name] for name in names) for row in rows[:2]] == [
        ("base", {}, 100_000, 4.92, 25.8, 65),
        ("A", {"num_heads": 1}, None, 5.29, 24.9, None),
    ]
    by_set = {row["set"]: row["weights"] for row in rows}
    assert by_set["transformer_base"] == 63_045_632
    assert by_set["transformer_big"] == 214_171_648
    assert by_set["transformer_parameter_attention_a"] == 63_014_912
    for name, count in by_set.items():
        assert count == sum_of_parts(hyperparameters.hparams(name), 37_000)
    assert weights_table(vocab_size=1000).rows[0]["weights"] == 63_045_632 - 36_000 * 512
    for row in rows:
        # The paper counted some other way, but the same model.
        if row["paper_millions"]:
            assert row["weights"] / 1e6 == pytest.approx(row["paper_millions"], rel=0.08)


# As t2t-eval --noeval_bleu and t2t-decoder measure one after the other.
MEASURED = dict(steps=9, checkpoint="a", bleu=None, perplexity=4.95)
SCORED = dict(steps=9, checkpoint="a", bleu=25.7)
LATER = dict(steps=10, checkpoint="b", bleu=None, perplexity=4.5)
BOTH = dict(steps=10, checkpoint="b", bleu=25.8, perplexity=4.5)


@pytest.mark.parametrize(
    ("results", "figures"),
    [
        ([MEASURED], (4.95, None, 9)),
        ([SCORED], (None, 25.7, 9)),
        ([MEASURED, SCORED, LATER], (4.95, 25.7, 9)),
        ([MEASURED, SCORED, BOTH], (4.5, 25.8, 10)),
        # Two checkpoints can have one step, as of an average and its newest source.
        ([SCORED, LATER | {"steps": 9}], (None, 25.7, 9)),
        # These are only shown below.
        ([dict(bleu=27.0, averaged=5), dict(bleu=27.0, hparams={"d_ff": 1})], (None, None, None)),
    ],
)
def test_our_perplexity_and_bleu_are_of_one_checkpoint(make_result, results, figures):
    dev = dict(split="dev", text="newstest2013 (3,000 lines)", averaged=1)
    shown = [make_result(**dev | result) for result in results]
    shown.append(make_result(**dev | {"split": "dev.upper", "decode": {"disturb": "upper"}}))
    table = weights_table([*shown, make_result(), make_result(**dev, problem="parsing_wsj")])
    assert list(table.results) == shown
    row = table.rows[0]
    assert (row["our_perplexity"], row["our_bleu"], row["our_steps"]) == figures
    assert not any(row["our_bleu"] for row in table.rows[1:])
