"""`translate_document`: the untranslated units of a document, by a model and a memory."""

import collections
import dataclasses
from collections.abc import Callable, Iterable

from t2t_keras.documents.document import Document, Suggestion, Unit
from t2t_keras.documents.segments import joined, segmented, sentences_of

_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done to the units of a document.

    Attributes:
      translated: units that the model translated.
      from_memory: units that the translation memory had.
      fuzzy: units of the model for which the memory has something similar.
      kept: units that were translated before.
      broken: units in which the model lost or added a placeholder, which was repaired.
      left_out: pieces of text that are in no unit, by the reason.
    """

    translated: int
    from_memory: int
    fuzzy: int
    kept: int
    broken: int
    left_out: dict[str, int]


def translate_document(
    document: Document,
    translator,
    everything: bool = False,
    memory=None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    glossary=None,
    final: bool = False,
    least: float = 0.75,
) -> Report:
    """Translates the units of a document that have no translation.

    Args:
      document: what `read_document` returned; `save` then writes it.
      translator: a `Translator`.
      everything: also translate anew what is translated.
      memory: a `TranslationMemory`: what it has is taken, what is similar is suggested.
      progress: takes the number of sentences that are done, and of all.
      glossary: a `Glossary` of how terms are translated.
      final: mark translations as good, not as in need of a review.
      least: how similar a suggestion of the memory must be, 0 to 1.

    Raises:
      UserError: as `Translator.translate`.
    """
    pending = [unit for unit in document.units if everything or not unit.is_translated]
    kept = len(document.units) - len(pending)
    from_memory, fuzzy, units = 0, 0, []
    for unit in pending:
        known = memory.exact(unit.source) if memory and unit.format != "xml" else None
        if known is not None:
            unit.set(known, "exact", 1.0, final)
            from_memory += 1
            continue
        if memory and (found := memory.fuzzy(unit.source, least)):
            unit.suggestions.append(Suggestion(*found))
            fuzzy += 1
        units.append(unit)
    broken = _translate(units, translator, document.languages[0], progress, glossary, final)
    return Report(len(units), from_memory, fuzzy, kept, broken, dict(document.left_out))


def _translate(units: list[Unit], translator, language: str, progress, glossary, final) -> int:
    """Translates units and returns how many have broken placeholders."""
    parts = [
        segmented(unit.source, language) if unit.format == "text" else [unit.source]
        for unit in units
    ]
    # The same sentence once, in the order of the document.
    texts: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for unit, pieces in zip(units, parts, strict=True):
        found = sentences_of(pieces) if unit.format == "text" else pieces
        texts[unit.format].update(dict.fromkeys(found, ""))
    broken = set()
    done, total = 0, sum(map(len, texts.values()))
    for kind, translations in texts.items():
        for chunk in _chunks(list(translations)):
            options = {"format": kind} if kind != "text" else {}
            if glossary is not None:
                options["glossary"] = glossary
            for text, found in zip(chunk, translator.translate(chunk, **options), strict=True):
                translations[text] = found.text
                if getattr(found, "broken", 0):
                    broken.add((kind, text))
            done += len(chunk)
            progress(done, total)
    count = 0
    for unit, pieces in zip(units, parts, strict=True):
        translations = texts[unit.format]
        if unit.format == "text":
            unit.set(joined(pieces, translations), final=final)
            count += any(("text", text) in broken for text in sentences_of(pieces))
        else:
            unit.set(translations[unit.source], final=final)
            count += (unit.format, unit.source) in broken
    return count


def _chunks(texts: list[str]) -> Iterable[list[str]]:
    return (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
