"""Files that matplotlib, which need not be installed, draws."""

import importlib.util
import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras.errors import UserError
from t2t_keras.io.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")


def need_matplotlib() -> None:
    """Raises `UserError` where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(
            "Figures need matplotlib, which is not installed: pip install 't2t-keras[plot]'",
            code="missing_package",
        )


def check_format(path: str | Path, formats: Sequence[str]) -> None:
    """Raises `UserError` unless a file's name ends in one of the formats, as ".png"."""
    if Path(path).suffix.lower() not in formats:
        raise UserError(
            f"A figure's name must end in {', '.join(formats)}; got '{path}'.",
            code="unknown_extension",
        )


def save_figure(path: str | Path, draw: Callable[[], "Figure"], **page: Any) -> str:
    """Writes the matplotlib figure that `draw` returns, in the format that the name ends in.

    `page` are arguments of `Figure.savefig`. The same figure gives the same bytes.

    Returns:
      The characters that the font lacks, which the figure shows as boxes.

    Raises:
      UserError: the file cannot be written.
    """
    import matplotlib

    content = io.BytesIO()
    kind = Path(path).suffix.lower().removeprefix(".")
    # Without a date and random names.
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with (
        matplotlib.rc_context({"svg.hashsalt": "t2t_keras"}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        draw().savefig(content, format=kind, metadata=date, **page)
    write_atomically(Path(path), content.getvalue())
    return _missing_characters(caught)


def _missing_characters(caught: Sequence[warnings.WarningMessage]) -> str:
    """Returns the characters that warnings of matplotlib's name; shows all other warnings."""
    missing = {}
    for each in caught:
        if found := _MISSING_GLYPH.match(str(each.message)):
            missing[chr(int(found[1]))] = True
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return "".join(missing)
