"""The trans-units of XLIFF 1: targets with their states, and alternatives."""

from xml.sax.saxutils import escape, quoteattr

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.exchange.bilingual import (
    Change,
    Segment,
    space_before,
    tag_change,
    with_attributes,
)
from t2t_keras.workbench.documents.exchange.inline_codes import AROUND
from t2t_keras.workbench.documents.xml_tree import Element, XmlFile

# States of a target that is there but is no translation.
_UNTRANSLATED = {"new", "needs-translation", "needs-adaptation", "needs-l10n"}


def segments_of_1(file: XmlFile, element: Element) -> list[Segment]:
    """Returns the segments of a trans-unit: the whole, or those of its seg-source."""
    source, target = element.child("source"), element.child("target")
    if not source:
        raise UserError(f"{file.path}: a trans-unit has no source.", code="incomplete_document")
    name = element.attributes.get("resname") or element.attributes.get("id", "")
    targets = {each.attributes.get("mid"): each for each in _marked(target)}
    segments = [
        Segment(file, element, each, targets.get(each.attributes.get("mid")), name)
        for each in _marked(element.child("seg-source"))
    ]
    state = target.attributes.get("state", "") if target else ""
    if not segments or (state not in _UNTRANSLATED and _has_others(target, segments)):
        segments = [Segment(file, element, source, target, name)]
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


def changes_of_1(
    file: XmlFile, element: Element, segments: list[Segment], has_qualifiers: bool
) -> list[Change]:
    """Returns what the translations of a trans-unit change."""
    source, target = element.child("source"), element.child("target")
    segmented = None if segments[0].source is source else element.child("seg-source")
    inner = _joined(file, segmented, segments) if segmented else segments[0].restored()
    name = segments[0].target_name()
    tag = f"<{name}>"
    if target:
        tag = file.raw(target.start, target.inner_start)
        tag = f"{tag[:-2].rstrip()}>" if target.is_empty_tag else tag
    needs_review = any(each.unit.needs_review for each in segments)
    is_exact = all(each.unit.match != "machine" for each in segments)
    tag = with_attributes(
        tag,
        state="needs-review-translation" if needs_review else "translated",
        state_qualifier=("exact-match" if is_exact else "leveraged-mt") if has_qualifiers else "",
    )
    before = element.child("seg-source") or source
    space = space_before(file, source)
    text = f"{tag}{inner}</{name}>"
    text += "".join(space + each for segment in segments for each in _alternatives(segment))
    if target:
        changes = [(target.start, target.end, text)]
    else:
        changes = [(before.end, before.end, space + text)]
    if needs_review and element.attributes.get("approved") == "yes":
        changes.append(tag_change(file, element, approved="no"))
    return changes


def _joined(file: XmlFile, segmented: Element, segments: list[Segment]) -> str:
    """Returns the content of a target: that of seg-source with its segments translated."""
    pieces, position = [], segmented.inner_start
    for each in segments:
        text = each.restored() if each.unit.match else ""
        if not each.unit.match and each.target and not each.target.is_empty_tag:
            text = file.raw(each.target.inner_start, each.target.inner_end)
        pieces += [file.raw(position, each.source.inner_start), text]
        position = each.source.inner_end
    return "".join([*pieces, file.raw(position, segmented.inner_end)])


def _alternatives(segment: Segment) -> list[str]:
    """Returns what the memory has like the source, and how good the machine finds its own."""
    unit = segment.unit
    alternative, source, target = map(segment.target_name, ("alt-trans", "source", "target"))
    found = [
        f'<{alternative} match-quality="{each.ratio:.0%}" origin="memory">'
        f"<{source}>{escape(each.source)}</{source}>"
        f"<{target}>{escape(each.target)}</{target}></{alternative}>"
        for each in unit.suggestions
    ]
    if unit.match == "machine" and unit.quality is not None:
        found.append(
            f'<{alternative} match-quality="{unit.quality:.0%}" origin="t2t_keras">'
            f"<{target}>{segment.restored()}</{target}></{alternative}>"
        )
    mid = segment.source.attributes.get("mid") if segment.source.name == "mrk" else ""
    return [_for_segment(each, mid) for each in found]


def _for_segment(alternative: str, mid: str | None) -> str:
    """Returns an alt-trans that says which segment it is for, "" = the whole."""
    tag, bracket, rest = alternative.partition(">")
    return f"{tag} mid={quoteattr(mid)}{bracket}{rest}" if mid else alternative
