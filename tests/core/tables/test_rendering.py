import json
import re

from t2t_keras.tables import Table, render

COLUMNS = {"set": "set", "changed": "differs", "weights": "weights", "cost": "FLOPs", "x": "x"}
ROWS = (
    {
        "set": "a|b",
        "changed": {"d_k": 16, "dropout": 0.0},
        "weights": 63045632,
        "x": None,
        "cost": 25.75,
    },
    {"set": "c", "cost": 3.283e18, "weights": 5.0, "hidden": 1},
)


def rendered(style, *results):
    return render(Table("Table 9: a test", COLUMNS, ROWS, "A note. " * 30, results), style)


def test_json_is_a_list_of_rows_with_the_results_of_their_sets(make_result):
    results = make_result(set="c"), make_result(set="transformer_tiny")
    first, second, own = json.loads(rendered("json", *results))
    assert (first, second["hidden"]) == (ROWS[0], 1)
    assert second["results"][0]["bleu_signature"] == "nrefs:1|tok:13a"
    # Nothing is known of the set itself, but it has the names of the other rows.
    assert own.keys() - {"results"} == ROWS[0].keys()
    assert (own["set"], len(own["results"])) == ("transformer_tiny", 1)


def test_results_stand_in_the_first_row_of_their_set(make_result):
    twice = Table(
        "Two rows", COLUMNS, [{"set": "c", "x": x} for x in (1, 2)], "", [make_result(set="c")]
    )
    assert [len(row.get("results", [])) for row in json.loads(render(twice, "json"))] == [1, 0]


def test_markdown_cells():
    lines = rendered("markdown").splitlines()
    assert (lines[0], lines[-1]) == ("### Table 9: a test", ("A note. " * 30).strip())
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("|")
    ]
    # The column without any value is left out.
    assert cells[0] == ["set", "differs", "weights", "FLOPs"]
    assert "|        5.0 |" in lines[5], "numbers stand at the right"
    assert cells[2:] == [
        ["a\\|b", "d_k=16, dropout=0", "63,045,632", "25.75"],
        ["c", "", "5.0", "3.3e18"],
    ]


def test_text_shows_results_below(make_result):
    split = {"bleu": 27.31, "signature": "tok:none"}
    result = make_result(text="newstest2014, filtered", conventions={"split": split})
    table, _, results = rendered("text", result).partition("Results so far")
    assert table.startswith("Table 9: a test\n")
    assert "a|b" in table
    assert max(map(len, table.splitlines())) <= 100
    for shown in ("2,500,000,000", "nrefs:1|tok:13a", "newstest2014, filtered", "split=27.31"):
        assert shown in results
    assert "F1" not in results
    assert "\n\n#### Results so far\n\n" in rendered("markdown", result)


def test_a_table_without_notes():
    for number in (0, 1):
        assert render(Table("a", {"x": "x"}, [{"x": number}]), "markdown").endswith(f"{number} |")
