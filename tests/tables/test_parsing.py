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
        # Other text, other trees, another vocabulary or another set is shown below only.
        make_result(**parsed | dict(problem="parsing_craft"), f1=75.0),
        make_result(**parsed | dict(problem="parsing_wsj_semi"), f1=93.3),
        make_result(**parsed | dict(problem="parsing_english_ptb8k"), f1=70.0),
        make_result(**parsed | dict(set="transformer_parsing_big"), f1=80.0),
        # As t2t-eval --noeval_bleu leaves it.
        make_result(**parsed, perplexity=1.1),
        make_result(),
    ]
    table = parsing_table(results)
    assert list(table.results) == results[:5]
    figures = [row["paper_f1"] for row in table.rows]
    assert figures == [88.3, 90.4, 90.4, 91.7, 91.3, 91.3, 91.3, 92.1, 92.1, 92.7, 93.0, 93.3]
    assert [
        (row["set"], row["paper_f1"], row["our_f1"], row["weights"])
        for row in table.rows
        if row["set"]
    ] == [
        ("transformer_parsing_base", 91.3, 90.5, LAYERS + 16_000 * 1024),
        ("transformer_parsing_big", 92.7, None, LAYERS + 32_000 * 1024),
    ]
