"""Renders HTML pages and saves matplotlib figures; defines the colours of series and heads."""

import difflib
import importlib.util
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras.errors import UserError, missing_package
from t2t_keras.io import pages
from t2t_keras.io.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_TEMPLATES = Path(__file__).with_name("templates")
# Colours of series and heads, on light and on dark pages.
LIGHT_COLORS = tuple("#4784fa #be3008 #107c69 #c656b1 #9b9624 #34027c #174e66 #6d2214".split())
DARK_COLORS = tuple("#8da4f1 #f0b980 #129715 #c73793 #eef23e #8c58e1 #a3e7ec #da8092".split())


def render(template: str, *, scripts: bool = False, **values: Any) -> str:
    """Returns a page that loads no other files, see `t2t_keras.io.pages.render`.

    Args:
      template: name of the template's file.
      scripts: whether the page may run its scripts.
      **values: values of the template's variables.
    """
    sources = {"style_src": "'unsafe-inline'"}
    if scripts:
        sources["script_src"] = "'unsafe-inline'"
    colors = list(zip(LIGHT_COLORS, DARK_COLORS, strict=True))
    policy = pages.security_policy(**sources)
    return pages.render(_TEMPLATES, template, colors=colors, policy=policy, **values)


def changed_words(earlier: str, text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a text, each with whether its words differ from an earlier text.

    An empty part stands for deleted words.
    """
    words = text.split(" ")
    matcher = difflib.SequenceMatcher(a=earlier.split(" "), b=words, autojunk=False)
    for operation, _, _, start, end in matcher.get_opcodes():
        yield " ".join(words[start:end]), operation != "equal"


_MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")


def need_matplotlib() -> None:
    """Raises `UserError` if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_package("A figure", "matplotlib", "plot")


def check_format(path: str | Path, formats: Sequence[str]) -> None:
    """Raises `UserError` unless a file's name ends in one of the formats, such as ".png"."""
    if Path(path).suffix.lower() not in formats:
        raise UserError(
            f"A figure's name must end in {', '.join(formats)}; got '{path}'.",
            code="unknown_extension",
        )


def save_figure(path: str | Path, draw: Callable[[], "Figure"], **options: Any) -> str:
    """Writes the matplotlib figure that `draw` returns, in the format of the name's ending.

    `options` are arguments of `Figure.savefig`. Equal figures become equal bytes.

    Returns:
      The characters that the font lacks, which the figure shows as boxes.

    Raises:
      UserError: the file cannot be written.
    """
    import matplotlib

    content = io.BytesIO()
    kind = Path(path).suffix.lower().removeprefix(".")
    # Dates, and random names in SVG, would make the bytes differ.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with (
        matplotlib.rc_context({"svg.hashsalt": "t2t_keras"}),
        warnings.catch_warnings(record=True) as raised_warnings,
    ):
        warnings.simplefilter("always")
        draw().savefig(content, format=kind, metadata=metadata, **options)
    write_atomically(Path(path), content.getvalue())
    return _missing_characters(raised_warnings)


def _missing_characters(raised_warnings: Sequence[warnings.WarningMessage]) -> str:
    """Returns the missing characters in matplotlib's warnings; shows all other warnings."""
    missing = {}
    for warning in raised_warnings:
        if match := _MISSING_GLYPH.match(str(warning.message)):
            missing[chr(int(match[1]))] = True
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return "".join(missing)
