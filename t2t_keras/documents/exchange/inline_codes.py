"""Inline codes of XLIFF and TMX as plain tags: <g i="1">around text</g>, and <x i="2"/> alone.

Translators and memories see no native code, namespaces or attributes, only where a code stands.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from t2t_keras.documents.xml_tree import Element, XmlFile
from t2t_keras.errors import UserError
from t2t_keras.text.markup.matching import parts_words

# Around text that is translated. All other elements are codes, whatever is in them.
AROUND = {"g", "mrk", "pc", "hi"}
# The attributes that the two halves of a pair share.
_BEGINS = {"bpt": ("rid", "i", "id"), "bx": ("rid", "id"), "sc": ("id",)}
_ENDS = {"ept": ("rid", "i", "id"), "ex": ("rid", "id"), "ec": ("startRef",)}
# What is no text in XML that is well-formed.
_MARKUP = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<[^<>"']*+(?>"[^"]*"[^<>"']*+|'[^']*'[^<>"']*+)*+>"""
    r"""|&(?!(?:amp|lt|gt|quot|apos|\#[0-9]+|\#x[0-9A-Fa-f]+);)[^;]+;""",
    re.DOTALL,
)
_PROTECTED = re.compile(r"""\btranslat(?:e\s*=\s*["']no|able\s*=\s*["']false)\b""")
# The tags that stand for codes.
MASK = re.compile(r'<(?:(/)g|(g|x) i="(\d+)"[^<>]*?(/?))\s*>')


class _Piece(NamedTuple):
    kind: str  # "text", "open", "close", "code", "begin" or "end"
    raw: str  # of "text" the text itself, else the tags
    key: str = ""


class Codes(NamedTuple):
    """The text of an element, and what stood where its codes are.

    Attributes:
      text: its text; markup if it has codes.
      format: "text", or "xml" if it has codes.
      tags: what each code was: the opening and the closing tag of "g", "x" and "" of others.
    """

    text: str
    format: str
    tags: list[tuple[str, str]]

    def restored(self, text: str, name: str) -> str:
        """Returns the XML of a translation.

        Raises:
          UserError: a code is missing, or comes twice; the error begins with `name`.
        """
        if self.format != "xml":
            return escape(text)
        found: list[int] = []
        open_codes: list[int] = []

        def tag(match: re.Match) -> str:
            if match[1]:
                return self.tags[open_codes.pop()][1] if open_codes else ""
            number = int(match[3])
            found.append(number)
            if number >= len(self.tags):
                return ""
            if match[2] == "g" and not match[4]:
                open_codes.append(number)
                return self.tags[number][0]
            return "".join(self.tags[number])

        restored = MASK.sub(tag, text)
        if sorted(found) != list(range(len(self.tags))) or open_codes:
            raise UserError(
                f"{name}: expected each of {len(self.tags)} inline codes once, got {text!r}."
            )
        return restored


def codes_of(file: XmlFile, element: Element) -> Codes:
    """Returns what an element contains, with its codes as plain tags."""
    if all(isinstance(item, str) for item in element.items):
        return Codes("".join(element.items), "text", [])
    pieces = _paired(_pieces(file, element.items))
    tags: list[tuple[str, str]] = []
    parts, open_codes = [], []
    for piece in pieces:
        if piece.kind == "text":
            parts.append(escape(piece.raw))
        elif piece.kind == "open":
            protected = ' translate="no"' if piece.key else ""
            parts.append(f'<g i="{len(tags)}"{protected}>')
            open_codes.append(len(tags))
            tags.append((piece.raw, ""))
        elif piece.kind == "close":
            number = open_codes.pop()
            tags[number] = (tags[number][0], piece.raw)
            parts.append("</g>")
        else:
            parts.append(lone_code(len(tags), parts_words(piece.raw)))
            tags.append((piece.raw, ""))
    return Codes("".join(parts), "xml", tags)


def codes_in(raw: str) -> Codes:
    """Returns what well-formed XML contains, tags and entities of its own as codes.

    Text in its CDATA sections is a code as well.
    """
    tags: list[tuple[str, str]] = []
    open_codes: list[int] = []

    def masked(match: re.Match) -> str:
        tag = match[0]
        if tag.startswith("</"):
            number = open_codes.pop()
            tags[number] = (tags[number][0], tag)
            return "</g>"
        tags.append((tag, ""))
        if tag.startswith(("<!", "<?", "&")) or tag.endswith("/>"):
            return lone_code(len(tags) - 1, parts_words(tag))
        open_codes.append(len(tags) - 1)
        protected = ' translate="no"' if is_protected(tag) else ""
        return f'<g i="{len(tags) - 1}"{protected}>'

    return Codes(_MARKUP.sub(masked, raw), "xml", tags)


def lone_code(number: int, parts_words: bool) -> str:
    """Returns the tag of a code without text; one that parts words, as the end of a line does."""
    return f'<x i="{number}" ctype="lb"/>' if parts_words else f'<x i="{number}"/>'


def is_protected(tag: str) -> bool:
    """Returns whether an opening tag says that its element is not to be translated."""
    return bool(_PROTECTED.search(tag))


def _pieces(file: XmlFile, items: Sequence[str | Element]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for item in items:
        if isinstance(item, str):
            pieces.append(_Piece("text", item))
        elif item.name in AROUND and not item.is_empty_tag:
            is_protected = (
                item.attributes.get("mtype") == "protected"
                or item.attributes.get("translate") == "no"
            )
            start, end = item.inner_start, item.inner_end
            key = "no" if is_protected else ""
            pieces.append(_Piece("open", file.raw(item.start, start), key))
            pieces += _pieces(file, item.items)
            pieces.append(_Piece("close", file.raw(end, item.end)))
        else:
            kind, key = "code", ""
            for name, attributes in (("begin", _BEGINS), ("end", _ENDS)):
                if item.name in attributes:
                    values = map(item.attributes.get, attributes[item.name])
                    kind, key = name, next(filter(None, values), "")
            pieces.append(_Piece(kind, file.raw(item.start, item.end), key))
    return pieces


def _paired(pieces: list[_Piece]) -> list[_Piece]:
    """Returns the pieces with begins and ends that nest as if one element were around the text."""
    stack: list[int] = []
    pairs: dict[int, str] = {}
    for number, piece in enumerate(pieces):
        if piece.kind in ("open", "begin"):
            stack.append(number)
        elif piece.kind == "close":
            while pieces[stack.pop()].kind == "begin":
                pass  # It ends elsewhere, or never.
        elif piece.kind == "end":
            top = pieces[stack[-1]] if stack else None
            if top and top.kind == "begin" and top.key == piece.key:
                pairs[stack.pop()], pairs[number] = "open", "close"
    return [
        piece._replace(kind=pairs[number], key="") if number in pairs else piece
        for number, piece in enumerate(pieces)
    ]
