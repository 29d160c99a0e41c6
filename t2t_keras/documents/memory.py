"""`TranslationMemory`: texts and their translations, found by what is the same or similar."""

import bisect
from collections.abc import Iterable
from pathlib import Path

from t2t_keras.documents.packages import needed_for
from t2t_keras.documents.reading import EXTENSIONS, read_document
from t2t_keras.errors import UserError
from t2t_keras.text.files import reading
from t2t_keras.text.tmx import translation_units

# Longer texts are not compared, which would take long and seldom find anything.
_LONGEST = 1000


class TranslationMemory:
    """Pairs of a text and its translation; of several with the same text the first counts.

    Args:
      pairs: text and translation.

    Example:
      >>> TranslationMemory([("Open file", "Datei öffnen")]).fuzzy("Open a file")
      ('Open file', 'Datei öffnen', 0.9)
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        self._targets: dict[str, str] = {}
        for source, target in pairs:
            self._add(source.strip(), target.strip())
            lines, others = source.strip().split("\n"), target.strip().split("\n")
            if 1 < len(lines) == len(others):
                for line, other in zip(lines, others, strict=True):
                    self._add(line.strip(), other.strip())
        self._sources = sorted(filter(_is_comparable, self._targets), key=len)
        self._lengths = list(map(len, self._sources))

    def _add(self, source: str, target: str) -> None:
        if source and target:
            self._targets.setdefault(source, target)

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
        path = Path(path)
        if path.suffix.lower() == ".tmx":
            with reading(path) as stream:
                units = translation_units(stream, str(path), (source, target), keep_lines=True)
                return cls(
                    tuple(side.decode("utf-8", "replace") for side in sides) for sides in units
                )
        document = read_document(path, source, target)
        memory = cls((unit.source, unit.target) for unit in document.units if unit.is_translated)
        if not len(memory):
            raise UserError(
                f"{path}: expected translations for a memory, got none. Give one of "
                f"{', '.join(EXTENSIONS)} that has some."
            )
        return memory

    def __len__(self) -> int:
        return len(self._targets)

    def exact(self, text: str) -> str | None:
        """Returns the translation of a text, without white space around both; None = unknown."""
        return self._targets.get(text.strip())

    def fuzzy(self, text: str, least: float = 0.75) -> tuple[str, str, float] | None:
        """Returns the most similar text, its translation, and how similar it is.

        The similarity is 1 - (characters to insert and to delete) / (characters of both).

        Args:
          text: what to find.
          least: the least similarity, 0 to 1; None is returned where there is nothing like that.
        """
        text = text.strip()
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
