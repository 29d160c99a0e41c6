"""The four tables as the command prints them."""

import json
import re

import pytest

from t2t_keras.bin import t2t_tables
from t2t_keras.tables.results import Result, append_result


@pytest.fixture
def tables(tmp_path, monkeypatch, capsys):
    """Returns a function that runs the command, in a folder of the test's own, and what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        t2t_tables.run(["t2t-tables", *arguments])
        return capsys.readouterr().out

    return run


def test_table_1(tables):
    rows = json.loads(tables("--table=1", "--format=json", "--n=20", "--d=32", "--r=5"))
    full, restricted = (row for row in rows if "our_path" in row)
    assert full["our_multiplications"] == 2 * 20 * 20 * 32
    # 19 positions in steps of 2.
    assert restricted["our_path"] == 10
    assert "for n=20, d=32, k=3, r=5" in tables("--table=1", "--n=20", "--d=32", "--r=5")


def test_table_2_with_a_training_of_one_s_own(tables):
    text = tables("--table=2")
    assert text.count("3.3e18") == 3
    assert "3.0e18" in text
    asked = ["--hparams_set=transformer_big", "--gpus=1", "--hardware=100", "--step_seconds=0.5"]
    (*_, row) = json.loads(tables("--table=2", "--format=json", *asked))
    assert row["flops"] == pytest.approx(300_000 * 0.5 * 100e12)


def test_table_3_and_its_results(tables):
    result = Result(
        set="transformer_h4",
        problem="translate_ende",
        split="dev",
        text="newstest2013 (3,000 lines)",
        averaged=1,
        bleu=25.4,
        bleu_signature="s|1",
    )
    append_result("results.jsonl", result)
    rows = json.loads(tables("--table=3", "--format=json", "--vocab_size=1000"))
    assert len(rows) == 22
    by_set = {row["set"]: row for row in rows}
    assert by_set["transformer_base"]["weights"] == 63_045_632 - 36_000 * 512
    assert by_set["transformer_h4"]["our_bleu"] == 25.4
    assert [each["bleu_signature"] for each in by_set["transformer_h4"]["results"]] == ["s|1"]


def test_table_4(tables):
    lines = tables("--table=4", "--format=markdown").splitlines()
    (row,) = (line for line in lines if "transformer_parsing_base" in line)
    assert re.search(r"\| +91\.3 \|.*\| +16,000 \| +[\d,]+ \|", row)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Please give --table"),
        (["--table=5"], "table"),
        (["--table=1", "--r=8"], "--r=8: a neighbourhood"),
        (["--table=1", "--vocab_size=9"], "--vocab_size has no meaning for --table=1, but for 3"),
        (["--table=1", "--results_file=x"], "but for 2, 3, 4"),
        (["--table=2", "--gpus=2"], "Give either --hours or --step_seconds"),
        (["--table=2", "--hours=1", "--hparams_set=transformer_bas"], "'transformer_base'"),
        (["--table=3", "--format=html"], "format"),
        (["--table=2", "--results_file=."], "cannot be read: Is a directory"),
    ],
)
def test_errors_are_one_message(tables, capsys, flags, message):
    with pytest.raises(SystemExit) as caught:
        tables(*flags)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("t2t-tables: ")
    assert message in printed.err
