"""XLIFF 1.0 to 1.2 and 2.0 to 2.2, and TMX: files of sources and targets with inline codes."""

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from t2t_keras.errors import UserError
from t2t_keras.text.files import replace_spans
from t2t_keras.text.formats import normalized_language, value_for_language
from t2t_keras.workbench.documents.document import Change, SpanDocument, Unit, resolve_languages
from t2t_keras.workbench.documents.inline_codes import TEXT_ELEMENTS, Codes, codes_of
from t2t_keras.workbench.documents.software_strings import (
    divide_messages,
    find_accelerators,
    format_of_message,
)
from t2t_keras.workbench.documents.xml_tree import Element, read_tree, read_xml

_ATTRIBUTE = re.compile(r"""(?<!\s)\s++([^\s=<>/"']+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_XML_SPACE = "http://www.w3.org/XML/1998/namespace space"
_MATCHES_NAMESPACE = "urn:oasis:names:tc:xliff:matches:2.0"
# Version 1's states of targets that are not translated yet.
_UNTRANSLATED_STATES = {"new", "needs-translation", "needs-adaptation", "needs-l10n"}
_UNREVIEWED_STATE = "t2t:machine"
_ALL_LANGUAGES = "*all*"


class BilingualSegment:
    """A source and its target in the file, and their unit.

    Attributes:
      unit: the unit to translate.
      owner: the element that contains both.
      source: the element of the source.
      target: the element of the target; None = there is none.
    """

    def __init__(
        self,
        path: Path,
        owner: Element,
        source: Element,
        target: Element | None,
        name: str,
        native_codes: Mapping[str, str] | None = None,
    ):
        self._path, self.owner, self.source, self.target = path, owner, source, target
        self.codes: Codes = codes_of(source, native_codes)
        target_text = codes_of(target).text if target else ""
        text_format = self.codes.format if self.codes.tags else format_of_message(self.codes.text)
        self.unit = Unit(self.codes.text, target_text if target_text.strip() else "", text_format)
        self.unit.context = name or None
        # Line ends inside an HTML message are not the file's indentation.
        self.unit.keeps_lines = text_format == "html"

    def target_xml(self) -> str:
        """Returns the XML of the unit's translation."""
        name = f"{self._path}, {self.unit.context or 'a unit'}"
        return self.codes.restore(self.unit.target, name)

    @property
    def machine_quality(self) -> float | None:
        """Likely quality of a new machine translation; None = unknown, or not by machine."""
        return self.unit.quality if self.unit.match == "machine" else None

    def tag_name(self, name: str) -> str:
        """Returns a tag's name with the namespace prefix of the source."""
        return add_prefix(self.source, name)


class BilingualDocument(SpanDocument):
    """A document of sources and targets in XML.

    Attributes:
      segments: elements with their segments, in order.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, read_xml(path, content), "xmlcharrefreplace")
        self.segments: list[tuple[Element, list[BilingualSegment]]] = []

    def add_segments(self, element: Element, segments: list[BilingualSegment]) -> None:
        """Adds an element's segments, except those without text."""
        segments = [segment for segment in segments if segment.source.text().strip()]
        if segments:
            self.segments.append((element, segments))
            self.add_units(divide_messages(self, [segment.unit for segment in segments]))

    def changes(self) -> list[Change]:
        """See `SpanDocument`."""
        changes: list[Change] = []
        for element, segments in self.segments:
            if any(segment.unit.match for segment in segments):
                changes += self.element_changes(element, segments)
        return changes + self.header_changes() if changes else []

    def element_changes(self, element: Element, segments: list[BilingualSegment]) -> list[Change]:
        """Returns the changes for the translations of an element."""
        raise NotImplementedError

    def header_changes(self) -> list[Change]:
        """Returns the changes of the header, needed if there is any new translation."""
        return []


def tag_change(element: Element, **attributes: str) -> Change:
    """Returns the change that sets attributes of an element."""
    return element.start, element.inner_start, set_attributes(element.tag, **attributes)


def set_attributes(tag: str, **attributes: str) -> str:
    """Sets attributes in an opening tag; the value "" removes one. "_" in names stands for "-"."""
    for name, value in attributes.items():
        name = name.replace("_", "-")
        if match := next((old for old in _ATTRIBUTE.finditer(tag) if old[1] == name), None):
            tag = tag[: match.start()] + tag[match.end() :]
        if value:
            end = "/>" if tag.endswith("/>") else ">"
            tag = f"{tag.removesuffix(end).rstrip()} {name}={quoteattr(value)}{end}"
    return tag


def add_prefix(element: Element, name: str) -> str:
    """Returns a tag name with the namespace prefix of an element."""
    prefix, colon, _ = re.split(r"[\s/>]", element.tag[1:], maxsplit=1)[0].rpartition(":")
    return f"{prefix}{colon}{name}"


def space_before(element: Element) -> str:
    """Returns the line break and indentation before an element; "" = not at the start of a line."""
    text_before = element.file[max(element.start - 200, 0) : element.start]
    space = re.search(r"\r?\n[ \t]*$", text_before)
    return space[0] if space else ""


class XliffDocument(BilingualDocument):
    """An XLIFF file with a unit for each segment that may be translated."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, content)
        root = read_tree(path, self.file.text)
        xliff = next(root.outermost("xliff"), None)
        version = xliff.attributes.get("version", "1.2") if xliff else ""
        if not xliff or not version:
            raise UserError(
                f"{path}: expected XLIFF, got XML with another root element.", code="other_format"
            )
        self._version = _VERSIONS.get(version) or _VERSIONS.get(version[0], _VERSIONS["1"])
        self._elements_without_language: list[Element] = []
        for element in root.outermost(self._version.file):
            source, target = (element.attributes.get(key, "") for key in self._version.languages)
            self.languages = resolve_languages(path, (source, target), self.languages)
            if not target:
                self._elements_without_language.append(element)
        for element in xliff.outermost(self._version.unit):
            self._add_unit(element)
        find_accelerators(self.units)

    def _add_unit(self, element: Element) -> None:
        if element.inherited("translate") == "no":
            self.left_out["marked as not translatable"] += 1
        elif element.attributes.get("restype") == "x-gettext-domain-header":
            self.left_out["headers"] += 1
        else:
            segments = self._version.segments(self.path, element)
            for segment in segments:
                if space := segment.source.inherited(_XML_SPACE):
                    segment.unit.keeps_lines = space == "preserve"
            self.add_segments(element, segments)

    def element_changes(self, element: Element, segments: list[BilingualSegment]) -> list[Change]:
        """See `BilingualDocument`."""
        return self._version.changes(element, segments)

    def header_changes(self) -> list[Change]:
        """See `BilingualDocument`."""
        language = {self._version.languages[1]: self.languages[1]}
        return [tag_change(element, **language) for element in self._elements_without_language]


def _segments_v1(path: Path, element: Element) -> list[BilingualSegment]:
    """Returns the segments of a trans-unit: the whole unit, or the parts of its seg-source."""
    source, target = element.child("source"), element.child("target")
    if not source:
        raise UserError(f"{path}: a trans-unit has no source.", code="incomplete_document")
    name = element.attributes.get("resname") or element.attributes.get("id", "")
    targets = {mark.attributes.get("mid"): mark for mark in _segment_elements(target)}
    segments = [
        BilingualSegment(path, element, mark, targets.get(mark.attributes.get("mid")), name)
        for mark in _segment_elements(element.child("seg-source"))
    ]
    state = target.attributes.get("state", "") if target else ""
    is_translated = state not in _UNTRANSLATED_STATES
    num_letters = sum(_count_letters(segment.target) for segment in segments)
    # A translation with text outside of its segments belongs to the whole unit.
    if not segments or (is_translated and _count_letters(target) > num_letters):
        segments = [BilingualSegment(path, element, source, target, name)]
    for segment in segments:
        segment.unit.is_translated = bool(segment.unit.target) and is_translated
        segment.unit.is_reviewed = not state.startswith("needs-review")
    return segments


def _segment_elements(element: Element | None) -> list[Element]:
    """Returns the elements of the segments within a seg-source or its target."""
    segments: list[Element] = []
    for child in element.children() if element else ():
        is_segment = child.name == "mrk" and child.attributes.get("mtype") == "seg"
        segments += [child] if is_segment else _segment_elements(child)
    return segments


def _count_letters(element: Element | None) -> int:
    """Returns the number of letters in an element, outside of codes."""
    if not element:
        return 0
    inner = map(_count_letters, element.children(*TEXT_ELEMENTS))
    return sum(map(str.isalpha, element.own_text)) + sum(inner)


def _changes_v1(
    element: Element, segments: list[BilingualSegment], has_qualifiers: bool = True
) -> list[Change]:
    """Returns the changes for the translations of a trans-unit, with `state-qualifier` or not."""
    source, target = element.children("source")[0], element.child("target")
    seg_source = None if segments[0].source is source else element.child("seg-source")
    inner = _join_segments(seg_source, segments) if seg_source else segments[0].target_xml()
    name = segments[0].tag_name("target")
    tag = f"<{name}>"
    if target:
        tag = f"{target.tag[:-2].rstrip()}>" if target.is_empty_tag else target.tag
    needs_review = any(segment.unit.needs_review for segment in segments)
    is_exact = all(segment.unit.match != "machine" for segment in segments)
    tag = set_attributes(
        tag,
        state="needs-review-translation" if needs_review else "translated",
        state_qualifier=("exact-match" if is_exact else "leveraged-mt") if has_qualifiers else "",
    )
    space = space_before(source)
    text = f"{tag}{inner}</{name}>"
    text += "".join(space + match for segment in segments for match in _matches_v1(segment))
    if target:
        changes = [(target.start, target.end, text)]
    else:
        sibling = element.child("seg-source") or source
        changes = [(sibling.end, sibling.end, space + text)]
    if needs_review and element.attributes.get("approved") == "yes":
        changes.append(tag_change(element, approved="no"))
    return changes


def _join_segments(seg_source: Element, segments: list[BilingualSegment]) -> str:
    """Returns the content of a target: the content of seg-source with translated segments."""
    changes, start = [], seg_source.inner_start
    for segment in segments:
        text = segment.target_xml() if segment.unit.match else ""
        if not segment.unit.match and segment.target and not segment.target.is_empty_tag:
            text = segment.target.inner
        changes.append((segment.source.inner_start - start, segment.source.inner_end - start, text))
    return replace_spans(seg_source.inner, changes)


def _matches_v1(segment: BilingualSegment) -> list[str]:
    """Returns an alt-trans for each suggestion of the memory, and for the model's confidence."""
    unit = segment.unit
    name, source, target = map(segment.tag_name, ("alt-trans", "source", "target"))
    mid = segment.source.attributes.get("mid") if segment.source.name == "mrk" else ""
    # Refers to a segment; without it, an alt-trans is for the whole unit.
    reference = f" mid={quoteattr(mid)}" if mid else ""
    matches = [
        f'<{name} match-quality="{similar.ratio:.0%}" origin="memory"{reference}>'
        f"<{source}>{escape(similar.source)}</{source}>"
        f"<{target}>{escape(similar.target)}</{target}></{name}>"
        for similar in unit.suggestions
    ]
    if (quality := segment.machine_quality) is not None:
        matches.append(
            f'<{name} match-quality="{quality:.0%}" origin="t2t_keras"{reference}>'
            f"<{target}>{segment.target_xml()}</{target}></{name}>"
        )
    return matches


def _segments_v2(path: Path, element: Element) -> list[BilingualSegment]:
    """Returns the segments of a unit."""
    name = element.attributes.get("name") or element.attributes.get("id", "")
    native_codes = {
        data.attributes.get("id", ""): data.text()
        for original in element.children("originalData")
        for data in original.children("data")
    }
    segments = []
    for owner in element.children("segment"):
        if not (source := owner.child("source")):
            continue
        segment = BilingualSegment(path, owner, source, owner.child("target"), name, native_codes)
        # Many tools write no state with a translation: only "initial" means untranslated.
        is_initial = owner.attributes.get("state") == "initial"
        segment.unit.is_translated = bool(segment.unit.target) and not is_initial
        segment.unit.is_reviewed = owner.attributes.get("subState") != _UNREVIEWED_STATE
        segments.append(segment)
    return segments


def _changes_v2(element: Element, segments: list[BilingualSegment]) -> list[Change]:
    """Returns the changes for the translations of a unit."""
    changes: list[Change] = []
    matches: list[str] = []
    prefix, file_matches = _existing_matches(element)
    ids = {part.attributes.get("id") for part in element.children("segment", "ignorable")}
    for number, segment in enumerate(segments):
        if not segment.unit.match:
            continue
        segment_id = segment.owner.attributes.get("id", "")
        has_matches = segment.unit.suggestions or segment.machine_quality is not None
        sub_state = _UNREVIEWED_STATE if segment.unit.needs_review else ""
        attributes = {"state": "translated", "subState": sub_state}
        if has_matches and not segment_id:
            segment_id = next(f"t2t{n}" for n in range(number, 1 << 20) if f"t2t{n}" not in ids)
            ids.add(segment_id)
            attributes["id"] = segment_id
        matches += _matches_v2(segment, prefix, quoteattr(f"#{segment_id}"))
        changes += [tag_change(segment.owner, **attributes), _target_change(segment)]
    if matches and file_matches:
        changes.append((file_matches.inner_start, file_matches.inner_start, "".join(matches)))
    elif matches:
        space = space_before(element.children("segment")[0])
        text = f'<{prefix}:matches xmlns:{prefix}="{_MATCHES_NAMESPACE}">{"".join(matches)}'
        text += f"</{prefix}:matches>"
        changes.append((element.inner_start, element.inner_start, space + text))
    return changes


def _existing_matches(element: Element) -> tuple[str, Element | None]:
    """Returns the namespace prefix for matches, and the element with the file's own matches."""
    for child in element.children("matches"):
        name = add_prefix(child, "")
        if child.namespace == _MATCHES_NAMESPACE and not child.is_empty_tag and name:
            return name.rstrip(":"), child
    return "mtc", None


def _target_change(segment: BilingualSegment) -> Change:
    name, target, source = segment.tag_name("target"), segment.target, segment.source
    if target and not target.is_empty_tag:
        return target.inner_start, target.inner_end, segment.target_xml()
    text = f"<{name}>{segment.target_xml()}</{name}>"
    if target:
        return target.start, target.end, text
    return source.end, source.end, space_before(source) + text


def _matches_v2(segment: BilingualSegment, prefix: str, reference: str) -> list[str]:
    """Returns a match for each suggestion of the memory, and for the model's confidence."""
    source, target = map(segment.tag_name, ("source", "target"))
    matches = [
        f'<{prefix}:match ref={reference} type="tm" similarity="{100 * suggestion.ratio:.1f}">'
        f"<{source}>{escape(suggestion.source)}</{source}>"
        f"<{target}>{escape(suggestion.target)}</{target}></{prefix}:match>"
        for suggestion in segment.unit.suggestions
    ]
    if (quality := segment.machine_quality) is not None:
        matches.append(
            f'<{prefix}:match ref={reference} type="mt" matchQuality="{round(100 * quality, 3)}" '
            f'origin="t2t_keras">{segment.source.raw}<{target}>{segment.target_xml()}</{target}>'
            f"</{prefix}:match>"
        )
    return matches


class _Version(NamedTuple):
    """What differs among the versions of XLIFF."""

    file: str  # name of the element with the languages
    languages: tuple[str, str]  # attributes of that element: the source's, and the target's
    unit: str  # name of the element with the segments
    segments: Callable[[Path, Element], list[BilingualSegment]]
    changes: Callable[[Element, list[BilingualSegment]], list[Change]]


_VERSION_1 = _Version(
    "file", ("source-language", "target-language"), "trans-unit", _segments_v1, _changes_v1
)
_VERSIONS = {
    "1.0": _VERSION_1._replace(changes=functools.partial(_changes_v1, has_qualifiers=False)),
    "1": _VERSION_1,
    "2": _Version("xliff", ("srcLang", "trgLang"), "unit", _segments_v2, _changes_v2),
}


class TmxDocument(BilingualDocument):
    """A TMX file with a unit for each translation unit that has the source language.

    The default source language is the header's. Without a target language, units have no
    translations, and cannot get any.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages, content)
        root = read_tree(path, self.file.text)
        if not any(root.outermost("tmx")):
            raise UserError(
                f"{path}: expected TMX, got XML with another root element.", code="other_format"
            )
        for header in root.outermost("header"):
            language = header.attributes.get("srclang", "")
            uses_header = not self.languages[0] and language.lower() != _ALL_LANGUAGES
            declared = language if uses_header else ""
            self.languages = resolve_languages(path, (declared, ""), self.languages)
            if not self.languages[0]:
                raise self._language_error()
        for element in root.outermost("tu"):
            self._add_unit(element)

    def _language_error(self) -> UserError:
        return UserError(
            f"{self.path}: expected two languages, got '{self.languages[0]}' as the source and "
            f"'{self.languages[1]}' as the target. Set both.",
            code="unknown_language",
        )

    def _add_unit(self, element: Element) -> None:
        # The first of several variants of a language counts.
        variants = {
            normalized_language(variant.language): variant
            for variant in element.children("tuv")[::-1]
        }
        source, target = (
            value_for_language(variants, language) if language else None
            for language in self.languages
        )
        segment = source.child("seg") if source else None
        if not source or not segment:
            self.left_out[f"units without {self.languages[0]}"] += 1
            return
        translation = target.child("seg") if target else None
        name = element.attributes.get("tuid", "")
        pair = BilingualSegment(self.path, target or source, segment, translation, name)
        pair.unit.is_translated = bool(pair.unit.target)
        self.add_segments(element, [pair])

    def element_changes(self, element: Element, segments: list[BilingualSegment]) -> list[Change]:
        """See `BilingualDocument`."""
        if not self.languages[1]:
            raise self._language_error()
        [segment] = segments
        owner, name = segment.owner, segment.tag_name("seg")
        text = f"<{name}>{segment.target_xml()}</{name}>"
        if segment.target:
            return [(segment.target.start, segment.target.end, text)]
        variant_tag = add_prefix(owner, "tuv")
        if owner.child("seg") is not segment.source:
            # The variant of the target language has no segment yet: add it after the notes.
            if owner.is_empty_tag:
                tag = owner.tag[:-2].rstrip()
                return [(owner.start, owner.end, f"{tag}>{text}</{variant_tag}>")]
            return [(owner.inner_end, owner.inner_end, text)]
        text = (
            f"{space_before(owner)}<{variant_tag} "
            f'xml:lang={quoteattr(self.languages[1])} creationid="t2t_keras">'
            f"{space_before(segment.source)}{text}{space_before(owner)}</{variant_tag}>"
        )
        return [(owner.end, owner.end, text)]
