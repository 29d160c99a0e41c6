"""The units of XLIFF 2: segments with targets and states, and matches from a memory."""

from xml.sax.saxutils import escape, quoteattr

from t2t_keras.workbench.documents.exchange.bilingual import (
    Change,
    Segment,
    space_before,
    tag_change,
    with_prefix,
)
from t2t_keras.workbench.documents.xml_tree import Element, XmlFile

_MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
_UNREVIEWED = "t2t:machine"


def segments_of_2(file: XmlFile, element: Element) -> list[Segment]:
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
        segment = Segment(file, owner, source, owner.child("target"), name, native)
        # A target without a state is one, as many tools write it.
        is_initial = owner.attributes.get("state") == "initial"
        segment.unit.is_translated = bool(segment.unit.target) and not is_initial
        segment.unit.is_reviewed = owner.attributes.get("subState") != _UNREVIEWED
        segments.append(segment)
    return segments


def changes_of_2(file: XmlFile, element: Element, segments: list[Segment]) -> list[Change]:
    """Returns what the translations of a unit change."""
    changes: list[Change] = []
    matches: list[str] = []
    prefix, existing = _matches_of(file, element)
    taken = {each.attributes.get("id") for each in element.children("segment", "ignorable")}
    for number, segment in enumerate(segments):
        if not segment.unit.match:
            continue
        name = segment.owner.attributes.get("id", "")
        found = _alternatives(segment, prefix)
        if found and not name:
            name = next(f"t2t{n}" for n in range(number, 1 << 20) if f"t2t{n}" not in taken)
            taken.add(name)
        matches += [match.replace(" ref=", f" ref={quoteattr(f'#{name}')}", 1) for match in found]
        changes += _segment_changes(file, segment, name)
    if matches and existing:
        changes.append((existing.inner_start, existing.inner_start, "".join(matches)))
    elif matches:
        space = space_before(file, element.child("segment"))
        text = (
            f'<{prefix}:matches xmlns:{prefix}="{_MATCHES}">{"".join(matches)}</{prefix}:matches>'
        )
        changes.append((element.inner_start, element.inner_start, space + text))
    return changes


def _matches_of(file: XmlFile, element: Element) -> tuple[str, Element | None]:
    """Returns the prefix for matches, and the element of those that are there."""
    for child in element.children("matches"):
        if child.namespace == _MATCHES and not child.is_empty_tag:
            name = with_prefix(file, child, "")
            if name:
                return name.rstrip(":"), child
    return "mtc", None


def _segment_changes(file: XmlFile, segment: Segment, name: str) -> list[Change]:
    """Returns the changes of a segment's own tag and of its target."""
    needs_review = segment.unit.needs_review
    attributes = {"state": "translated", "subState": _UNREVIEWED if needs_review else ""}
    if name and not segment.owner.attributes.get("id"):
        attributes["id"] = name
    changes = [tag_change(file, segment.owner, **attributes)]
    tag_name, target, source = segment.target_name(), segment.target, segment.source
    inner = segment.restored()
    if target and not target.is_empty_tag:
        changes.append((target.inner_start, target.inner_end, inner))
    elif target:
        changes.append((target.start, target.end, f"<{tag_name}>{inner}</{tag_name}>"))
    else:
        text = f"{space_before(file, source)}<{tag_name}>{inner}</{tag_name}>"
        changes.append((source.end, source.end, text))
    return changes


def _alternatives(segment: Segment, prefix: str) -> list[str]:
    """Returns matches without the segment that they refer to."""
    unit = segment.unit
    source, target = map(segment.target_name, ("source", "target"))
    found = [
        f'<{prefix}:match ref= type="tm" similarity="{100 * each.ratio:.1f}">'
        f"<{source}>{escape(each.source)}</{source}>"
        f"<{target}>{escape(each.target)}</{target}></{prefix}:match>"
        for each in unit.suggestions
    ]
    if unit.match == "machine" and unit.quality is not None:
        raw = segment.file.raw(segment.source.start, segment.source.end)
        found.append(
            f'<{prefix}:match ref= type="mt" matchQuality="{round(100 * unit.quality, 3)}" '
            f'origin="t2t_keras">{raw}<{target}>{segment.restored()}</{target}></{prefix}:match>'
        )
    return found
