"""Replaces inline codes by plain tags: <g i="1">around text</g>, and <x i="2"/> alone.

Translators and memories see only the places of codes: no native codes, namespaces or attributes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.software_strings import has_branches
from t2t_keras.workbench.documents.xml_tree import Element
from t2t_keras.workbench.markup.tokens import CLOSE, OPEN, TEXT, is_break_tag, is_note, xml_tokens

# Elements with text to translate. Any other element is one code, with all its content.
TEXT_ELEMENTS = {"g", "mrk", "pc", "hi"}
# The attributes that link the two halves of a pair.
_PAIR_STARTS = {"bpt": ("rid", "i", "id"), "bx": ("rid", "id"), "sc": ("id",)}
_PAIR_ENDS = {"ept": ("rid", "i", "id"), "ex": ("rid", "id"), "ec": ("startRef",)}
# References to entities that documents declare themselves.
_DECLARED_ENTITY = re.compile(r"(&(?!(?:amp|lt|gt|quot|apos|\#[0-9]+|\#x[0-9A-Fa-f]+);)[^;]+;)")
_PROTECTED = re.compile(r"""\btranslat(?:e\s*=\s*["']no|able\s*=\s*["']false)\b""")
# The tags that replace codes.
PLAIN_TAG = re.compile(r'<(?:(/)(?:g|sup)|(g|sup|x) i="(\d+)"[^<>]*?(/?))\s*>')
# Attributes with the kind of a code, and with its native code.
_KIND_ATTRIBUTES, _NATIVE_ATTRIBUTES = ("ctype", "type", "subType"), ("equiv", "disp", "equiv-text")
_BREAK_KINDS = re.compile(r"(?:\w+[:-])?(?:lb|pb|br|tab|linebreak|pagebreak)")
_SUB_SUP_KINDS = re.compile(r"(?:\w+[:-])?su(?:per|b|p)(?:script)?")
# Native codes of line breaks and tabs, and of sub- and superscripts.
_BREAK = re.compile(
    r"\s*(?:</?(?:[\w.-]+:)?(?:br|cr|hr|lb|li|p|tab|td|tr|line-break|softbreak)\b[^<>]*>"
    r"|\\[nrt]|&#(?:9|10|13);|&#x0?[9aAdD];)\s*"
)
_SUB_SUP = re.compile(r"<(?:[\w.-]+:)?su[bp]\b[^<>]*>")
_BREAK_CHARACTERS = {9, 10, 11, 12, 13, 0x85, 0x2028, 0x2029}
# Program syntax that adjoins a code becomes part of it: %<x/>%\bin, http://<x/>/.
_SYNTAX = r"%$#@{}\\/=_~^|"
_MAX_SYNTAX_LENGTH = 200
_SYNTAX_BEFORE = re.compile(
    rf"(?:[\w.\-]+(?=[_@\\]|:[/\\]))?[{_SYNTAX}:]*[{_SYNTAX}](?:[\w.:\-]+[{_SYNTAX}]+)*$"
)
_SYNTAX_AFTER = re.compile(
    rf"[{_SYNTAX}]+(?:[\w.:\-]+[{_SYNTAX}]+)*(?:(?<=[/\\_@#=$])[\w.:\-]*\w)?"
)


class _InlineItem(NamedTuple):
    kind: str  # "text", "open", "close", "code", "begin" or "end"
    raw: str  # the text, the tag or the code
    pair_id: str = ""
    is_break: bool = False
    is_sub_or_sup: bool = False
    is_protected: bool = False


class Codes(NamedTuple):
    """The text of an element, with plain tags for its codes.

    Attributes:
      text: the text; markup if it has codes.
      format: "text", or "xml" if it has codes.
      tags: (opening tag, closing tag) for a "g" or "sup"; (code, "") for an "x"; by number.
    """

    text: str
    format: str
    tags: list[tuple[str, str]]

    def restore(self, text: str, name: str) -> str:
        """Returns the XML of a translation.

        Raises:
          UserError: a code is missing or duplicated; the message begins with `name`.
        """
        if self.format != "xml":
            return escape(text)
        numbers: list[int] = []
        open_codes: list[int] = []

        def original_tag(match: re.Match) -> str:
            if match[1]:
                return self.tags[open_codes.pop()][1] if open_codes else ""
            number = int(match[3])
            numbers.append(number)
            if number >= len(self.tags):
                return ""
            if match[2] != "x" and not match[4]:
                open_codes.append(number)
                return self.tags[number][0]
            return "".join(self.tags[number])

        markup = PLAIN_TAG.sub(original_tag, self._with_source_places(text))
        if sorted(numbers) != list(range(len(self.tags))) or open_codes:
            raise codes_error(len(self.tags), text, name)
        return markup

    def _with_source_places(self, text: str) -> str:
        """Puts tags where the source has them if only the case of the text differs."""
        plain, source = (PLAIN_TAG.sub("", side) for side in (text, self.text))
        if len(plain) != len(source) or plain.casefold() != source.casefold():
            return text
        parts, position, plain_position = [], 0, 0
        for match in [*PLAIN_TAG.finditer(self.text), None]:
            start, end = match.span() if match else (len(self.text), len(self.text))
            plain_end = plain_position + start - position
            parts += [plain[plain_position:plain_end], self.text[start:end]]
            plain_position, position = plain_end, end
        return "".join(parts)


class _CodesWriter:
    """Builds `Codes`; `parts` are escaped texts and plain tags."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.tags: list[tuple[str, str]] = []
        self._open: list[tuple[int, str]] = []

    def open(self, tag: str, name: str = "g", attributes: str = "") -> None:
        self.parts.append(f'<{name} i="{len(self.tags)}"{attributes}>')
        self._open.append((len(self.tags), name))
        self.tags.append((tag, ""))

    def close(self, tag: str) -> None:
        number, name = self._open.pop()
        self.tags[number] = self.tags[number][0], tag
        self.parts.append(f"</{name}>")

    def add_lone(self, code: str, is_break: bool) -> None:
        self.parts.append(lone_code(len(self.tags), is_break))
        self.tags.append((code, ""))

    def codes(self) -> Codes:
        return Codes("".join(self.parts), "xml", self.tags)


def codes_of(element: Element, native_codes: Mapping[str, str] | None = None) -> Codes:
    """Returns the content of an element with plain tags for its codes.

    Args:
      element: a source or a target.
      native_codes: native codes in XLIFF 2's originalData, by id.
    """
    if not any(isinstance(item, Element) for item in element.items):
        return Codes(element.text(), "text", [])
    pieces = _pair(_pieces(element.items, native_codes or {}))
    # In a message with branches, braces belong to the message.
    if not has_branches(element.text()):
        pieces = _with_syntax(pieces)
    writer = _CodesWriter()
    for piece in pieces:
        if piece.kind == "text":
            writer.parts.append(escape(piece.raw))
        elif piece.kind == "open":
            attributes = ' translate="no"' if piece.is_protected else ""
            writer.open(piece.raw, "sup" if piece.is_sub_or_sup else "g", attributes)
        elif piece.kind == "close":
            writer.close(piece.raw)
        else:
            writer.add_lone(piece.raw, piece.is_break)
    return writer.codes()


def codes_in(raw: str) -> Codes:
    """Replaces tags, CDATA sections and declared entities of well-formed XML by plain tags."""
    writer = _CodesWriter()
    for token in xml_tokens(raw):
        if token.kind == TEXT:
            text, *entities = _DECLARED_ENTITY.split(token.raw)
            writer.parts.append(text)
            for entity, text in zip(entities[::2], entities[1::2], strict=True):
                writer.add_lone(entity, False)
                writer.parts.append(text)
        elif token.kind == CLOSE:
            writer.close(token.raw)
        elif token.kind == OPEN:
            attributes = ' translate="no"' if is_protected(token.raw) else ""
            attributes += ' ctype="x-note"' if is_note(token, False) else ""
            writer.open(token.raw, attributes=attributes)
        else:
            writer.add_lone(token.raw, is_break_tag(token.raw))
    return writer.codes()


def codes_error(count: int, text: str, name: str = "") -> UserError:
    """Returns the error for a translation with a missing or duplicated code."""
    return UserError(
        f"{name or 'A text'}: expected each of {count} inline codes exactly once in its "
        f"translation, got {text!a}. Correct the codes, or leave the translation out.",
        code="inline_codes_differ",
    )


def lone_code(number: int, is_break: bool) -> str:
    """Returns the tag of a code without text; with `is_break`, it separates words."""
    return f'<x i="{number}" ctype="lb"/>' if is_break else f'<x i="{number}"/>'


def is_protected(tag: str) -> bool:
    """Returns whether an opening tag excludes its element from translation."""
    return bool(_PROTECTED.search(tag))


def _pieces(items: Sequence[str | Element], native_codes: Mapping[str, str]) -> list[_InlineItem]:
    pieces: list[_InlineItem] = []
    for item in items:
        if isinstance(item, str):
            pieces.append(_InlineItem("text", item))
            continue
        attributes = item.attributes
        kinds = [attributes.get(name, "") for name in _KIND_ATTRIBUTES]
        code = _native_code(item, native_codes)
        is_sub_or_sup = any(map(_SUB_SUP_KINDS.fullmatch, kinds)) or bool(_SUB_SUP.fullmatch(code))
        if item.name in TEXT_ELEMENTS and not item.is_empty_tag:
            is_protected = (
                attributes.get("mtype") == "protected" or attributes.get("translate") == "no"
            )
            pieces.append(_InlineItem("open", item.tag, "", False, is_sub_or_sup, is_protected))
            pieces += _pieces(item.items, native_codes)
            pieces.append(_InlineItem("close", item.file[item.inner_end : item.end]))
            continue
        kind, pair_id = "code", ""
        for name, keys in (("begin", _PAIR_STARTS), ("end", _PAIR_ENDS)):
            if item.name in keys:
                kind, pair_id = name, next(filter(None, map(attributes.get, keys[item.name])), "")
        is_break = (
            any(map(_BREAK_KINDS.fullmatch, kinds))
            or bool(_BREAK.fullmatch(code))
            or bool(code and code.isspace())
            or is_break_tag(item.raw)
        )
        pieces.append(_InlineItem(kind, item.raw, pair_id, is_break, is_sub_or_sup))
    return pieces


def _native_code(item: Element, native_codes: Mapping[str, str]) -> str:
    """Returns the native code of an element if the file shows it; "" = unknown."""
    if item.name == "cp":
        code = item.attributes.get("hex", "")
        is_break = re.fullmatch("[0-9A-Fa-f]{1,6}", code) and int(code, 16) in _BREAK_CHARACTERS
        return "\n" if is_break else ""
    displayed_codes = (item.attributes.get(name, "") for name in _NATIVE_ATTRIBUTES)
    reference = item.attributes.get("dataRef") or item.attributes.get("dataRefStart", "")
    own_text = "" if item.name in TEXT_ELEMENTS else item.text()
    return own_text or native_codes.get(reference) or next(filter(None, displayed_codes), "")


def _with_syntax(pieces: Sequence[_InlineItem]) -> list[_InlineItem]:
    """Moves adjacent program syntax into codes.

    Otherwise a translation could separate the two and change %<x/>% to %%<x/>.
    """
    merged_pieces: list[_InlineItem] = []
    is_glued = False
    for piece in pieces:
        previous = merged_pieces[-1] if merged_pieces else None
        if piece.kind == "text" and previous and previous.kind == "code":
            if syntax := _SYNTAX_AFTER.match(piece.raw[:_MAX_SYNTAX_LENGTH]):
                merged_pieces[-1] = previous._replace(raw=previous.raw + escape(syntax[0]))
                piece = piece._replace(raw=piece.raw[syntax.end() :])
                is_glued = not piece.raw
                if is_glued:
                    continue
        elif piece.kind == "code" and previous and previous.kind == "text":
            if syntax := _SYNTAX_BEFORE.search(previous.raw[-_MAX_SYNTAX_LENGTH:]):
                merged_pieces[-1] = previous._replace(raw=previous.raw.removesuffix(syntax[0]))
                piece = piece._replace(raw=escape(syntax[0]) + piece.raw)
        elif piece.kind == "code" and previous and is_glued:
            merged_pieces[-1] = previous._replace(raw=previous.raw + piece.raw)
            is_glued = True
            continue
        is_glued = False
        merged_pieces.append(piece)
    return merged_pieces


def _pair(pieces: list[_InlineItem]) -> list[_InlineItem]:
    """Turns well-nested pairs of begin and end into opening and closing tags."""
    stack: list[int] = []
    new_kinds: dict[int, str] = {}
    for number, piece in enumerate(pieces):
        if piece.kind in ("open", "begin"):
            stack.append(number)
        elif piece.kind == "close":
            while pieces[stack.pop()].kind == "begin":
                pass  # Its end is in another element or missing.
        elif piece.kind == "end":
            top = pieces[stack[-1]] if stack else None
            if top and top.kind == "begin" and top.pair_id == piece.pair_id:
                new_kinds[stack.pop()], new_kinds[number] = "open", "close"
    lone_kinds = {"begin": "code", "end": "code"}
    return [
        piece._replace(kind=new_kinds.get(number) or lone_kinds.get(piece.kind, piece.kind))
        for number, piece in enumerate(pieces)
    ]
