"""The words and signs of a text, between which tags can stand."""

import bisect
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from t2t_keras.workbench.placeholders import find
from t2t_keras.workbench.placeholders.finding import ALONE

Span = tuple[int, int]

_UNIT = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+(?:['\u2019\u2010-][^\W{ALONE}]+)*|[^\w\s]")
# Of signs that languages exchange for each other.
_ALIKE = str.maketrans("\u2026\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u2013\u2014", "..,;:!?--")
_QUOTES = "\"'\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u300c\u300d"


def units(text: str, verbatim: Sequence[str] = ()) -> list[Span]:
    """Returns where each word or sign of a text begins and ends; a placeholder is one."""
    spans, position = [], 0
    for each in [*find(text, verbatim), None]:
        start = each.start if each else len(text)
        spans += [match.span() for match in _UNIT.finditer(text, position, start)]
        if each:
            spans.append((each.start, each.end))
            position = each.end
    return spans


def agreement(
    source: str,
    target: str,
    source_units: Sequence[Span],
    target_units: Sequence[Span],
    weights: np.ndarray,
) -> np.ndarray:
    """Returns how much each unit of a translation is of each of the source's.

    A word is as its attention says. A sign is of the same sign after or before the word that its
    own neighbour is of; one that the source has not is of nothing.

    Args:
      source: text.
      target: its translation.
      source_units: of the text.
      target_units: of the translation.
      weights: float [target units, source units], by attention.

    Returns:
      float [target units, source units]; a row adds up to 1, or to 0.
    """
    weights = np.asarray(weights, np.float64)
    signs = [
        np.array([_sign(text[start:end]) for start, end in spans], object)
        for text, spans in ((source, source_units), (target, target_units))
    ]
    is_word = signs[0] == ""
    shares = np.where(is_word[None, :] & (signs[1] == "")[:, None], weights, 0.0)
    # First by columns: a word that all others attend to a little is not of all of them.
    for axis in (0, 1):
        totals = shares.sum(axis=axis, keepdims=True)
        shares = np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)
    places = shares @ np.arange(len(source_units)) if len(source_units) else np.zeros(0)
    columns: dict[str, list[int]] = {}
    for column in np.flatnonzero(signs[0] != ""):
        columns.setdefault(signs[0][column], []).append(int(column))
    for row in np.flatnonzero(signs[1] != ""):
        if alike := columns.get(signs[1][row]):
            place = _expected_place(row, shares, places, len(target_units), len(source_units))
            number = bisect.bisect_left(alike, place)
            if number and (
                number == len(alike) or place - alike[number - 1] <= alike[number] - place
            ):
                number -= 1
            shares[row, alike.pop(number)] = 1.0
    return shares


def _sign(text: str) -> str:
    """Returns the kind of a sign, "" for a word."""
    if len(text) > 1 or text.isalnum() or unicodedata.category(text) == "Co":
        return ""
    return '"' if text in _QUOTES else text.translate(_ALIKE)


def _expected_place(
    row: int, shares: np.ndarray, places: np.ndarray, rows: int, columns: int
) -> float:
    """Returns where the source should have a sign: after what the word before it is of."""
    has_place = shares.sum(axis=1) > 0
    for step, offset in ((-1, 1), (1, -1)):
        neighbour = row + step
        if 0 <= neighbour < rows and has_place[neighbour]:
            return float(shares[neighbour].argmax()) + offset
    return (row + 0.5) / rows * columns
