"""A table as text, as Markdown and as JSON."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.tables.results import Result

FORMATS = ("text", "markdown", "json")
_STYLES = {"text": "simple", "markdown": "github"}
_RESULT_COLUMNS = {
    "set": "set",
    "hparams": "changed",
    "problem": "problem",
    "split": "split",
    "text": "text",
    "steps": "steps",
    "averaged": "mean of",
    "target_tokens": "tokens",
    "seconds": "seconds",
    "hardware": "hardware",
    "perplexity": "PPL",
    "bleu": "BLEU",
    "bleu_signature": "signature",
    "conventions": "other conventions",
    "chrf": "chrF",
    "f1": "F1",
    "decode": "decoding",
    "random_seed": "seed",
    "commit": "commit",
    "date": "date",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """What one of the paper's tables says, and what we have beside it.

    Attributes:
      title: a line above it.
      columns: heading of each column that people read, by the name of the value in a row.
      rows: values by name; a row without a value, or with None, leaves the place blank.
      notes: sentences below it: what was counted, and how.
      results: what was measured so far; in JSON each stands under "results" in the first row of
        its set, or in a row of its own.
    """

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    results: Sequence[Result] = ()


def render(table: Table, style: str) -> str:
    """Returns a table as one of `FORMATS`; JSON is a list of rows."""
    if style == "json":
        return json.dumps(_rows_with_results(table), indent=2, ensure_ascii=False)
    markdown = style == "markdown"
    parts = [f"### {table.title}" if markdown else table.title]
    parts.append(_grid(table.rows, table.columns, style))
    parts += [note if markdown else textwrap.fill(note, 100) for note in table.notes]
    if table.results:
        rows = [dataclasses.asdict(result) for result in table.results]
        parts += ["#### Results so far" if markdown else "Results so far"]
        parts += [_grid(rows, _RESULT_COLUMNS, style)]
    return "\n\n".join(parts)


def _rows_with_results(table: Table) -> list[dict[str, Any]]:
    rows = [dict(row) for row in table.rows]
    for result in table.results:
        theirs = next((row for row in rows if row.get("set") == result.set), None)
        if theirs is None:
            # With what the other rows have, so that whoever reads them need not tell them apart.
            theirs = {**dict.fromkeys(table.rows[0]), "set": result.set}
            rows.append(theirs)
        theirs.setdefault("results", []).append(dataclasses.asdict(result))
    return rows


def _grid(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], style: str) -> str:
    """Returns the rows under their headings; a column without any value is left out."""
    # Loaded here, since a machine that trains need not have it.
    from tabulate import tabulate

    columns = {
        name: heading
        for name, heading in columns.items()
        if any(row.get(name) not in (None, "", {}) for row in rows)
    }
    cells = [[_cell(row.get(name), style) for name in columns] for row in rows]
    numeric = [any(isinstance(row.get(name), int | float) for row in rows) for name in columns]
    return tabulate(
        cells,
        headers=list(columns.values()),
        tablefmt=_STYLES[style],
        # Numbers are written here, and must not be read and written again.
        disable_numparse=True,
        colalign=["right" if each else "left" for each in numeric] if rows else None,
    )


def _cell(value: Any, style: str) -> str:
    """Returns how a value is shown: 63,045,632; 25.8; 3.3e18; d_k=16."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(each)}" for name, each in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return _real(value)
    return str(value).replace("|", "\\|") if style == "markdown" else str(value)


def _real(value: float) -> str:
    """Returns 3.3e18 for costs, else two decimals, or one where the second is 0: 4.92; 25.8."""
    if abs(value) >= 1e12:
        return f"{value:.1e}".replace("e+", "e")
    return f"{value:,.2f}".removesuffix("0")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        # A score under another convention; how it was computed is in JSON.
        return _plain(value.get("bleu"))
    return f"{value:g}" if isinstance(value, float) else str(value)
