"""Keeping the terms of a glossary: by hints in the source, or by forcing what is missing."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.decoding.source_text import Source
from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.hints import has_marks, with_hints, without_hints
from t2t_keras.text.term_uses import MISSING, find_uses

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator


def takes_hints(translator: "Translator") -> bool:
    """Returns whether a translator gives its models hints.

    Raises:
      UserError: it should, but they were not trained with hints.
    """
    trained = translator.problem.takes_hints
    if translator.config.terms == "soft" and not trained:
        raise UserError(
            "terms=soft needs a model that was trained with hints: --problem_config=terms=true,"
            "augment=terms:0.3. With this one, set terms=hard."
        )
    return trained


def hinted(text: str, glossary: Glossary) -> str:
    """Returns a source with hints of the terms in it; as it is if it has hints."""
    if has_marks(text):
        return text
    matches = glossary.matches(text)
    return with_hints(text, ((match.end, match.term.target) for match in matches))


def keep_terms(
    translator: "Translator",
    sources: Sequence[Source],
    prefixes: Sequence[np.ndarray],
    translations: Sequence[Translation],
    glossary: Glossary,
) -> list[Translation]:
    """Returns translations that say what became of the terms.

    Args:
      translator: that made them.
      sources: with hints, where it gives them.
      prefixes: ids that they begin with.
      translations: of the sources.
      glossary: the terms.
    """
    texts = [without_hints(source.line) for source in sources]
    found = []
    for source, text, translation in zip(sources, texts, translations, strict=True):
        hinted = source.line if source.line != text else ""
        terms = tuple(find_uses(text, glossary.matches(text), translation.text))
        found.append(dataclasses.replace(translation, hinted=hinted, terms=terms))
    missing = [
        number
        for number, translation in enumerate(found)
        if any(use.kind == MISSING for use in translation.terms)
    ]
    some = [found[number] for number in missing]
    alignments = translator.align_sources([sources[number] for number in missing], some)
    for number, alignment in zip(missing, alignments, strict=True):
        matches = [use.match for use in found[number].terms]
        uses = find_uses(texts[number], matches, found[number].text, alignment)
        found[number] = dataclasses.replace(found[number], terms=tuple(uses))
    return found
