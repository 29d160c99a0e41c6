"""HTML pages with a common head, palette and content security policy."""

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from t2t_keras.io.terminal import printable

FOLDER = Path(__file__).parent
ICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>"
    "<rect width='16' height='16' rx='4' fill='%232457b3'/><path d='M3 6h9L9.5 3.5M13 10H4l2.5 2.5'"
    " fill='none' stroke='%23fff' stroke-width='1.5'/></svg>"
)


def security_policy(**sources: str) -> str:
    """Returns a content security policy that allows images in `data:` URLs and these sources.

    Args:
      **sources: allowed sources by directive, with "_" for "-": `script_src="'self'"`.
    """
    policy = {"default_src": "'none'", "img_src": "data:", "base_uri": "'none'"}
    policy |= {"form_action": "'none'"} | sources
    return "; ".join(f"{name.replace('_', '-')} {source}" for name, source in policy.items())


def render(folder: Path, template: str, **values: Any) -> str:
    """Returns a page; text in it is escaped and cannot change the writing direction.

    Args:
      folder: the template's; templates may extend `base.html` and include `base.css` of `FOLDER`.
      template: the template's file name.
      **values: the template's variables. `base.html` needs `title` and `policy`; "" = the page is
        sent with a policy in its headers.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"unbroken": _unbroken, "in_script": _in_script}
    # Jinja does not parse these files: scripts may contain its delimiters.
    environment.globals["verbatim"] = lambda name: Markup((folder / name).read_text("utf-8"))
    return environment.get_template(template).render(icon=ICON, **values)


def _unbroken(text: str) -> Markup:
    """Returns text that browsers do not break into lines."""
    return escape(printable(text)).replace(" ", "\N{NO-BREAK SPACE}")


def _in_script(data: Any) -> Markup:
    """Returns JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)
