"""TMX: translation units in which the variant of a language is missing."""

from pathlib import Path
from xml.sax.saxutils import quoteattr

from t2t_keras.errors import UserError
from t2t_keras.text.formats import in_language, normalised
from t2t_keras.workbench.documents.document import checked_languages
from t2t_keras.workbench.documents.exchange.bilingual import (
    BilingualDocument,
    Segment,
    space_before,
    with_prefix,
)
from t2t_keras.workbench.documents.spans import Change
from t2t_keras.workbench.documents.xml_tree import Element, walk

_ALL = "*all*"


def read(path: Path, languages: tuple[str, str], content: bytes) -> "TmxDocument":
    """Returns a document with a unit for each translation unit that has the source language."""
    return TmxDocument(path, languages, content)


class TmxDocument(BilingualDocument):
    """A TMX file. Its source language is the header's, unless it is given.

    Without a target language all its units have no translation, and can be given none.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, content)
        self._is_tmx = False
        walk(path, self.read.text, {"tu"}, self._opened, self._closed)
        if not self._is_tmx:
            raise UserError(
                f"{path}: expected TMX, got XML with another root element.", code="other_format"
            )

    def _opened(self, element: Element) -> None:
        self._is_tmx |= element.name == "tmx"
        if element.name == "header":
            named = element.attributes.get("srclang", "")
            source, target = self.languages
            found = named if not source and named.lower() != _ALL else ""
            self.languages = checked_languages(self.path, (found, ""), (source, target))
            if not self.languages[0]:
                raise self._without_languages()

    def _without_languages(self) -> UserError:
        return UserError(
            f"{self.path}: expected two languages, got '{self.languages[0]}' as the source and "
            f"'{self.languages[1]}' as the target. Name them.",
            code="unknown_language",
        )

    def _closed(self, element: Element) -> None:
        if element.name != "tu":
            return
        # The first where a language comes twice.
        variants = {normalised(each.language): each for each in element.children("tuv")[::-1]}
        source, target = (
            in_language(variants, language) if language else None for language in self.languages
        )
        segment = source.child("seg") if source else None
        if not source or not segment:
            self.left_out[f"units without {self.languages[0]}"] += 1
            return
        found = target.child("seg") if target else None
        name = element.attributes.get("tuid", "")
        each = Segment(self.path, target or source, segment, found, name)
        each.unit.is_translated = bool(each.unit.target)
        self.add_segments(element, [each])

    def changes_of(self, element: Element, segments: list[Segment]) -> list[Change]:
        """See `BilingualDocument`."""
        if not self.languages[1]:
            raise self._without_languages()
        [segment] = segments
        owner, name = segment.owner, segment.tag_name("seg")
        text = f"<{name}>{segment.restored()}</{name}>"
        if segment.target:
            return [(segment.target.start, segment.target.end, text)]
        variant = with_prefix(owner, "tuv")
        if owner.child("seg") is not segment.source:
            # The variant of the target language has no segment yet: put it after the notes.
            if owner.is_empty_tag:
                tag = owner.tag[:-2].rstrip()
                return [(owner.start, owner.end, f"{tag}>{text}</{variant}>")]
            return [(owner.inner_end, owner.inner_end, text)]
        text = (
            f"{space_before(owner)}<{variant} "
            f'xml:lang={quoteattr(self.languages[1])} creationid="t2t_keras">'
            f"{space_before(segment.source)}{text}{space_before(owner)}</{variant}>"
        )
        return [(owner.end, owner.end, text)]
