"""One table as text, Markdown and JSON."""

import json
import re

from t2t_keras.tables.rendering import FORMATS, Table, render


def make_table(results=()):
    return Table(
        title="Table 9: a test",
        columns={
            "set": "set",
            "changed": "differs",
            "weights": "weights",
            "cost": "FLOPs",
            "x": "x",
        },
        rows=[
            {"set": "a|b", "changed": {"d_k": 16, "dropout": 0.0}, "weights": 63045632, "x": None},
            {"set": "c", "cost": 3.283e18, "weights": 5.0, "hidden": 1},
        ],
        notes=["A note. " * 30],
        results=results,
    )


def test_json_is_a_list_of_rows_with_the_results_of_their_sets(make_result):
    mine, other = make_result(set="c"), make_result(set="transformer_tiny")
    rows = json.loads(render(make_table([mine, other]), "json"))
    assert [row["set"] for row in rows] == ["a|b", "c", "transformer_tiny"]
    assert rows[0] == {
        "set": "a|b",
        "changed": {"d_k": 16, "dropout": 0.0},
        "weights": 63045632,
        "x": None,
    }
    assert rows[1]["results"][0]["bleu_signature"] == "nrefs:1|tok:13a"
    assert rows[1]["hidden"] == 1
    assert [each["set"] for each in rows[2]["results"]] == ["transformer_tiny"]
    # Nothing is known of the set itself, but it can be asked for what the other rows have.
    assert {name: rows[2][name] for name in ("changed", "weights", "x")} == dict.fromkeys(
        ("changed", "weights", "x")
    )


def test_markdown_cells():
    lines = render(make_table(), "markdown").splitlines()
    assert lines[0] == "### Table 9: a test"
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("|")
    ]
    # The column without any value is left out.
    assert cells[0] == ["set", "differs", "weights", "FLOPs"]
    assert all(set(cell) <= set("-:") for cell in cells[1])
    assert cells[2] == ["a\\|b", "d_k=16, dropout=0", "63,045,632", ""]
    assert cells[3] == ["c", "", "5.0", "3.3e18"]


def test_text_shows_results_below(make_result):
    text = render(make_table([make_result()]), "text")
    assert text.startswith("Table 9: a test\n")
    assert "a|b" in text
    table, _, results = text.partition("Results so far")
    assert max(map(len, table.splitlines())) <= 100
    assert "2,500,000,000" in results
    assert "nrefs:1|tok:13a" in results
    assert "F1" not in results
    split = {"bleu": 27.31, "signature": "tok:none"}
    told = render(
        make_table([make_result(text="newstest2014, filtered", conventions={"split": split})]),
        "text",
    )
    assert "newstest2014, filtered" in told
    assert "split=27.31" in told
    assert set(FORMATS) == {"text", "markdown", "json"}
