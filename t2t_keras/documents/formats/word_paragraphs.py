"""The text of a paragraph of WordprocessingML, and its runs built anew."""

import collections
import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from lxml import etree

from t2t_keras.documents.document import Unit
from t2t_keras.documents.exchange.inline_codes import lone_code
from t2t_keras.documents.segments import has_letters
from t2t_keras.errors import UserError

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
PARAGRAPH = f"{_W}p"
_RUN, _TEXT, _FORMAT = f"{_W}r", f"{_W}t", f"{_W}rPr"
_CONTROL, _CONTROL_CONTENT = f"{_W}sdt", f"{_W}sdtContent"
_FIELD, _FIELD_SIGN, _FIELD_CODE = f"{_W}fldSimple", f"{_W}fldChar", f"{_W}instrText"
# Elements around runs, whose text is translated.
_AROUND = {_CONTROL} | {f"{_W}{name}" for name in ("hyperlink", "ins", "smartTag")}
# What says of the element that it is in what it is like.
_PROPERTIES = {f"{_W}{name}" for name in ("pPr", "smartTagPr", "sdtPr", "sdtEndPr", "fldData")}
_RAISED = f"{_W}vertAlign"  # or lowered
_BREAKS = {f"{_W}{name}" for name in ("br", "cr", "ptab", "tab")}
# What word processors note about the last layout and the spelling.
_NOTES = {f"{_W}{name}" for name in ("proofErr", "lastRenderedPageBreak")}
# Differences in format that nobody sees.
_UNSEEN = (f"{_W}lang", f"{_W}noProof")


class _Piece(NamedTuple):
    """Text in a format, elements around pieces, or elements that stay as they are."""

    text: str
    format: etree._Element | None  # w:rPr
    key: str  # of the format
    elements: list[etree._Element]
    inner: list["_Piece"] | None = None  # of the one element, or of the field
    run: etree._Element | None = None  # that the elements are a part of
    field: tuple[int, int] | None = None  # which of the elements begin it, and which end it

    @property
    def is_text(self) -> bool:
        return not self.elements


