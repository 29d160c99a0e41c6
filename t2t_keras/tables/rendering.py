"""A table as text, as Markdown and as JSON."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.evaluation.results import Result

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
    """One of the paper's tables, with our figures beside it."""

    title: str
    columns: Mapping[str, str]  # Headings by name of a value; other values are in JSON only.
    rows: Sequence[Mapping[str, Any]]  # Values by name; None, or no value, is a blank cell.
    notes: str = ""  # Paragraphs, with blank lines between them.
    # In JSON, each is listed under "results" in the first row of its set, or in a row of its own.
    results: Sequence[Result] = ()


def render(table: Table, style: str) -> str:
    """Returns a table as "text", as "markdown", or as "json", a list of rows."""
    if style == "json":
        return json.dumps(_rows_with_results(table), indent=2)  # ASCII, also on a terminal
    markdown = style == "markdown"
    title = f"### {table.title}" if markdown else table.title
    notes = table.notes.strip().split("\n\n")
    notes = [textwrap.fill(note, len(note) if markdown else 100) for note in notes if note]
    parts = [title, _grid(table.rows, table.columns, markdown), *notes]
    if table.results:
        rows = [dataclasses.asdict(result) for result in table.results]
        parts += ["#### Results so far" if markdown else "Results so far"]
        parts += [_grid(rows, _RESULT_COLUMNS, markdown)]
    return "\n\n".join(parts)


def _rows_with_results(table: Table) -> list[dict[str, Any]]:
    rows = [dict(row) for row in table.rows]
    for result in table.results:
        row = next((row for row in rows if row.get("set") == result.set), None)
        if row is None:
            # With the names of the other rows, so that whoever reads them need not distinguish.
            row = {**dict.fromkeys(table.rows[0]), "set": result.set}
            rows.append(row)
        row.setdefault("results", []).append(dataclasses.asdict(result))
    return rows


def _grid(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], markdown: bool) -> str:
    """Returns the rows under their headings; columns without any value are left out."""
    # Imported here, as a machine that trains need not have it.
    from tabulate import tabulate

    filled = {name for row in rows for name in columns if row.get(name) not in (None, "", {})}
    columns = {name: heading for name, heading in columns.items() if name in filled}
    numeric = {name for row in rows for name in columns if isinstance(row.get(name), int | float)}
    cells = [[_cell(row.get(name), markdown) for name in columns] for row in rows]
    return tabulate(
        cells,
        headers=list(columns.values()),
        tablefmt="github" if markdown else "simple",
        # Numbers are formatted here.
        disable_numparse=True,
        colalign=["right" if name in numeric else "left" for name in columns] if rows else None,
    )


def _cell(value: Any, markdown: bool) -> str:
    """Returns how a value is shown: 63,045,632; 25.8; 3.3e18; d_k=16."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_short(each)}" for name, each in value.items())
    if isinstance(value, float):
        # Two decimals, or one where the second is 0; costs as powers of ten.
        large = abs(value) >= 1e12
        return f"{value:.1e}".replace("e+", "e") if large else f"{value:,.2f}".removesuffix("0")
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|") if markdown else str(value)


def _short(value: Any) -> str:
    if isinstance(value, Mapping):  # A score under another convention.
        value = value.get("bleu")
    return f"{value:g}" if isinstance(value, float) else str(value)
