"""Word documents (.docx): a unit for each paragraph; changes of format are inline codes."""

import collections
import copy
import hashlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from lxml import etree

from t2t_keras.errors import UserError, translated_errors
from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import Document, Unit, check_counts, check_limit
from t2t_keras.workbench.documents.inline_codes import codes_error, lone_code

# The namespace with the prefix w, as in w:p.
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# Elements whose runs are a separate text: paragraphs, and ruby text above a word.
PARAGRAPHS = f"{_W}p", f"{_W}rt"
_RUN, _TEXT, _FORMAT = f"{_W}r", f"{_W}t", f"{_W}rPr"
_FIELD, _FIELD_CHAR, _FIELD_CODE = f"{_W}fldSimple", f"{_W}fldChar", f"{_W}instrText"
# Elements whose runs are in a child element; all others contain runs directly.
_CONTENT_TAGS = {f"{_W}sdt": f"{_W}sdtContent", f"{_W}ruby": f"{_W}rubyBase"}
_RUBY = f"{_W}ruby"
# Deleted text, and text moved elsewhere.
_REMOVED_TEXTS = {f"{_W}del", f"{_W}moveFrom"}
# Alternatives of a text; the program shows one of them.
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_FIELD_DATA = f"{_W}fldData"
_VERTICAL_ALIGNMENT = f"{_W}vertAlign"  # of superscripts and subscripts
_BREAKS = {f"{_W}{name}" for name in ("br", "cr", "ptab", "tab")}
# Elements that represent a hyphen inside a word.
_HYPHENS = {f"{_W}noBreakHyphen": "\u2011", f"{_W}softHyphen": "\u00ad"}
_HYPHEN_TAGS = {sign: name for name, sign in _HYPHENS.items()}
# Word processors' remarks on layout and spelling.
_REMARKS = {f"{_W}{name}" for name in ("proofErr", "lastRenderedPageBreak")}
# Invisible differences in format.
_INVISIBLE_FORMATS = (f"{_W}lang", f"{_W}noProof")
_FIELDS_REASON = "fields, as page numbers"
_TEXT_PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml")
# Parts that are not translated: (pattern of names, pattern to count, reason in the report).
_UNTRANSLATED_PARTS = (
    (
        r"word/(?:charts/chart|diagrams/data)\d*\.xml",
        rb"<(?:a:t|c:v)>[^<]*?[A-Za-z\x80-\xff]",
        "texts of charts",
    ),
    (r"word/glossary/document\.xml", rb"<w:t[ >]", "texts of building blocks"),
    (r"word/(?:embeddings|afchunk)/?[^/]+", rb"\A", "embedded files"),
)
# Texts of drawings, in the parts that are translated.
_DRAWING_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_TRANSITIONAL = b'="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_STRICT = b'="http://purl.oclc.org/ooxml/wordprocessingml/main"'
_NAMESPACE = re.compile(rb"""\sxmlns[^\s=]*\s*=\s*("[^"]*"|'[^']*')""")
_MAX_NAMESPACES_BYTES = 10_000
# Total size of the parts with text.
_MAX_TEXT_BYTES = 1 << 25
_MAX_BYTES = 1 << 28
_MAX_FILES = 10_000
# Errors of reading an archive; encryption and unknown compression raise RuntimeError.
_ZIP_ERRORS = (
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


class _Piece(NamedTuple):
    """Text in one format, elements around pieces, or untranslated elements."""

    text: str
    format: etree._Element | None  # w:rPr
    format_key: str  # equal for equal formats
    elements: list[etree._Element]
    children: list["_Piece"] | None = None  # the pieces inside the element or the field
    run: etree._Element | None = None  # the run that contains the elements
    field: tuple[int, int] | None = None  # (start, end) of the elements inside the field

    @property
    def is_text(self) -> bool:
        return not self.elements


class Paragraph:
    """A paragraph, and the unit of its text.

    Attributes:
      unit: the unit of its text.
      has_text: whether it has text to translate.
      left_out: numbers of untranslated texts in it, by reason.
      format_bytes: upper bound on the size of its runs' formats when it is written.
    """

    def __init__(self, element: etree._Element, path: Path):
        self._element, self._path = element, path
        self.left_out: collections.Counter[str] = collections.Counter()
        self._is_changed = False
        self._hyphens: set[str] = set()  # the hyphens of `_HYPHENS` in it
        self._num_run_pieces = self._max_format_bytes = 0
        pieces = _merge(self._pieces(_children(element)))
        self.format_bytes = self._num_run_pieces * self._max_format_bytes
        start, end = 0, len(pieces)
        while start < end and not _has_text([pieces[start]]):
            start += 1
        while start < end and not _has_text([pieces[end - 1]]):
            end -= 1
        self.has_text = start < end
        self._pieces_before, self._pieces_after = pieces[:start], pieces[end:]
        pieces = pieces[start:end]
        sizes: collections.Counter[str] = collections.Counter()
        formats: dict[str, etree._Element | None] = {}
        for piece in pieces:
            sizes[piece.format_key] += len(piece.text)
            formats.setdefault(piece.format_key, piece.format)
        # The format of most of the text needs no code.
        self._main_key = max(sizes, key=sizes.__getitem__, default="")
        self._main_format = formats.get(self._main_key)
        self._codes: list[_Piece] = []
        if len(pieces) == 1 and pieces[0].is_text:
            self.unit = Unit(pieces[0].text)
        else:
            self.unit = Unit(self._with_plain_tags(pieces, self._main_key), format="xml")

    def _pieces(self, elements: Iterable[etree._Element], in_link: bool = False) -> list[_Piece]:
        pieces: list[_Piece] = []
        field: list[etree._Element] = []  # the elements of a field that has begun
        depth = 0
        for element in elements:
            kinds = _field_char_types(element)
            num_open = kinds.count("begin") - kinds.count("end")
            # A link in a table of contents contains the whole field of its page number.
            if depth or ("begin" in kinds and (num_open or element.tag in (_RUN, _FIELD))):
                depth += num_open
                field.append(element)
                if depth <= 0:
                    pieces.append(self._field_piece(field, in_link))
                    field, depth = [], 0
            elif element.tag == _RUN:
                run_pieces = list(self._run_pieces(element, in_link))
                pieces += run_pieces
                self._num_run_pieces += len(run_pieces)
                if (props := element.find(_FORMAT)) is not None:
                    self._max_format_bytes = max(self._max_format_bytes, len(_format_xml(props)))
            elif element.tag not in _REMARKS:
                pieces.append(self._element_piece(element, in_link))
        if field:  # The field continues in the next paragraph.
            pieces.append(_Piece("", None, "", field))
            self.left_out[_FIELDS_REASON] += 1
        return pieces

    def _element_piece(
        self, element: etree._Element, in_link: bool, run: etree._Element | None = None
    ) -> _Piece:
        """Returns an element as a piece: around its text, or untranslated."""
        props = None if run is None else run.find(_FORMAT)
        if element.tag == _FIELD and not _is_link(element.get(f"{_W}instr", "")):
            self.left_out[_FIELDS_REASON] += 1
        elif element.tag == _ALTERNATIVES:
            self.left_out["texts in alternatives"] += _has_own_text(element)
        elif element.tag not in {*_REMOVED_TEXTS, *PARAGRAPHS}:
            children = _merge(self._pieces(_children(_content_element(element)), in_link))
            if any(piece.is_text or piece.children for piece in children):
                return _Piece("", props, "", [element], children, run)
        return _Piece("", props, _format_key(props) if run is not None else "", [element], run=run)

    def _run_pieces(self, run: etree._Element, in_link: bool) -> Iterator[_Piece]:
        """Yields the texts of a run, and its other elements, each as a separate piece."""
        props = run.find(_FORMAT)
        if not any(part.tag in (_TEXT, _RUBY, *_HYPHENS) for part in run):
            if len(run) > (props is not None):
                self.left_out["texts in alternatives"] += sum(
                    part.tag == _ALTERNATIVES and _has_own_text(part) for part in run
                )
                yield _Piece("", None, "", [run])
            return
        format_key = _format_key(props)
        for part in run:
            if part.tag == _TEXT:
                yield _Piece(part.text or "", props, format_key, [])
            elif part.tag in _HYPHENS:
                self._hyphens.add(_HYPHENS[part.tag])
                yield _Piece(_HYPHENS[part.tag], props, format_key, [])
            elif part.tag in (_RUBY, _ALTERNATIVES):
                yield self._element_piece(part, in_link, run)
            elif part.tag != _FORMAT and part.tag not in _REMARKS:
                yield _Piece("", props, format_key, [part], run=run)

    def _field_piece(self, field: list[etree._Element], in_link: bool) -> _Piece:
        """Returns a field as a piece: around its text if it is a link, else untranslated.

        To bound the nesting, a link in a link is untranslated.
        """
        bounds = None if in_link else _link_bounds(field)
        if not bounds:
            self.left_out[_FIELDS_REASON] += 1
            return _Piece("", None, "", field)
        children = _merge(self._pieces(field[bounds[0] : bounds[1]], in_link=True))
        return _Piece("", None, "", field, children, field=bounds)

    def _with_plain_tags(self, pieces: Sequence[_Piece], format_key: str) -> str:
        parts = []
        for piece in pieces:
            if piece.is_text and piece.format_key == format_key:
                parts.append(escape(piece.text))
                continue
            number = len(self._codes)
            self._codes.append(piece)
            if piece.is_text:
                # A sub- or superscript, as in m², belongs to the word before it.
                alignment = None if piece.format is None else piece.format.find(_VERTICAL_ALIGNMENT)
                is_sub_or_sup = alignment is not None and alignment.get(f"{_W}val") != "baseline"
                name = "sup" if is_sub_or_sup else "g"
                parts.append(f'<{name} i="{number}">{escape(piece.text)}</{name}>')
            elif piece.children:
                # The link's first text determines the format that needs no code.
                main_key = next((part.format_key for part in piece.children if part.is_text), "")
                inner = self._with_plain_tags(piece.children, main_key)
                parts.append(f'<g i="{number}">{inner}</g>')
            else:
                inner_tags = {part.tag for element in piece.elements for part in element.iter()}
                parts.append(lone_code(number, is_break=bool(inner_tags & _BREAKS)))
        return "".join(parts)

    def write(self) -> bool:
        """Writes the unit's translation into the element; returns whether it changed anything."""
        is_unchanged = self.unit.target == self.unit.source and not self._is_changed
        if not self.unit.match or is_unchanged:
            return False
        self._is_changed = True
        target = self.unit.target
        text = target if self.unit.format == "xml" else escape(target)
        # Characters that XML cannot hold, such as form feeds, are an error here, too.
        subject = f"{self._path}: {text!a} is not well-formed"
        with translated_errors(etree.XMLSyntaxError, subject, code="malformed_xml"):
            root = etree.fromstring(f"<t>{text}</t>")
        numbers = sorted(int(tag.get("i", "-1")) for tag in root.iter("g", "sup", "x"))
        if numbers != list(range(len(self._codes))):
            raise codes_error(len(self._codes), text, str(self._path))
        before, after = map(self._unchanged_elements, (self._pieces_before, self._pieces_after))
        middle = self._elements(root, self._main_format)
        _replace_children(self._element, [*before, *middle, *after])
        return True

    def _elements(self, root: etree._Element, props: etree._Element | None) -> list[etree._Element]:
        """Returns runs for the text in an element, and the elements of its codes."""
        elements = list(self._runs(root.text, props))
        for tag in root:
            code = self._codes[int(tag.get("i"))]
            if tag.tag == "x":
                elements += self._unchanged_elements([code])
            elif code.is_text:
                elements += self._elements(tag, code.format)
            else:
                formats = (piece.format for piece in code.children or () if piece.is_text)
                children = self._elements(tag, next(formats, props))
                if code.field:
                    start, end = code.field
                    elements += [*code.elements[:start], *children, *code.elements[end:]]
                else:
                    [wrapper] = code.elements
                    _replace_children(_content_element(wrapper), children)
                    elements += self._unchanged_elements([code])
            elements += self._runs(tag.tail, props)
        return elements

    def _unchanged_elements(self, pieces: Iterable[_Piece]) -> Iterator[etree._Element]:
        """Yields the elements of unchanged pieces."""
        for piece in pieces:
            if piece.is_text:
                yield from self._runs(piece.text, piece.format)
            elif piece.run is None:
                yield from piece.elements
            else:
                run = _new_run(piece.format)
                # Do not copy: paragraphs in text boxes are translated in place.
                run.extend(piece.elements)
                yield run

    def _runs(self, text: str | None, props: etree._Element | None) -> Iterator[etree._Element]:
        """Yields the run of a text, unless the text is empty."""
        if not text:
            return
        run = _new_run(props)
        hyphens = "".join(self._hyphens)
        for part in re.split(f"([{hyphens}])", text) if hyphens else [text]:
            if part in self._hyphens:
                etree.SubElement(run, _HYPHEN_TAGS[part])
            elif part:
                element = etree.SubElement(run, _TEXT)
                element.text = part
                element.set(_XML_SPACE, "preserve")
        yield run


def _has_own_text(element: etree._Element) -> bool:
    """Returns whether an element has text outside of inner paragraphs."""
    for text in element.iter(_TEXT):
        ancestor = text.getparent()
        while ancestor is not element and ancestor.tag not in PARAGRAPHS:
            ancestor = ancestor.getparent()
        if ancestor is element and has_letters(text.text or ""):
            return True
    return False


def _children(element: etree._Element) -> list[etree._Element]:
    """Returns the children of an element except its properties."""
    return [
        child
        for child in element
        if isinstance(child.tag, str) and not child.tag.endswith("Pr") and child.tag != _FIELD_DATA
    ]


def _replace_children(element: etree._Element, children: Iterable[etree._Element]) -> None:
    """Replaces the children of an element except its properties."""
    for child in _children(element):
        element.remove(child)
    element.extend(children)


def _content_element(wrapper: etree._Element) -> etree._Element:
    """Returns the element that contains the runs: `wrapper`, or its child in a content control."""
    content = wrapper.find(_CONTENT_TAGS[wrapper.tag]) if wrapper.tag in _CONTENT_TAGS else None
    return wrapper if content is None else content


def _field_char_types(element: etree._Element) -> list[str | None]:
    """Returns the kinds of an element's field characters: "begin", "separate" and "end"."""
    return [sign.get(f"{_W}fldCharType") for sign in element.iter(_FIELD_CHAR)]


def _is_link(code: str) -> bool:
    """Returns whether a field is a link, whose text is translated."""
    return code.upper().split()[:1] == ["HYPERLINK"]


def _link_bounds(field: Sequence[etree._Element]) -> tuple[int, int] | None:
    """Returns (start, end) of the elements with a link's text; None = the field is no link.

    A link whose field characters and text share a run does not count.
    """
    start = depth = 0
    for number, element in enumerate(field, 1):
        kinds = _field_char_types(element)
        depth += kinds.count("begin")
        if depth == 1 and kinds[-1:] == ["separate"]:
            start = number
            break
        depth -= kinds.count("end")
    field_elements = [*field[:start], field[-1]]
    code = "".join(
        text.text or "" for element in field_elements for text in element.iter(_FIELD_CODE)
    )
    has_text = any(element.find(f".//{_TEXT}") is not None for element in field_elements)
    if not start or has_text or not _is_link(code) or _field_char_types(field[-1]) != ["end"]:
        return None
    return start, len(field) - 1


def _format_key(props: etree._Element | None) -> str:
    if props is None:
        return ""
    props = copy.deepcopy(props)
    for name in _INVISIBLE_FORMATS:
        for invisible in props.findall(name):
            props.remove(invisible)
    return hashlib.sha256(_format_xml(props)).hexdigest() if len(props) else ""


def _format_xml(props: etree._Element) -> bytes:
    """Returns a format as XML, without unused namespaces."""
    props = copy.deepcopy(props)
    etree.cleanup_namespaces(props)
    return etree.tostring(props, with_tail=False)


def _merge(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Joins neighbouring pieces of the same format."""
    merged_pieces: list[_Piece] = []
    for piece in pieces:
        if (
            piece.is_text
            and merged_pieces
            and merged_pieces[-1].is_text
            and merged_pieces[-1].format_key == piece.format_key
        ):
            merged_pieces[-1] = merged_pieces[-1]._replace(text=merged_pieces[-1].text + piece.text)
        elif not piece.is_text or piece.text:
            merged_pieces.append(piece)
    return merged_pieces


def _has_text(pieces: Sequence[_Piece]) -> bool:
    return any(has_letters(piece.text) or _has_text(piece.children or []) for piece in pieces)


def _new_run(props: etree._Element | None) -> etree._Element:
    """Returns an empty run in a format."""
    run = etree.Element(_RUN)
    if props is not None:
        run.append(copy.deepcopy(props))
    return run


class _Part(NamedTuple):
    tree: etree._ElementTree
    paragraphs: list[Paragraph]
    is_strict: bool  # whether it uses the strict variant of the standard

    def to_bytes(self) -> bytes:
        content = etree.tostring(self.tree, xml_declaration=True, encoding="UTF-8", standalone=True)
        return content.replace(_TRANSITIONAL, _STRICT) if self.is_strict else content


class WordDocument(Document):
    """A Word document with a unit for each paragraph, also in headers, notes and tables.

    Parts without translations stay unchanged.
    """

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages)
        self._content = content
        self._format_bytes = 0
        self._parts: dict[str, _Part] = {}
        subject, code = f"{path} is not a Word document, or is truncated", "not_a_word_document"
        with (
            translated_errors(_ZIP_ERRORS, subject, "Copy it again.", code=code),
            zipfile.ZipFile(io.BytesIO(content)) as archive,
        ):
            self._check_archive(archive)
            # Otherwise copying a damaged file would fail after all the work.
            if (damaged := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"{damaged} is damaged")
            for name in filter(_TEXT_PARTS.fullmatch, archive.namelist()):
                self._parts[name] = self._read_part(name, archive.read(name))
            self._count_untranslated(archive)
        if not self._parts:
            raise UserError(
                f"{path}: expected a Word document, got another kind of archive. Save it as .docx.",
                code="not_a_word_document",
            )

    def _check_archive(self, archive: zipfile.ZipFile) -> None:
        """Raises `UserError` for an archive that no word processor writes."""
        files = archive.infolist()
        size = sum(member.file_size for member in files)
        check_limit(self.path, len(files), _MAX_FILES, "files", "file_too_large", "")
        check_limit(self.path, size, _MAX_BYTES, "bytes", "file_too_large", "")
        if len({member.filename for member in files}) < len(files):
            raise UserError(f"{self.path}: duplicate archive member.", code="given_twice")
        for member in files:
            if member.filename.startswith(("/", "\\")) or ".." in re.split(
                r"[/\\]", member.filename
            ):
                raise UserError(
                    f"{self.path}: unsafe name of an archive member: {member.filename!a}.",
                    code="unsafe_archive",
                )
        size = sum(member.file_size for member in files if _TEXT_PARTS.fullmatch(member.filename))
        check_limit(self.path, size, _MAX_TEXT_BYTES, "bytes of text", "file_too_large")

    def _count_untranslated(self, archive: zipfile.ZipFile) -> None:
        size = 0
        for names, pattern, reason in _UNTRANSLATED_PARTS:
            for member in archive.infolist():
                if re.fullmatch(names, member.filename):
                    size += member.file_size
                    content = archive.read(member) if size < _MAX_TEXT_BYTES else b""
                    if count := len(re.findall(pattern, content)):
                        self.left_out[reason] += count

    def _read_part(self, name: str, content: bytes) -> _Part:
        check_counts(self.path, content)
        # Every run that is read or written repeats all namespaces.
        size = sum(map(len, set(_NAMESPACE.findall(content))))
        noun = f"bytes of namespaces in {name}"
        check_limit(self.path, size, _MAX_NAMESPACES_BYTES, noun, "file_too_large", "")
        # The strict variant of the standard has the same elements in another namespace.
        is_strict = _STRICT in content
        content = content.replace(_STRICT, _TRANSITIONAL)
        # Force UTF-8: in another encoding, tags and namespaces could hide.
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False
        )
        subject = f"{self.path}: {name} is not well-formed XML"
        with translated_errors(etree.XMLSyntaxError, subject, code="malformed_xml"):
            tree = etree.ElementTree(etree.fromstring(content, parser))
        if tree.docinfo.doctype:
            raise UserError(
                f"{self.path}: {name} declares a document type, which Word files do not have. Save "
                f"it again with a word processor.",
                code="unsafe_xml",
            )
        if not tree.getroot().tag.startswith(_W):
            raise UserError(
                f"{self.path}: expected {name} to be a part of a Word document, got "
                f"<{etree.QName(tree.getroot()).localname}>. Save it again with a word processor.",
                code="not_a_word_document",
            )
        paragraphs = []
        for element in tree.iter(PARAGRAPHS):
            paragraph = Paragraph(element, self.path)
            self.left_out += paragraph.left_out
            self._format_bytes += paragraph.format_bytes
            noun = "bytes of formats after dividing runs"
            check_limit(self.path, self._format_bytes, _MAX_TEXT_BYTES, noun, "file_too_large")
            if paragraph.has_text:
                paragraphs.append(paragraph)
                self.add_units([paragraph.unit])
        if num_drawn := sum(has_letters(text.text or "") for text in tree.iter(_DRAWING_TEXT)):
            self.left_out["texts of drawings"] += num_drawn
        return _Part(tree, paragraphs, is_strict)

    def content(self) -> bytes:
        """See `Document`."""
        changed_parts = {
            name: part
            for name, part in self._parts.items()
            if sum(paragraph.write() for paragraph in part.paragraphs)
        }
        if not changed_parts:
            return self._content
        buffer = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self._content)) as archive,
            zipfile.ZipFile(buffer, "w") as new_archive,
        ):
            for member in archive.infolist():
                part = changed_parts.get(member.filename)
                content = part.to_bytes() if part else archive.read(member)
                new_archive.writestr(copy.copy(member), content)
        return buffer.getvalue()
