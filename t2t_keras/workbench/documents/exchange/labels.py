"""Syntax in the messages of programs: accelerators of menus, and branches of ICU messages."""

import functools
import re
from collections.abc import Iterable, Sequence

from t2t_keras.workbench.documents.document import Document, Piece, Unit
from t2t_keras.workbench.documents.exchange.icu import pieces_of
from t2t_keras.workbench.placeholders.accelerators import Accelerator, with_mark, without_mark

_MARKS = "_&"
# Such as "_Save as...": without translations, only these labels show that a mark opens menus.
_SURE_LABEL = re.compile(r"[_&](?=[A-Z0-9])\S+(?:\s\S+){0,3}")
_STAYS = "messages of ICU with text around their branches"


def with_branches(document: Document, units: Iterable[Unit]) -> list[Unit]:
    """Makes the branches of ICU messages pieces; leaves out and counts unreadable messages."""
    readable = []
    for unit in units:
        pieces = pieces_of(unit.source)
        if pieces == []:
            document.left_out[_STAYS] += 1
        else:
            unit.pieces = pieces or ()
            readable.append(unit)
    return readable


def find_accelerators(units: Sequence[Unit], named: str = "") -> None:
    """Removes the accelerator marks from labels, if the catalogue uses accelerators.

    It does where most translations of labels have the mark too. Where none is translated, short
    labels that begin with the mark tell that it does.

    Args:
      units: of a document.
      named: the mark that the document names, "" = none.
    """
    for mark in named or _MARKS:
        marked = [unit for unit in units if unit.format == "text" and not unit.pieces]
        labels = [
            (unit, *label)
            for unit in marked
            if (label := without_mark(unit.source, marks=mark))[1] is not None
        ]
        if named or _are_used(mark, labels):
            for unit, text, accelerator in labels:
                unit.pieces = [Piece(text, functools.partial(_with_mark, accelerator))]


def _are_used(mark: str, labels: Sequence[tuple[Unit, str, Accelerator]]) -> bool:
    translated = [
        without_mark(unit.target, is_label=True, marks=mark)[1] is not None
        for unit, _, _ in labels
        if unit.is_translated
    ]
    if translated:
        return 2 * sum(translated) > len(translated)
    return any(_SURE_LABEL.fullmatch(unit.source.strip()) for unit, _, _ in labels)


def _with_mark(accelerator: Accelerator, translation: str) -> str:
    has_mark = without_mark(translation, is_label=True, marks=accelerator.mark)[1]
    return translation if has_mark else with_mark(translation, accelerator)
