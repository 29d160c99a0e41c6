"""Pages of HTML and figures of matplotlib, with one palette."""

import difflib
import importlib.util
import io
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from t2t_keras.errors import UserError
from t2t_keras.io.files import write_atomically
from t2t_keras.io.terminal import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Colours of series and heads, on light and on dark pages.
ON_LIGHT = tuple("#4784fa #be3008 #107c69 #c656b1 #9b9624 #34027c #174e66 #6d2214".split())
ON_DARK = tuple("#8da4f1 #f0b980 #129715 #c73793 #eef23e #8c58e1 #a3e7ec #da8092".split())


def render(template: str, **values: Any) -> str:
    """Returns a page; text in it is escaped and cannot change the writing direction."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("t2t_keras.lab"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"whole": _whole, "in_script": _in_script}
    colors = list(zip(ON_LIGHT, ON_DARK, strict=True))
    return environment.get_template(template).render(colors=colors, **values)


def _whole(text: str) -> Markup:
    """Returns text that is never broken into lines."""
    return escape(printable(text)).replace(" ", "\N{NO-BREAK SPACE}")


def _in_script(data: Any) -> Markup:
    """Returns JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def changed_words(earlier: str, text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a text, each with whether its words differ from an earlier text's.

    An empty part marks deleted words.
    """
    words = text.split(" ")
    matcher = difflib.SequenceMatcher(a=earlier.split(" "), b=words, autojunk=False)
    for operation, _, _, start, end in matcher.get_opcodes():
        yield " ".join(words[start:end]), operation != "equal"


_MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")


def need_matplotlib() -> None:
    """Raises `UserError` if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(
            "Figures need matplotlib, which is not installed: pip install 't2t-keras[plot]'",
            code="missing_package",
        )


def check_format(path: str | Path, formats: Sequence[str]) -> None:
    """Raises `UserError` unless a file's name ends in one of the formats, such as ".png"."""
    if Path(path).suffix.lower() not in formats:
        raise UserError(
            f"A figure's name must end in {', '.join(formats)}; got '{path}'.",
            code="unknown_extension",
        )


def save_figure(path: str | Path, draw: Callable[[], "Figure"], **page: Any) -> str:
    """Writes the matplotlib figure that `draw` returns, in the format of the name's ending.

    `page` are arguments of `Figure.savefig`. Equal figures give equal bytes.

    Returns:
      The characters that the font lacks, which the figure shows as boxes.

    Raises:
      UserError: the file cannot be written.
    """
    import matplotlib

    content = io.BytesIO()
    kind = Path(path).suffix.lower().removeprefix(".")
    # No date and no random names.
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
    """Returns the missing characters in matplotlib's warnings; shows all other warnings."""
    missing = {}
    for warning in caught:
        if match := _MISSING_GLYPH.match(str(warning.message)):
            missing[chr(int(match[1]))] = True
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return "".join(missing)
