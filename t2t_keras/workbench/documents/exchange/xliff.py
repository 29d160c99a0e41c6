"""XLIFF 1.0 to 1.2 and 2.0 to 2.2: what both have in common."""

from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.document import checked_languages
from t2t_keras.workbench.documents.exchange.bilingual import (
    BilingualDocument,
    Change,
    Segment,
    tag_change,
)
from t2t_keras.workbench.documents.exchange.labels import find_accelerators
from t2t_keras.workbench.documents.exchange.xliff_1 import changes_of_1, segments_of_1
from t2t_keras.workbench.documents.exchange.xliff_2 import changes_of_2, segments_of_2
from t2t_keras.workbench.documents.xml_tree import Element

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
        self._without_language: list[Element] = []
        # The open elements that say what to translate, or what to do with white space.
        self._outer: list[Element] = []
        self.file.walk({"trans-unit", "unit"}, self._opened, self._closed)
        if not self.version:
            raise UserError(
                f"{path}: expected XLIFF, got XML with another root element.", code="other_format"
            )
        find_accelerators(self.units)

    @property
    def is_second(self) -> bool:
        """Whether the version is 2."""
        return self.version.startswith("2")

    def _opened(self, element: Element) -> None:
        if element.name == "xliff":
            self.version = element.attributes.get("version", "1.2")
        if element.attributes.get("translate") or element.attributes.get(_SPACE):
            self._outer.append(element)
        if element.name == ("xliff" if self.is_second else "file"):
            names = _LANGUAGES[element.name]
            found = tuple(element.attributes.get(name, "") for name in names)
            self.languages = checked_languages(self.path, found, self.languages)
            if not found[1]:
                self._without_language.append(element)

    def _closed(self, element: Element) -> None:
        if self._outer and self._outer[-1] is element:
            self._outer.pop()
        if element.name not in ("trans-unit", "unit"):
            return
        if self._said("translate", element) == "no":
            self.left_out["not to be translated, as the file says"] += 1
        elif element.attributes.get("restype") == "x-gettext-domain-header":
            self.left_out["headers"] += 1
        else:
            find = segments_of_2 if self.is_second else segments_of_1
            segments = find(self.file, element)
            for each in segments:
                space = self._said(_SPACE, each.source, each.owner, element)
                each.unit.keeps_lines = space == "preserve" if space else each.unit.keeps_lines
            self.add(element, segments)

    def _said(self, attribute: str, *inner: Element) -> str:
        """Returns what the innermost element says that has an attribute, "" = none has it."""
        elements = (*inner, *reversed(self._outer))
        return next(filter(None, (each.attributes.get(attribute) for each in elements)), "")

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
