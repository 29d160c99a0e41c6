"""XLIFF 1.0 to 1.2 and 2.0 to 2.2: what both have in common."""

from pathlib import Path

from t2t_keras.documents.document import checked_languages
from t2t_keras.documents.exchange.bilingual import (
    BilingualDocument,
    Change,
    Segment,
    tag_change,
)
from t2t_keras.documents.exchange.xliff_1 import changes_of_1, segments_of_1
from t2t_keras.documents.exchange.xliff_2 import changes_of_2, segments_of_2
from t2t_keras.documents.xml_tree import Element
from t2t_keras.errors import UserError

_SPACE = "http://www.w3.org/XML/1998/namespace space"
# Where each version has its languages.
_LANGUAGES = {
    "file": ("source-language", "target-language"),
    "xliff": ("srcLang", "trgLang"),
}


def read(path: Path, languages: tuple[str, str], content: bytes) -> "XliffDocument":
    """Returns a document with a unit for each segment that may be translated."""
    return XliffDocument(path, languages, content)


class XliffDocument(BilingualDocument):
    """An XLIFF file; `version` is what its root element says."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, content)
        self.version = ""
        self._expected = languages
        self._without_language: list[Element] = []
        # The open elements that say what to translate, and what to do with white space.
        self._translate: list[Element] = []
        self._space: list[Element] = []
        self.file.walk({"trans-unit", "unit"}, self._opened, self._closed)
        if not self.version:
            raise UserError(f"{path}: expected XLIFF, got XML with another root element.")

    @property
    def is_second(self) -> bool:
        """Whether the version is 2."""
        return self.version.startswith("2")

    def _opened(self, element: Element) -> None:
        if element.name == "xliff":
            self.version = element.attributes.get("version", "1.2")
        if element.attributes.get("translate"):
            self._translate.append(element)
        if element.attributes.get(_SPACE):
            self._space.append(element)
        if element.name == ("xliff" if self.is_second else "file"):
            names = _LANGUAGES[element.name]
            found = tuple(element.attributes.get(name, "") for name in names)
            self.languages = checked_languages(self.path, found, self._expected)
            if not found[1]:
                self._without_language.append(element)

    def _closed(self, element: Element) -> None:
        if self._translate and self._translate[-1] is element:
            self._translate.pop()
        if self._space and self._space[-1] is element:
            self._space.pop()
        if element.name not in ("trans-unit", "unit"):
            return
        outer = self._translate[-1].attributes["translate"] if self._translate else "yes"
        if element.attributes.get("translate", outer) == "no":
            self.left_out["not to be translated, as the file says"] += 1
        elif element.attributes.get("restype") == "x-gettext-domain-header":
            self.left_out["headers"] += 1
        else:
            find = segments_of_2 if self.is_second else segments_of_1
            segments = find(self.file, element)
            for each in segments:
                inside = (each.source, each.owner, element, *reversed(self._space))
                said = (found.attributes.get(_SPACE) for found in inside)
                each.unit.keeps_lines = next(filter(None, said), "") == "preserve"
            self.add(element, segments)

    def changes(self, element: Element, segments: list[Segment]) -> list[Change]:
        """See `BilingualDocument`."""
        if self.is_second:
            return changes_of_2(self.file, element, segments)
        return changes_of_1(self.file, element, segments, self.version != "1.0")

    def header_changes(self) -> list[Change]:
        """See `BilingualDocument`."""
        name = "trgLang" if self.is_second else "target_language"
        language = {name: self.languages[1]}
        return [tag_change(self.file, each, **language) for each in self._without_language]