class Paragraph:
    """A paragraph, and the unit of its text.

    Attributes:
      unit: what is translated.
      has_text: whether there is anything to translate.
      fields: number of fields, as of page numbers, whose text stays.
      format_bytes: most that the formats of its runs take when it is written.
    """

    def __init__(self, element: etree._Element, path: Path):
        self._element, self._path = element, path
        self.fields = 0
        self._pieces_in_runs = self._largest_format = 0
        pieces = _merged(self._pieces(_children(element)))
        self.format_bytes = self._pieces_in_runs * self._largest_format
        first, last = 0, len(pieces)
        while first < last and not _has_text([pieces[first]]):
            first += 1
        while first < last and not _has_text([pieces[last - 1]]):
            last -= 1
        self.has_text = first < last
        self._before, self._after = pieces[:first], pieces[last:]
        pieces = pieces[first:last]
        sizes: collections.Counter[str] = collections.Counter()
        formats = {}
        for each in pieces:
            sizes[each.key] += len(each.text)
            formats.setdefault(each.key, each.format)
        # What most of the text looks like needs no code.
        self._key = max(sizes, key=sizes.__getitem__, default="")
        self._format = formats.get(self._key)
        self._codes: list[_Piece] = []
        if len(pieces) == 1 and pieces[0].is_text:
            self.unit = Unit(pieces[0].text)
        else:
            self.unit = Unit(self._masked(pieces, self._key), format="xml")

    def _pieces(self, elements: Iterable[etree._Element], in_link: bool = False) -> list[_Piece]:
        pieces: list[_Piece] = []
        field: list[etree._Element] = []  # the elements of a field that has begun
        depth = 0
        for element in elements:
            kinds = _field_signs(element)
            opened = kinds.count("begin") - kinds.count("end")
            # A link of a table of contents is around the whole field of its page number.
            if depth or ("begin" in kinds and (opened or element.tag not in _AROUND)):
                depth += opened
                field.append(element)
                if depth <= 0:
                    pieces.append(self._of_field(field, in_link))
                    field, depth = [], 0
            elif element.tag == _RUN:
                found = list(_of_run(element))
                pieces += found
                self._pieces_in_runs += len(found)
                if (form := element.find(_FORMAT)) is not None:
                    self._largest_format = max(self._largest_format, len(_clean(form)))
            elif element.tag in _AROUND or (
                element.tag == _FIELD and _is_link(element.get(f"{_W}instr", ""))
            ):
                inner = _merged(self._pieces(_children(_inside(element)), in_link))
                pieces.append(_Piece("", None, "", [element], inner))
            elif element.tag not in _NOTES:
                pieces.append(_Piece("", None, "", [element]))
                self.fields += element.tag == _FIELD
        if field:  # It goes on in the next paragraph.
            pieces.append(_Piece("", None, "", field))
            self.fields += 1
        return pieces

    def _of_field(self, field: list[etree._Element], in_link: bool) -> _Piece:
        """Returns the piece of a field: around its text if it is a link, else it stays.

        So does a link in a link, for fields may stand in each other without end.
        """
        bounds = None if in_link else _link_bounds(field)
        if not bounds:
            self.fields += 1
            return _Piece("", None, "", field)
        inner = _merged(self._pieces(field[bounds[0] : bounds[1]], in_link=True))
        return _Piece("", None, "", field, inner, field=bounds)

    def _masked(self, pieces: Sequence[_Piece], key: str) -> str:
        parts = []
        for each in pieces:
            if each.is_text and each.key == key:
                parts.append(escape(each.text))
                continue
            number = len(self._codes)
            self._codes.append(each)
            if each.is_text:
                # An index, as in m², belongs to the word before it.
                raised = None if each.format is None else each.format.find(_RAISED)
                is_index = raised is not None and raised.get(f"{_W}val") != "baseline"
                name = "sup" if is_index else "g"
                parts.append(f'<{name} i="{number}">{escape(each.text)}</{name}>')
            elif each.inner:
                # Its first format is what its text looks like.
                inner_key = next((piece.key for piece in each.inner if piece.is_text), "")
                parts.append(f'<g i="{number}">{self._masked(each.inner, inner_key)}</g>')
            else:
                inside = {part.tag for element in each.elements for part in element.iter()}
                parts.append(lone_code(number, parts_words=bool(inside & _BREAKS)))
        return "".join(parts)

    def write(self) -> bool:
        """Puts the unit's translation, if it was given one, in place; returns whether it was."""
        if not self.unit.match:
            return False
        target = self.unit.target
        text = target if self.unit.format == "xml" else escape(target)
        try:
            # Characters that XML cannot hold, as form feeds, are an error here as well.
            root = etree.fromstring(f"<t>{text}</t>")
        except etree.XMLSyntaxError as error:
            raise UserError(f"{self._path}: {text!a} is not well-formed: {error.msg}.") from error
        numbers = sorted(int(each.get("i", "-1")) for each in root.iter("g", "sup", "x"))
        if numbers != list(range(len(self._codes))):
            raise UserError(
                f"{self._path}: expected {len(self._codes)} inline codes once each, got {text!a}."
            )
        new = [*_elements(self._before), *self._built(root, self._format)]
        _fill(self._element, [*new, *_elements(self._after)])
        return True

    def _built(self, root: etree._Element, form: etree._Element | None) -> list[etree._Element]:
        """Returns runs and other elements for the text and the codes in an element."""
        built = list(_runs(root.text, form))
        for each in root:
            code = self._codes[int(each.get("i"))]
            if each.tag == "x":
                built += _elements([code])
            elif code.is_text:
                built += self._built(each, code.format)
            else:
                first = next((piece.format for piece in code.inner if piece.is_text), form)
                inner = self._built(each, first)
                if code.field:
                    start, end = code.field
                    built += [*code.elements[:start], *inner, *code.elements[end:]]
                else:
                    [around] = code.elements
                    _fill(_inside(around), inner)
                    built.append(around)
            built += _runs(each.tail, form)
        return built


def _children(element: etree._Element) -> list[etree._Element]:
    """Returns what is in an element but its properties."""
    return [each for each in element if isinstance(each.tag, str) and each.tag not in _PROPERTIES]


