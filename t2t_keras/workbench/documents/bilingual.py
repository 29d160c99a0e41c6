"""XLIFF 1.0 to 1.2 and 2.0 to 2.2, and TMX: sources and targets with inline codes in one file."""

import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from t2t_keras.errors import UserError
from t2t_keras.text.formats import in_language, normalised
from t2t_keras.workbench.documents.document import Change, SpanDocument, Unit, checked_languages
from t2t_keras.workbench.documents.inline_codes import AROUND, Codes, codes_of
from t2t_keras.workbench.documents.messages import (
    find_accelerators,
    markup_of_message,
    with_branches,
)
from t2t_keras.workbench.documents.xml_tree import Element, read_xml, walk

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


_SPACE = "http://www.w3.org/XML/1998/namespace space"
_MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
# Where each version has its languages.
_LANGUAGES = {
    "file": ("source-language", "target-language"),
    "xliff": ("srcLang", "trgLang"),
}
# States of a target of version 1 that is there but is no translation.
_UNTRANSLATED = {"new", "needs-translation", "needs-adaptation", "needs-l10n"}
_UNREVIEWED = "t2t:machine"


class XliffDocument(BilingualDocument):
    """An XLIFF file with a unit for each segment that may be translated.

    Attributes:
      version: what its root element says.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, content)
        self.version = ""
        self._without_language: list[Element] = []
        # The open elements that say what to translate, or what to do with white space.
        self._outer: list[Element] = []
        walk(path, self.read.text, {"trans-unit", "unit"}, self._opened, self._closed)
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
            source, target = (element.attributes.get(name, "") for name in _LANGUAGES[element.name])
            self.languages = checked_languages(self.path, (source, target), self.languages)
            if not target:
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
            segments = (_segments_of_2 if self.is_second else _segments_of_1)(self.path, element)
            for each in segments:
                space = self._said(_SPACE, each.source, each.owner, element)
                each.unit.keeps_lines = space == "preserve" if space else each.unit.keeps_lines
            self.add_segments(element, segments)

    def _said(self, attribute: str, *inner: Element) -> str:
        """Returns what the innermost element says that has an attribute, "" = none has it."""
        elements = (*inner, *reversed(self._outer))
        return next(filter(None, (each.attributes.get(attribute) for each in elements)), "")

    def changes_of(self, element: Element, segments: list[Segment]) -> list[Change]:
        """See `BilingualDocument`."""
        if self.is_second:
            return _changes_of_2(element, segments)
        return _changes_of_1(element, segments, self.version != "1.0")

    def header_changes(self) -> list[Change]:
        """See `BilingualDocument`."""
        name = "trgLang" if self.is_second else "target_language"
        language = {name: self.languages[1]}
        return [tag_change(each, **language) for each in self._without_language]


def _segments_of_1(path: Path, element: Element) -> list[Segment]:
    """Returns the segments of a trans-unit: the whole, or those of its seg-source."""
    source, target = element.child("source"), element.child("target")
    if not source:
        raise UserError(f"{path}: a trans-unit has no source.", code="incomplete_document")
    name = element.attributes.get("resname") or element.attributes.get("id", "")
    targets = {each.attributes.get("mid"): each for each in _marked(target)}
    segments = [
        Segment(path, element, each, targets.get(each.attributes.get("mid")), name)
        for each in _marked(element.child("seg-source"))
    ]
    state = target.attributes.get("state", "") if target else ""
    if not segments or (state not in _UNTRANSLATED and _has_others(target, segments)):
        segments = [Segment(path, element, source, target, name)]
    for each in segments:
        each.unit.is_translated = bool(each.unit.target) and state not in _UNTRANSLATED
        each.unit.is_reviewed = not state.startswith("needs-review")
    return segments


def _marked(element: Element | None) -> list[Element]:
    """Returns the segments within a seg-source or its target."""
    found: list[Element] = []
    for each in element.items if element else ():
        if isinstance(each, Element):
            is_segment = each.name == "mrk" and each.attributes.get("mtype") == "seg"
            found += [each] if is_segment else _marked(each)
    return found


def _has_others(target: Element | None, segments: list[Segment]) -> bool:
    """Returns whether a target has text that is of none of the segments."""
    return _letters(target) > sum(_letters(each.target) for each in segments)


def _letters(element: Element | None) -> int:
    """Returns how many letters an element has outside of codes."""
    items = element.items if element else ()
    texts = "".join(item for item in items if isinstance(item, str))
    inner = (item for item in items if isinstance(item, Element) and item.name in AROUND)
    return sum(map(str.isalpha, texts)) + sum(map(_letters, inner))


def _changes_of_1(element: Element, segments: list[Segment], has_qualifiers: bool) -> list[Change]:
    """Returns what the translations of a trans-unit change."""
    source, target = element.children("source")[0], element.child("target")
    segmented = None if segments[0].source is source else element.child("seg-source")
    inner = _joined(segmented, segments) if segmented else segments[0].restored()
    name = segments[0].tag_name("target")
    tag = f"<{name}>"
    if target:
        tag = f"{target.tag[:-2].rstrip()}>" if target.is_empty_tag else target.tag
    needs_review = any(each.unit.needs_review for each in segments)
    is_exact = all(each.unit.match != "machine" for each in segments)
    tag = with_attributes(
        tag,
        state="needs-review-translation" if needs_review else "translated",
        state_qualifier=("exact-match" if is_exact else "leveraged-mt") if has_qualifiers else "",
    )
    space = space_before(source)
    text = f"{tag}{inner}</{name}>"
    text += "".join(space + each for segment in segments for each in _alternatives_of_1(segment))
    if target:
        changes = [(target.start, target.end, text)]
    else:
        before = element.child("seg-source") or source
        changes = [(before.end, before.end, space + text)]
    if needs_review and element.attributes.get("approved") == "yes":
        changes.append(tag_change(element, approved="no"))
    return changes


def _joined(segmented: Element, segments: list[Segment]) -> str:
    """Returns the content of a target: that of seg-source with its segments translated."""
    pieces, position = [], segmented.inner_start
    for segment in segments:
        text = segment.restored() if segment.unit.match else ""
        if not segment.unit.match and segment.target and not segment.target.is_empty_tag:
            text = segment.target.inner
        pieces += [segmented.file[position : segment.source.inner_start], text]
        position = segment.source.inner_end
    return "".join([*pieces, segmented.file[position : segmented.inner_end]])


def _alternatives_of_1(segment: Segment) -> list[str]:
    """Returns what the memory has like the source, and how good the machine finds its own."""
    unit = segment.unit
    name, source, target = map(segment.tag_name, ("alt-trans", "source", "target"))
    mid = segment.source.attributes.get("mid") if segment.source.name == "mrk" else ""
    # Which segment they are for; without it, they are for the whole.
    of = f" mid={quoteattr(mid)}" if mid else ""
    alternatives = [
        f'<{name} match-quality="{each.ratio:.0%}" origin="memory"{of}>'
        f"<{source}>{escape(each.source)}</{source}>"
        f"<{target}>{escape(each.target)}</{target}></{name}>"
        for each in unit.suggestions
    ]
    if (quality := segment.machine_quality) is not None:
        alternatives.append(
            f'<{name} match-quality="{quality:.0%}" origin="t2t_keras"{of}>'
            f"<{target}>{segment.restored()}</{target}></{name}>"
        )
    return alternatives


def _segments_of_2(path: Path, element: Element) -> list[Segment]:
    """Returns the segments of a unit."""
    name = element.attributes.get("name") or element.attributes.get("id", "")
    native = {
        data.attributes.get("id", ""): data.text()
        for original in element.children("originalData")
        for data in original.children("data")
    }
    segments = []
    for owner in element.children("segment"):
        if not (source := owner.child("source")):
            continue
        segment = Segment(path, owner, source, owner.child("target"), name, native)
        # A target without a state is one, as many tools write it.
        is_initial = owner.attributes.get("state") == "initial"
        segment.unit.is_translated = bool(segment.unit.target) and not is_initial
        segment.unit.is_reviewed = owner.attributes.get("subState") != _UNREVIEWED
        segments.append(segment)
    return segments


def _changes_of_2(element: Element, segments: list[Segment]) -> list[Change]:
    """Returns what the translations of a unit change."""
    changes: list[Change] = []
    matches: list[str] = []
    prefix, existing = _matches_of(element)
    taken = {each.attributes.get("id") for each in element.children("segment", "ignorable")}
    for number, segment in enumerate(segments):
        if not segment.unit.match:
            continue
        identity = segment.owner.attributes.get("id", "")
        has_matches = segment.unit.suggestions or segment.machine_quality is not None
        attributes = {"state": "translated", "subState": ""}
        if segment.unit.needs_review:
            attributes["subState"] = _UNREVIEWED
        if has_matches and not identity:
            identity = next(f"t2t{n}" for n in range(number, 1 << 20) if f"t2t{n}" not in taken)
            taken.add(identity)
            attributes["id"] = identity
        matches += _matches_for(segment, prefix, quoteattr(f"#{identity}"))
        changes += [tag_change(segment.owner, **attributes), _target_change(segment)]
    if matches and existing:
        changes.append((existing.inner_start, existing.inner_start, "".join(matches)))
    elif matches:
        space = space_before(element.children("segment")[0])
        text = (
            f'<{prefix}:matches xmlns:{prefix}="{_MATCHES}">{"".join(matches)}</{prefix}:matches>'
        )
        changes.append((element.inner_start, element.inner_start, space + text))
    return changes


def _matches_of(element: Element) -> tuple[str, Element | None]:
    """Returns the prefix for matches, and the element of those that are there."""
    for child in element.children("matches"):
        name = with_prefix(child, "")
        if child.namespace == _MATCHES and not child.is_empty_tag and name:
            return name.rstrip(":"), child
    return "mtc", None


def _target_change(segment: Segment) -> Change:
    name, target, source = segment.tag_name("target"), segment.target, segment.source
    if target and not target.is_empty_tag:
        return target.inner_start, target.inner_end, segment.restored()
    text = f"<{name}>{segment.restored()}</{name}>"
    if target:
        return target.start, target.end, text
    return source.end, source.end, space_before(source) + text


def _matches_for(segment: Segment, prefix: str, reference: str) -> list[str]:
    """Returns what the memory has like the source, and how good the machine finds its own."""
    unit = segment.unit
    source, target = map(segment.tag_name, ("source", "target"))
    matches = [
        f'<{prefix}:match ref={reference} type="tm" similarity="{100 * each.ratio:.1f}">'
        f"<{source}>{escape(each.source)}</{source}>"
        f"<{target}>{escape(each.target)}</{target}></{prefix}:match>"
        for each in unit.suggestions
    ]
    if (quality := segment.machine_quality) is not None:
        matches.append(
            f'<{prefix}:match ref={reference} type="mt" matchQuality="{round(100 * quality, 3)}" '
            f'origin="t2t_keras">{segment.source.raw}<{target}>{segment.restored()}</{target}>'
            f"</{prefix}:match>"
        )
    return matches


_ALL = "*all*"


class TmxDocument(BilingualDocument):
    """A TMX file with a unit for each translation unit that has the source language.

    Its source language is the header's, unless it is given.

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
