"""The paper's figures are complete and in its order."""

from t2t_keras.tables.paper import PARAMETER_ATTENTION, TABLE_2, TABLE_3, TABLE_4

# Perplexity and BLEU down Table 3, row after row.
PERPLEXITY = "4.92 5.29 5.00 4.91 5.01 5.16 5.01 6.11 5.19 4.88 5.75 4.66 5.12 4.75 5.77 4.95 4.67"
PERPLEXITY += " 5.47 4.92 4.33"
BLEU = "25.8 24.9 25.5 25.8 25.4 25.1 25.4 23.7 25.3 25.5 24.5 26.0 25.4 26.2 24.6 25.5 25.3 25.7"
BLEU += " 25.7 26.4"


def test_table_3_in_the_paper_s_order():
    assert [each.perplexity for each in TABLE_3] == [float(value) for value in PERPLEXITY.split()]
    assert [each.bleu for each in TABLE_3] == [float(value) for value in BLEU.split()]
    rows = [each.row for each in TABLE_3]
    assert rows == ["base", *"AAAABBCCCCCCCDDDDE", "big"]
    assert len({each.hparams_set for each in TABLE_3}) == 20
    assert [
        (each.row, each.perplexity, each.bleu, each.millions) for each in PARAMETER_ATTENTION
    ] == [
        ("AOP1", 4.92, 25.5, 65),
        ("AOP2", 4.86, 25.9, 65),
    ]


def test_table_2_and_4_have_the_transformer_best():
    assert len(TABLE_2) == 10
    assert max(each.bleu_ende or 0 for each in TABLE_2) == TABLE_2[-1].bleu_ende == 28.4
    assert max(each.bleu_enfr or 0 for each in TABLE_2) == TABLE_2[-1].bleu_enfr == 41.8
    assert [(each.name, each.f1) for each in TABLE_4 if each.hparams_set] == [
        ("Transformer (4 layers)", 91.3),
        ("Transformer (4 layers)", 92.7),
    ]
    assert sorted(each.f1 for each in TABLE_4) == [
        88.3, 90.4, 90.4, 91.3, 91.3, 91.3, 91.7, 92.1, 92.1, 92.7, 93.0, 93.3,
    ]  # fmt: skip
