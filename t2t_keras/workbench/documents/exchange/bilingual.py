"""What XLIFF and TMX have in common: sources and targets with inline codes, in one XML file."""

import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

from t2t_keras.workbench.documents.document import Unit
from t2t_keras.workbench.documents.exchange.inline_codes import Codes, codes_of
from t2t_keras.workbench.documents.exchange.messages import markup_of_message, with_branches
from t2t_keras.workbench.documents.spans import Change, SpanDocument
from t2t_keras.workbench.documents.xml_tree import Element, read_xml

_ATTRIBUTE = re.compile(r"""(?<!\s)\s++([^\s=<>/"']+)\s*=\s*(?:"[^"]*"|'[^']*')""")


class Segment:
    """A source and its target in the file, and the unit of them.

    Attributes:
      unit: what is translated.
      owner: the element that has both.
      source: the element of the source.
      target: that of the target, None = there is none.
    """

    def __init__(
        self,
        path: Path,
        owner: Element,
        source: Element,
        target: Element | None,
        name: str,
        native: Mapping[str, str] | None = None,
    ):
        self._path, self.owner, self.source, self.target = path, owner, source, target
        self.codes: Codes = codes_of(source, native)
        text = codes_of(target).text if target else ""
        kind = self.codes.format if self.codes.tags else markup_of_message(self.codes.text)
        self.unit = Unit(self.codes.text, text if text.strip() else "", kind, context=name or None)
        # Line ends in HTML of a message are not indentation of the file.
        self.unit.keeps_lines = kind == "html"

    def restored(self) -> str:
        """Returns the XML of the unit's translation."""
        name = f"{self._path}, {self.unit.context or 'a unit'}"
        return self.codes.restored(self.unit.target, name)

    @property
    def machine_quality(self) -> float | None:
        """How good a machine's new translation is likely to be; None = unknown, or no machine's."""
        return self.unit.quality if self.unit.match == "machine" else None

    def tag_name(self, name: str) -> str:
        """Returns a tag's name with the prefix of the source's."""
        return with_prefix(self.source, name)


class BilingualDocument(SpanDocument):
    """A document in which translations change XML, each format in its own way.

    Attributes:
      segments: those of each of the elements that have them, in order.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, read_xml(path, content), "xmlcharrefreplace")
        self.segments: list[tuple[Element, list[Segment]]] = []

    def add_segments(self, element: Element, segments: list[Segment]) -> None:
        """Adds the segments of an element that have text."""
        segments = [segment for segment in segments if segment.source.text().strip()]
        if segments:
            self.segments.append((element, segments))
            self.add_units(with_branches(self, [segment.unit for segment in segments]))

    def changes(self) -> list[Change]:
        """See `SpanDocument`."""
        changes: list[Change] = []
        for element, segments in self.segments:
            if any(segment.unit.match for segment in segments):
                changes += self.changes_of(element, segments)
        return changes + self.header_changes() if changes else []

    def changes_of(self, element: Element, segments: list[Segment]) -> list[Change]:
        """Returns what the translations of an element change."""
        raise NotImplementedError

    def header_changes(self) -> list[Change]:
        """Returns what else changes in a document with translations."""
        return []


def tag_change(element: Element, **attributes: str) -> Change:
    """Returns the change that sets attributes of an element."""
    return element.start, element.inner_start, with_attributes(element.tag, **attributes)


def with_attributes(tag: str, **attributes: str) -> str:
    """Returns an opening tag with attributes set, or without them where they are "".

    In their names _ stands for -.
    """
    for name, value in attributes.items():
        name = name.replace("_", "-")
        old = next((match for match in _ATTRIBUTE.finditer(tag) if match[1] == name), None)
        if old:
            tag = tag[: old.start()] + tag[old.end() :]
        if value:
            end = "/>" if tag.endswith("/>") else ">"
            tag = f"{tag.removesuffix(end).rstrip()} {name}={quoteattr(value)}{end}"
    return tag


def with_prefix(element: Element, name: str) -> str:
    """Returns the name of a tag with the prefix that an element has."""
    prefix, colon, _ = re.split(r"[\s/>]", element.tag[1:], maxsplit=1)[0].rpartition(":")
    return f"{prefix}{colon}{name}"


def space_before(element: Element) -> str:
    """Returns the line feed and the indentation of an element that begins a line, else ""."""
    before = element.file[max(element.start - 200, 0) : element.start]
    space = re.search(r"\r?\n[ \t]*$", before)
    return space[0] if space else ""
