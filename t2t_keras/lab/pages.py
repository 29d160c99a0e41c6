"""Pages of HTML that need no network: one look, and templates of Jinja2."""

import difflib
import json
from collections.abc import Iterator
from typing import Any

import jinja2
from markupsafe import Markup, escape

from t2t_keras.io.terminal import printable

# Colours of series and heads.
ON_LIGHT = tuple("#4784fa #be3008 #107c69 #c656b1 #9b9624 #34027c #174e66 #6d2214".split())
ON_DARK = tuple("#8da4f1 #f0b980 #129715 #c73793 #eef23e #8c58e1 #a3e7ec #da8092".split())


def render(template: str, **values: Any) -> str:
    """Returns a page; text in it is escaped, and cannot change the direction of writing."""
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
    """Returns text that no line end divides."""
    return escape(printable(text)).replace(" ", "\N{NO-BREAK SPACE}")


def _in_script(data: Any) -> Markup:
    """Returns JSON in which nothing can end the script element that it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def changed_words(before: str, text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a text, each with whether its words differ from those before.

    A part that is empty stands where words are gone.
    """
    words = text.split(" ")
    matcher = difflib.SequenceMatcher(a=before.split(" "), b=words, autojunk=False)
    for operation, _, _, start, end in matcher.get_opcodes():
        yield " ".join(words[start:end]), operation != "equal"
