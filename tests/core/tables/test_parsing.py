"""Table 4: parsers, and our two models."""

from t2t_keras import hyperparameters
from t2t_keras.tables import parsing_table


def test_rows_with_weights_and_results(make_result):
    def parsed(**fields):
        known = dict(set="transformer_parsing_base", problem="parsing_wsj", text="", bleu=None)
        return make_result(**known | fields)

    shown = [
        parsed(f1=90.5),
        # Other text, other trees, another vocabulary or another set is shown below only.
        parsed(f1=75.0, problem="parsing_craft"),
        parsed(f1=93.3, problem="parsing_wsj_semi"),
        parsed(f1=70.0, problem="parsing_english_ptb8k"),
        parsed(f1=0.0, set="transformer_parsing_big"),
    ]
    # As t2t-eval --noeval_bleu leaves it; and a translation.
    table = parsing_table([*shown, parsed(perplexity=1.1), make_result()])
    assert list(table.results) == shown
    figures = [row["paper_f1"] for row in table.rows]
    assert figures == [88.3, 90.4, 90.4, 91.7, 91.3, 91.3, 91.3, 92.1, 92.1, 92.7, 93.0, 93.3]
    base, big = (hyperparameters.hparams(f"transformer_parsing_{size}") for size in ("base", "big"))
    names = "set", "paper_f1", "our_f1", "vocab_size", "weights"
    assert [tuple(row[name] for name in names) for row in table.rows if row["set"]] == [
        ("transformer_parsing_base", 91.3, 90.5, 16_000, base.count_weights(16_000)),
        ("transformer_parsing_big", 92.7, None, 32_000, big.count_weights(32_000)),
    ]
    assert [row["changed"]["num_layers"] for row in table.rows if row["set"]] == [4, 4]
    # By tensor2tensor's name it is the same problem.
    [row, _] = [
        row for row in parsing_table([parsed(f1=91.0, problem="wsj_parsing")]).rows if row["set"]
    ]
    assert row["our_f1"] == 91.0
