"""The four tables as the command prints them."""

import json

import pytest

from t2t_keras.bin import t2t_tables
from t2t_keras.evaluation.results import Result, append_result
from t2t_keras.tables import weights


@pytest.fixture
def tables(tmp_path, monkeypatch, capsys):
    """tables(flag, ...): what the command prints, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weights, "count_weights", lambda hparams, vocab_size: vocab_size)

    def run(*flags):
        t2t_tables.run(["t2t-tables", *flags])
        return capsys.readouterr().out

    return run


def test_each_table_in_each_format(tables):
    for table in "1234":
        text, markdown = (tables(f"--table={table}", f"--format={f}") for f in ("text", "markdown"))
        assert text.startswith(f"Table {table}: ")
        assert markdown.startswith(f"### Table {table}: ")


def test_sizes_a_training_and_a_vocabulary_of_one_s_own(tables):
    def rows(*flags):
        return json.loads(tables("--format=json", *flags))

    assert rows("--table=1", "--n=20", "--d=32")[0]["our_multiplications"] == 2 * 20 * 20 * 32
    training = ["--hparams_set=transformer_big", "--gpus=1", "--hardware=100", "--step_seconds=0.5"]
    assert rows("--table=2", *training)[-1]["flops"] == pytest.approx(300_000 * 0.5 * 100e12)
    assert {row["weights"] for row in rows("--table=3", "--vocab_size=1000")} == {1000}


def test_results_are_read(tables):
    known = dict(set="transformer_h4", problem="translate_ende", split="dev", averaged=1)
    result = Result(**known, text="newstest2013 (3,000 lines)", bleu=25.4)
    append_result("results.jsonl", result)
    rows = json.loads(tables("--table=3", "--format=json"))
    assert [(row["set"], row["our_bleu"]) for row in rows if row["our_bleu"]] == [
        ("transformer_h4", 25.4)
    ]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], "--table"),
        (["--table=5"], "table"),
        (["--table=1", "--r=8"], "r=8"),
        (["--table=1", "--vocab_size=9"], "--vocab_size is for --table=3"),
        (["--table=1", "--results_file=x"], "--results_file is for --table=2, 3, 4"),
        (["--table=2", "--gpus=2"], "--hours or --step_seconds"),
        (["--table=2", "--hours=1", "--hparams_set=transformer_bas"], "'transformer_base'"),
        (["--table=2", "--results_file=."], "Is a directory"),
    ],
)
def test_errors_are_one_message(refused, flags, named):
    assert named in refused("t2t-tables", *flags)
