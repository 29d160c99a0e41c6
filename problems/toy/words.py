"""The words of the toy problem, read from words.tsv, and their German inflection.

A verb names the classes (person, food ...) of its subject and complements, so that sentences make
sense.
"""

import collections
from pathlib import Path
from typing import Any, NamedTuple

CASES = ("nominative", "accusative", "dative")


Entry = Any  # A named tuple, whose attributes are the columns of its table.


class Complement(NamedTuple):
    """A complement of a verb: its case, its prepositions ("" = none) and classes of its noun."""

    preposition: str
    german_preposition: str
    case: str
    classes: frozenset[str]


def _parse_cell(column: str, cell: str) -> str | frozenset[str] | tuple[Complement, ...]:
    cell = "" if cell == "-" else cell
    if column in ("classes", "subjects", "fits"):
        return frozenset(cell.split())
    if column == "complements":  # "for:auf:accusative:person animal + ..."
        parts = [complement.split(":") for complement in cell.split(" + ") if complement]
        return tuple(
            Complement(english, german, case, frozenset(classes.split()))
            for english, german, case, classes in parts
        )
    return cell


def _read_tables(path: Path) -> dict[str, tuple[Entry, ...]]:
    """Returns the tables of a file: entries are named tuples, whose fields are the columns.

    A table has a line with its name, a line with the names of its columns, and a line per entry;
    "-" is an empty cell. Three forms in a cell agree with I, he and they. Entries are drawn in
    proportion to their weight.
    """
    tables = {}
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        title, header, *lines = block.split("\n")
        columns = header.split("\t")
        entry: Any = collections.namedtuple("Entry", columns)  # type: ignore[misc]
        tables[title.removeprefix("# ")] = tuple(
            entry(*map(_parse_cell, columns, line.split("\t"))) for line in lines
        )
    return tables


TABLES = _read_tables(Path(__file__).with_name("words.tsv"))
DETERMINERS = {entry.name: entry for entry in TABLES["determiners"]}


def _paradigm(*rows: str) -> dict[tuple[str, str], str]:
    """Returns the forms by case and gender, from a row for each case."""
    return {
        (case, gender): form
        for case, row in zip(CASES, rows, strict=True)
        for gender, form in zip(("m", "f", "n", "plural"), row.split(), strict=True)
    }


_DER = _paradigm("der die das die", "den die das die", "dem der dem den")
_DIESER = _paradigm("er e es e", "en e es e", "em er em en")
_EIN = _DIESER | dict.fromkeys([("nominative", "m"), ("nominative", "n"), ("accusative", "n")], "")
_ENDINGS = {"der": _DER, "dieser": _DIESER, "ein": _EIN, "": dict.fromkeys(_DER, "")}
RELATIVE_PRONOUN = _DER | {("dative", "plural"): "denen"}


def determiner_form(determiner: Entry, case: str, gender: str) -> str:
    """Returns the German form of a determiner, e.g. "einem"."""
    return determiner.german + _ENDINGS[determiner.endings][case, gender]


def adjective_form(adjective: Entry, determiner: Entry, case: str, gender: str) -> str:
    """Returns an inflected adjective; its ending is strong if the determiner has no ending."""
    if not _ENDINGS[determiner.endings][case, gender]:
        return adjective.stem + _DIESER[case, gender]
    is_direct = case == "nominative" or (case == "accusative" and gender != "m")
    return adjective.stem + ("e" if is_direct and gender != "plural" else "en")


def noun_form(noun: Entry, case: str, plural: bool) -> str:
    """Returns a form of a German noun, such as Hunden, or Jungen of the weak noun Junge."""
    if plural:
        takes_n = case == "dative" and noun.german_plural[-1] not in "ns"
        return noun.german_plural + ("n" if takes_n else "")
    return noun.german if case == "nominative" else noun.oblique


def agree(forms: str, agrees: str) -> str:
    """Picks the form that agrees with "first", "third" (person of the singular) or "plural".

    With two forms, as in "do/does", the first is also the plural. A single form agrees with all.
    """
    first, *other_forms = forms.split("/")
    third, plural = [*other_forms, first][:2] if other_forms else (first, first)
    return {"first": first, "third": third, "plural": plural}[agrees]
