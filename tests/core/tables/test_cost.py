"""Table 2: training cost, by hours and by step times."""

import pytest
from refusals import refused

from t2t_keras.tables import cost_row, cost_table


def test_the_paper_s_rows_and_both_ways_to_its_costs():
    rows = cost_table().rows
    paper = {row["model"]: row for row in rows if "bleu_ende" in row}
    assert len(paper) == 10
    assert paper["ConvS2S ensemble"]["flops_enfr"] == 1.2e21
    # The sums of the paper's columns.
    sums = {
        "bleu_ende": 207.9,
        "bleu_enfr": 362.89,
        "flops_ende": 3.359e20,
        "flops_enfr": 3.6363e21,
    }
    for name, total in sums.items():
        assert sum(row[name] or 0 for row in paper.values()) == pytest.approx(total), name
    assert paper["Transformer base"]["our_bleu_ende"] is None
    assert {(row["set"], row["time"]): f"{row['flops']:.1e}" for row in rows if "flops" in row} == {
        ("transformer_base", "12 hours"): "3.3e+18",
        ("transformer_base", "100,000 steps of 0.4 s"): "3.0e+18",
        ("transformer_big", "3.5 days"): "2.3e+19",
        ("transformer_big", "300,000 steps of 1 s"): "2.3e+19",
    }


def test_any_set_on_any_hardware():
    # 22,000 steps of half a second on one K80, at 2.8 TFLOP/s.
    row = cost_row("transformer_multi30k", gpus=1, hardware="k80", step_seconds=0.5)
    assert (row["flops"], row["hardware"]) == (pytest.approx(11_000 * 2.8e12), "1 x K80")
    row = cost_row(gpus=4, hardware="60.5", hours=1)
    assert (row["flops"], row["hardware"]) == (3600 * 4 * 60.5e12, "4 x 60.5 TFLOP/s")
    # Section 6.2, footnote.
    sustained = {gpu: cost_row(gpus=1, hardware=gpu, hours=1)["tflops"] for gpu in ("K40", "M40")}
    assert sustained == {"K40": 3.7, "M40": 6.0}


def test_a_time_of_two_days_and_more_is_in_days():
    shown = [cost_row(hours=hours)["time"] for hours in (1.5, 47, 48, 60)]
    assert shown == ["1.5 hours", "47 hours", "2 days", "2.5 days"]


@pytest.mark.parametrize(
    ("training", "code", "names"),
    [
        (dict(hours=1, step_seconds=2), "conflicting_settings", "--hours --step_seconds 1 2"),
        (dict(hours=float("nan")), "conflicting_settings", "--hours nan"),
        (dict(hours=-1), "conflicting_settings", "--hours -1"),
        (dict(step_seconds=1), "conflicting_settings", "--step_seconds --hparams_set"),
        (dict(hours=1, hardware="H9000"), "bad_value", "--hardware K80 'H9000'"),
        (dict(hours=1, hardware="nan"), "bad_value", "--hardware 'nan'"),
        (dict(step_seconds=1, hparams_set="transformer_bas"), "unknown_name", "'transformer_base'"),
    ],
)
def test_what_cannot_be_computed(training, code, names):
    with refused(code, *names.split()):
        cost_row(**training)


def test_results_stand_beside_the_paper_s(make_result):
    french = dict(problem="translate_enfr", text="newstest2014 (3,003 lines)", averaged=20)
    shown = [
        make_result(),
        make_result(set="transformer_big_enfr", hardware="1 x H200", **french),
        make_result(set="transformer_tiny", problem="translate_ende_toy", hardware="8 x M4000"),
        # The paper averages more checkpoints of the big model, and some of the base model.
        make_result(set="transformer_big", averaged=5, hardware=""),
        make_result(averaged=1, bleu=26.0, hardware=""),
        make_result(averaged=1, seconds=-5.0),
        make_result(averaged=1, seconds=1e12),
        make_result(averaged=1, hardware="9" * 400 + " x P100"),
        make_result(averaged=1, set="my_set"),
    ]
    parsing = make_result(problem="parsing_wsj", bleu=None, f1=91.0)
    upper = make_result(split="dev.upper", decode={"disturb": "upper"})
    table = cost_table([*shown, make_result(split="dev"), upper, parsing])
    assert list(table.results) == shown
    ours = {
        row["model"]: (row["our_bleu_ende"], row["our_bleu_enfr"])
        for row in table.rows
        if row.get("our_bleu_ende") or row.get("our_bleu_enfr")
    }
    assert ours == {"Transformer base": (27.0, None), "Transformer big": (None, 27.0)}
    # 12 hours on 8 P100, known by the name that the driver gives them; no other is guessed.
    measured, own = [row for row in table.rows if "(translate" in row["model"]]
    assert measured["model"] == "transformer_base (translate_ende)"
    assert measured["flops"] == own["flops"] == pytest.approx(3.283e18, rel=1e-3)
    assert own["model"] == "my_set (translate_ende)"
