"""Which language a text is in, of those that a server translates."""

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.server.languages import base_language

# py3langid reads a character at a time: more would take longer and tell little.
_CHARACTERS_JUDGED = 1_000


class Detected(NamedTuple):
    """A language that a text may be in.

    Attributes:
      language: its code.
      confidence: its probability among the languages of the server, 0 to 1; 0 = nothing tells.
    """

    language: str
    confidence: float


def detect(texts: Sequence[str], languages: Iterable[str]) -> list[Detected]:
    """Returns the languages that texts may be in together, the likeliest first.

    Args:
      texts: of one language.
      languages: codes to choose from, at least one.

    Raises:
      UserError: py3langid is not installed, and there are several languages.
    """
    codes = sorted(languages)
    text = " ".join(texts)[:_CHARACTERS_JUDGED]
    if len(codes) == 1:
        return [Detected(codes[0], 1.0 if any(map(str.isalpha, text)) else 0.0)]
    if not any(map(str.isalpha, text)):
        return [Detected("en" if "en" in codes else codes[0], 0.0)]
    labels = {code: _label(code) for code in codes}
    found = dict(_identifier(frozenset(labels.values())).rank(text))
    ranked = [Detected(code, float(found.get(label, 0.0))) for code, label in labels.items()]
    return sorted(ranked, key=lambda each: -each.confidence)


def _label(code: str) -> str:
    """Returns py3langid's code for a language."""
    base = base_language(code)
    return "no" if base == "nb" else base


@functools.lru_cache(maxsize=4)
def _identifier(labels: frozenset[str]):
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise UserError(
            f"Detecting languages needs py3langid ({error}): pip install 't2t-keras[language]'."
        ) from error
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = sorted(labels.intersection(identifier.labels))
    if known:
        identifier.set_languages(known)
    return identifier