def _fill(element: etree._Element, children: Iterable[etree._Element]) -> None:
    """Replaces what is in an element but its properties."""
    for each in _children(element):
        element.remove(each)
    element.extend(children)


def _inside(around: etree._Element) -> etree._Element:
    """Returns the element that has the runs: that of a content control stands in it."""
    found = around.find(_CONTROL_CONTENT) if around.tag == _CONTROL else None
    return around if found is None else found


def _field_signs(element: etree._Element) -> list[str | None]:
    """Returns what begins, divides and ends fields in an element."""
    return [each.get(f"{_W}fldCharType") for each in element.iter(_FIELD_SIGN)]


def _is_link(code: str) -> bool:
    """Returns whether a field's code is of a link, whose text is the document's own."""
    return code.upper().split()[:1] == ["HYPERLINK"]


def _link_bounds(field: Sequence[etree._Element]) -> tuple[int, int] | None:
    """Returns where the elements of a link's text begin and end; None = the field is no link.

    A link of which signs and text share a run counts as none.
    """
    start = depth = 0
    for number, element in enumerate(field, 1):
        kinds = _field_signs(element)
        depth += kinds.count("begin")
        if depth == 1 and kinds[-1:] == ["separate"]:
            start = number
            break
        depth -= kinds.count("end")
    around = [*field[:start], field[-1]]
    code = "".join(text.text or "" for each in around for text in each.iter(_FIELD_CODE))
    has_text = any(each.find(f".//{_TEXT}") is not None for each in around)
    if not start or has_text or not _is_link(code) or _field_signs(field[-1]) != ["end"]:
        return None
    return start, len(field) - 1


def _of_run(run: etree._Element) -> Iterator[_Piece]:
    """Yields the texts and other elements of a run, each of these in a run of its own."""
    if run.find(_TEXT) is None:
        if len(run) > (run.find(_FORMAT) is not None):
            yield _Piece("", None, "", [run])
        return
    form = run.find(_FORMAT)
    key = _key(form)
    for each in run:
        if each.tag == _TEXT:
            yield _Piece(each.text or "", form, key, [])
        elif each.tag != _FORMAT and each.tag not in _NOTES:
            yield _Piece("", form, key, [each], run=run)


def _key(form: etree._Element | None) -> str:
    if form is None:
        return ""
    form = copy.deepcopy(form)
    for name in _UNSEEN:
        for each in form.findall(name):
            form.remove(each)
    return hashlib.sha256(_clean(form)).hexdigest() if len(form) else ""


def _clean(form: etree._Element) -> bytes:
    """Returns a format as XML, without the namespaces that it does not use."""
    form = copy.deepcopy(form)
    etree.cleanup_namespaces(form)
    return etree.tostring(form, with_tail=False)


def _merged(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Returns the pieces with neighbours of one format as one."""
    merged: list[_Piece] = []
    for each in pieces:
        if each.is_text and merged and merged[-1].is_text and merged[-1].key == each.key:
            merged[-1] = merged[-1]._replace(text=merged[-1].text + each.text)
        elif not each.is_text or each.text:
            merged.append(each)
    return merged


def _has_text(pieces: Sequence[_Piece]) -> bool:
    return any(has_letters(each.text) or _has_text(each.inner or []) for each in pieces)


def _elements(pieces: Iterable[_Piece]) -> Iterator[etree._Element]:
    """Yields the elements of pieces that stay as they are."""
    for each in pieces:
        if each.is_text:
            yield from _runs(each.text, each.format)
        elif each.run is None:
            yield from each.elements
        else:
            own = _run(each.format, each.run.attrib)
            # No copies: paragraphs of text boxes are translated as well, where they are.
            own.extend(each.elements)
            yield own


def _runs(text: str | None, form: etree._Element | None) -> Iterator[etree._Element]:
    """Yields the run of a text, if there is any."""
    if text:
        run = _run(form)
        element = etree.SubElement(run, _TEXT)
        element.text = text
        element.set(_SPACE, "preserve")
        yield run


def _run(form: etree._Element | None, attributes: Mapping[str, str] | None = None):
    """Returns a run in a format, without anything in it."""
    run = etree.Element(_RUN, attributes)
    if form is not None:
        run.append(copy.deepcopy(form))
    return run
