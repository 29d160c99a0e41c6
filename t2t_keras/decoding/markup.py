"""Translation of HTML and XML."""

import re
from collections.abc import Sequence

from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError


def translate_markup(
    translator,
    texts: Sequence[str],
    format: str,  # noqa: A002
    blocks: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> list[Translation]:
    """Translates HTML or XML.

    Args:
      translator: a `Translator`.
      texts: fragments, or whole documents.
      format: "html" or "xml".
      blocks: more elements that separate segments of text.
      keep: more elements whose content is not translated.

    Raises:
      UserError: malformed XML, or as of `Translator.translate`.
    """
    if format not in ("html", "xml"):
        raise UserError(f"Expected format to be text, html or xml, got {format!r}.")
    found = []
    for text in texts:
        pieces = re.split("(<[^>]*>)", text)
        lines = [re.sub(r"\s+", " ", each).strip() for each in pieces[::2]]
        pieces[::2] = [each.text for each in translator.translate(lines)]
        found.append(Translation("".join(pieces), 0.0))
    return found
