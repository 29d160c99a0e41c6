"""The sets of Table 3 against the paper's print of it."""

from t2t_keras import hyperparameters
from t2t_keras.hparams.table_3 import PARAMETER_ATTENTION, TABLE_3

COLUMNS = "row num_layers d_model d_ff num_heads d_k d_v dropout label_smoothing train_steps"
# As printed: "." is the base model's. Then perplexity and BLEU of the dev set, and params·10⁶.
PRINTED = """
base 6 512 2048 8 64 64 0.1 0.1 100000 4.92 25.8 65
A . . . 1 512 512 . . . 5.29 24.9 .
A . . . 4 128 128 . . . 5.00 25.5 .
A . . . 16 32 32 . . . 4.91 25.8 .
A . . . 32 16 16 . . . 5.01 25.4 .
B . . . . 16 . . . . 5.16 25.1 58
B . . . . 32 . . . . 5.01 25.4 60
C 2 . . . . . . . . 6.11 23.7 36
C 4 . . . . . . . . 5.19 25.3 50
C 8 . . . . . . . . 4.88 25.5 80
C . 256 . . 32 32 . . . 5.75 24.5 28
C . 1024 . . 128 128 . . . 4.66 26.0 168
C . . 1024 . . . . . . 5.12 25.4 53
C . . 4096 . . . . . . 4.75 26.2 90
D . . . . . . 0.0 . . 5.77 24.6 .
D . . . . . . 0.2 . . 4.95 25.5 .
D . . . . . . . 0.0 . 4.67 25.3 .
D . . . . . . . 0.2 . 5.47 25.7 .
E . . . . . . . . . 4.92 25.7 .
big . 1024 4096 16 . . 0.3 . 300000 4.33 26.4 213
"""


def test_the_sets_are_the_rows_of_the_paper():
    rows = [line.split() for line in PRINTED.split("\n") if line]
    assert [row[0] for row in rows] == [variation.row for variation in TABLE_3]
    for row, variation in zip(rows, TABLE_3, strict=True):
        hparams = hyperparameters.hparams(variation.hparams_set)
        values = hparams.config() | dict(
            zip(("d_k", "d_v"), hparams.head_widths(hparams.d_model), strict=True)
        )
        printed = [base if cell == "." else cell for cell, base in zip(row, rows[0], strict=True)]
        names = COLUMNS.split()
        for name, cell in list(zip(names, printed[: len(names)], strict=True))[1:]:
            assert values[name] == float(cell), (variation.hparams_set, name)
        # Nothing but what is printed differs; learned positions reach as far as sentences.
        unprinted = {"positions": "learned"} if variation.row == "E" else {}
        changed = hyperparameters.changed_hparams(hparams).items()
        assert {name: value for name, value in changed if name not in names} == unprinted
        figures = [variation.perplexity, variation.bleu, variation.million_weights]
        assert figures == [None if cell == "." else float(cell) for cell in row[len(names) :]]
        steps = None if row[len(names) - 1] == "." else int(row[len(names) - 1])
        assert variation.steps == steps


def test_attention_over_parameters_is_the_paper_s_source():
    actual = {
        (row.perplexity, row.bleu, row.million_weights): hyperparameters.hparams(row.hparams_set)
        for row in PARAMETER_ATTENTION
    }
    aop = {"feed_forward": "parameter_attention"}
    assert {
        figures: hyperparameters.changed_hparams(hparams) for figures, hparams in actual.items()
    } == {
        (4.92, 25.5, 65): aop | {"d_ff": 1536},
        (4.86, 25.9, 65): aop | {"parameter_attention_heads": 16, "d_ff": 512},
    }
