"""`TranslationMemory`: texts and their translations, found by what is the same or similar."""

import bisect
from collections.abc import Iterable
from pathlib import Path

from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.text.files import normalized, reading
from t2t_keras.text.formats import translation_units
from t2t_keras.workbench.documents.document import Unit
from t2t_keras.workbench.documents.reading import EXTENSIONS, needed_for, read_document

# Longer texts are not compared, which would take long and seldom find anything.
_LONGEST = 1000


class TranslationMemory:
    """Pairs of a text and its translation; of several with the same text the first counts.

    Args:
      pairs: text and translation.
      units: of documents. Theirs is the translation of a text of the same context and plural form,
        or where all of them have the same one; what nobody has reviewed is only similar.

    Example:
      >>> TranslationMemory([("Open file", "Datei öffnen")]).fuzzy("Open a file")
      ('Open file', 'Datei öffnen', 0.9)
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], units: Iterable[Unit] = ()):
        self._targets: dict[str, str] = {}
        # Of text, context and plural form; None = several.
        self._of_units: dict[tuple[str, str | None, int | None], str | None] = {}
        self._entries: set[tuple[str, str | None, int | None]] = set()
        self._unsure: set[str] = set()
        for source, target in pairs:
            self._add_lines(source, target)
        for unit in sorted(units, key=lambda unit: not unit.is_reviewed):
            self._add_lines(unit.source, unit.target, unit)
        self._sources = sorted(filter(_is_comparable, self._targets), key=len)
        self._lengths = list(map(len, self._sources))

    def _add_lines(self, source: str, target: str, unit: Unit | None = None) -> None:
        self._add(source.strip(), target.strip(), unit)
        lines, others = source.strip().split("\n"), target.strip().split("\n")
        if 1 < len(lines) == len(others):
            for line, other in zip(lines, others, strict=True):
                self._add(line.strip(), other.strip(), unit)

    def _add(self, source: str, target: str, unit: Unit | None) -> None:
        source = normalized(source)
        if not (source and target):
            return
        key = (source, unit.context, unit.form) if unit else (source, None, None)
        self._entries.add(key)
        is_new = source not in self._targets
        is_other = self._targets.setdefault(source, target) != target
        if unit and (is_other if unit.is_reviewed else is_new):
            self._unsure.add(source)
        if unit and unit.is_reviewed:
            is_alone = self._of_units.get(key, target) == target
            self._of_units[key] = target if is_alone else None

    @classmethod
    def read(cls, path: str | Path, source: str, target: str) -> "TranslationMemory":
        """Returns the memory in a TMX file, or in another file that has translations, as PO.

        Args:
          path: the file.
          source: code of the language of the texts.
          target: code of the language of their translations.

        Raises:
          UserError: the file cannot be read, or has nothing in the two languages.
        """
        path = Path(expanded(path))
        if path.suffix.lower() == ".tmx":
            with reading(path) as stream:
                units = translation_units(stream, str(path), (source, target), keep_lines=True)
                return cls(
                    (text.decode("utf-8", "replace"), translation.decode("utf-8", "replace"))
                    for text, translation in units
                )
        document = read_document(path, source, target)
        memory = cls((), (unit for unit in document.units if unit.is_translated))
        if not len(memory):
            raise UserError(
                f"{path}: expected translations for a memory, got none. Give one of "
                f"{', '.join(EXTENSIONS)} that has some.",
                code="no_documents",
            )
        return memory

    def __len__(self) -> int:
        """Returns the number of texts and lines, each as often as its contexts and forms differ."""
        return len(self._entries)

    def exact(self, text: str, context: str | None = None, form: int | None = None) -> str | None:
        """Returns the translation of a text, without white space around both; None = unknown.

        Args:
          text: what to find.
          context: of its unit.
          form: the plural form of that.
        """
        source = normalized(text.strip())
        if (key := (source, context, form)) in self._of_units:
            return self._of_units[key]
        return None if source in self._unsure else self._targets.get(source)

    def fuzzy(self, text: str, least: float = 0.75) -> tuple[str, str, float] | None:
        """Returns the most similar text, its translation, and how similar it is.

        The similarity is 1 - (characters to insert and to delete) / (characters of both).

        Args:
          text: what to find.
          least: the least similarity, 0 to 1; None is returned where there is nothing like that.
        """
        text = normalized(text.strip())
        if not _is_comparable(text) or not least:
            return None
        with needed_for("A translation memory"):
            from rapidfuzz import fuzz, process

        # A text of another length cannot be as similar.
        shortest = len(text) * least / (2 - least)
        start = bisect.bisect_left(self._lengths, int(shortest))
        end = bisect.bisect_right(self._lengths, len(text) * (2 - least) / least + 1)
        found = process.extractOne(
            text, self._sources[start:end], scorer=fuzz.ratio, score_cutoff=100 * least
        )
        return found and (found[0], self._targets[found[0]], found[1] / 100)


def _is_comparable(text: str) -> bool:
    return 0 < len(text) <= _LONGEST
