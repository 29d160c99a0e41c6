import json

import pytest

from t2t_keras.bin import t2t_tables
from t2t_keras.evaluation.results import Result, append_result


@pytest.fixture
def tables(tmp_path, monkeypatch, capsys):
    """tables(flag, ...): what the command prints, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*flags):
        t2t_tables.run(["t2t-tables", *flags])
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_result_controls_the_terminal(tables, style):
    append_result("mine", Result("a", "b", "test", bleu=1.0, hardware="\x1b[2J\x9b2J\u202e"))
    shown = tables("--table=2", "--results_file=mine", f"--format={style}")
    assert "x1b[2J" in shown or "u001b[2J" in shown
    assert not set("\x1b\x9b\u202e") & set(shown)


@pytest.mark.parametrize("table", "1234")
def test_each_table_in_each_format(tables, table):
    assert tables(f"--table={table}").startswith(f"Table {table}: ")
    markdown = tables(f"--table={table}", "--format=markdown")
    assert markdown.startswith(f"### Table {table}: ")
    assert json.loads(tables(f"--table={table}", "--format=json"))


def test_flags_reach_the_tables(tables):
    known = dict(set="transformer_h4", problem="translate_ende", split="dev", averaged=1)
    append_result("mine", Result(**known, text="newstest2013 (3,000 lines)", bleu=25.4))

    def rows(*flags):
        return json.loads(tables("--format=json", *flags))

    assert rows("--table=1", "--n=20", "--d=32")[0]["our_multiplications"] == 2 * 20 * 20 * 32
    training = ["--hparams_set=transformer_big", "--gpus=1", "--hardware=100", "--step_seconds=0.5"]
    assert rows("--table=2", *training)[-1]["flops"] == pytest.approx(300_000 * 0.5 * 100e12)
    actual = rows("--table=3", "--vocab_size=1000", "--results_file=mine")
    assert actual[0]["weights"] == 63_045_632 - 36_000 * 512
    assert [row["set"] for row in actual if row["our_bleu"]] == ["transformer_h4"]
