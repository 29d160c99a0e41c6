"""Table 4: parsers, and our two models."""

from t2t_keras.tables.parsing import parsing_table

# 4 layers of d_model 1024: attention 4·1024², d_ff 2048 with biases, layer normalisations.
ATTENTION = 4 * 1024 * 1024
FEED_FORWARD = 2 * 1024 * 2048 + 2048 + 1024
LAYERS = 4 * (3 * ATTENTION + 2 * FEED_FORWARD + 5 * 2 * 1024)


def test_rows_with_weights_and_results(make_result):
    parsed = dict(set="transformer_parsing_base", problem="parsing_wsj", text="", bleu=None)
    results = [
        make_result(**parsed, f1=90.5),
        # Other text: it is shown, but not beside the paper's.
        make_result(**parsed | dict(problem="parsing_craft"), f1=75.0),
        # Trained on other trees, or with another vocabulary, than the row of its set.
        make_result(**parsed | dict(problem="parsing_wsj_semi"), f1=93.3),
        make_result(**parsed | dict(problem="parsing_english_ptb8k"), f1=70.0),
        make_result(**parsed | dict(set="transformer_parsing_big"), f1=80.0),
        # As t2t-eval --noeval_bleu leaves it.
        make_result(**parsed, perplexity=1.1),
        make_result(),
    ]
    table = parsing_table(results)
    assert list(table.results) == results[:5]
    assert len(table.rows) == 12
    ours = [row for row in table.rows if row["set"]]
    assert [(row["set"], row["paper_f1"], row["our_f1"], row["vocab_size"]) for row in ours] == [
        ("transformer_parsing_base", 91.3, 90.5, 16_000),
        ("transformer_parsing_big", 92.7, None, 32_000),
    ]
    assert [row["weights"] for row in ours] == [
        LAYERS + 16_000 * 1024,
        LAYERS + 32_000 * 1024,
    ]
