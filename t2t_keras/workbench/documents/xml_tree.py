"""Reads XML with the positions of its elements, so that writers change only translations."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.document import Text, check_limit, decode_file, is_charset

_DECLARATION = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_TAG = re.compile(r"""<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>""")
_MAX_DEPTH = 200
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
# Separates namespace and name in expat's names of elements.
_SEPARATOR = " "
# Shared by all elements without attributes.
_NO_ATTRIBUTES: dict[str, str] = {}
# Limited because expat keeps all names, with their namespaces, in memory.
_MAX_NAMESPACE_LENGTH, _MAX_NAMES = 1000, 100_000


@dataclasses.dataclass(slots=True, eq=False)
class Element:
    """An element: the positions of its tags in the file's text, and its content."""

    file: str = dataclasses.field(repr=False)  # the text of the whole file
    name: str  # without its namespace
    namespace: str
    attributes: dict[str, str]
    parent: "Element | None" = dataclasses.field(repr=False)
    start: int
    inner_start: int
    inner_end: int = -1
    end: int = -1
    items: list["str | Element"] = dataclasses.field(default_factory=list)

    @property
    def is_empty_tag(self) -> bool:
        """Whether the element is self-closing."""
        return self.inner_end < self.inner_start

    @property
    def raw(self) -> str:
        """The element as written in the file."""
        return self.file[self.start : self.end]

    @property
    def tag(self) -> str:
        """Its opening or empty tag."""
        return self.file[self.start : self.inner_start]

    @property
    def inner(self) -> str:
        """The markup between its tags."""
        return self.file[self.inner_start : self.inner_end]

    @property
    def language(self) -> str:
        """The value of xml:lang, or of lang in old TMX."""
        return self.attributes.get(_LANGUAGE) or self.attributes.get("lang", "")

    @property
    def own_text(self) -> str:
        """The text directly in it, not in child elements."""
        return "".join(item for item in self.items if isinstance(item, str))

    def text(self) -> str:
        """Returns all its text."""
        return "".join(item if isinstance(item, str) else item.text() for item in self.items)

    def children(self, *names: str) -> list["Element"]:
        """Returns the child elements, or those with these names."""
        elements = [item for item in self.items if isinstance(item, Element)]
        return [element for element in elements if not names or element.name in names]

    def child(self, name: str) -> "Element | None":
        """Returns the first of `children`."""
        return next(iter(self.children(name)), None)

    def outermost(self, name: str) -> Iterator["Element"]:
        """Yields the elements with this name in itself, but none inside another of them."""
        if self.name == name:
            yield self
        else:
            for element in self.children():
                yield from element.outermost(name)

    def inherited(self, attribute: str) -> str:
        """Returns its attribute or that of the nearest element around it; "" = none has it."""
        value = self.attributes.get(attribute)
        return value or (self.parent.inherited(attribute) if self.parent else "")


def read_xml(path: Path, content: bytes) -> Text:
    """Returns the text of an XML file, in the encoding that it declares."""
    declared = _DECLARATION.match(content)
    encoding = declared[1].decode() if declared else "utf-8"
    if not is_charset(encoding):
        raise UserError(
            f"{path}: the encoding {encoding} is unknown. Convert it to UTF-8.",
            code="unknown_encoding",
        )
    return decode_file(path, content, encoding)


def read_tree(path: Path, text: str) -> Element:
    """Parses the text of a file, and returns its root element.

    Raises:
      UserError: the text is not well-formed, is nested too deeply, or declares entities or
        defaults of attributes.
    """
    builder = _TreeBuilder(path, text)
    try:
        builder.parser.Parse(builder.data, True)
    except expat.ExpatError as error:
        raise UserError(
            f"{path}:{error.lineno}: not well-formed XML at column {error.offset + 1} "
            f"({expat.ErrorString(error.code)}). Repair it.",
            code="malformed_xml",
        ) from error
    return builder.root


class _TreeBuilder:
    """The handlers of a parser."""

    root: Element

    def __init__(self, path: Path, file: str):
        self.path, self.file, self.data = path, file, file.encode()
        self.stack: list[Element] = []
        self.namespaces: dict[str, str] = {}
        self.byte_offset = self.char_offset = 0  # the same place in `data` and in `file`
        self.parser = parser = expat.ParserCreate("utf-8", _SEPARATOR)
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.SkippedEntityHandler = self.skipped_entity
        parser.EntityDeclHandler = self.entity_declaration
        parser.AttlistDeclHandler = self.attribute_declaration
        parser.StartNamespaceDeclHandler = self.namespace_declaration

    def position(self) -> int:
        """Returns the parser's position in characters; expat counts bytes, and never goes back."""
        byte_offset = self.parser.CurrentByteIndex
        self.char_offset += len(self.data[self.byte_offset : byte_offset].decode())
        self.byte_offset = byte_offset
        return self.char_offset

    def start(self, name: str, attributes: dict[str, str]) -> None:
        check_limit(self.path, len(self.stack) + 1, _MAX_DEPTH, "elements inside each other")
        check_limit(self.path, len(self.parser.intern), _MAX_NAMES, "different names")
        position = self.position()
        namespace, _, local_name = name.rpartition(_SEPARATOR)
        namespace = self.namespaces.setdefault(namespace, namespace)
        tag = _TAG.match(self.file, position)
        tag_end = tag.end() if tag else position  # Always matches: the parser has read it.
        parent = self.stack[-1] if self.stack else None
        element = Element(
            self.file,
            local_name,
            namespace,
            attributes or _NO_ATTRIBUTES,
            parent,
            position,
            tag_end,
        )
        if parent:
            parent.items.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, name: str) -> None:
        element = self.stack.pop()
        if element.tag.endswith("/>"):
            element.end = element.inner_start
        else:
            element.inner_end = self.position()
            element.end = self.file.index(">", element.inner_end) + 1

    def text(self, text: str) -> None:
        self.stack[-1].items.append(text)

    def skipped_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            self.text(f"&{name};")

    def entity_declaration(self, name: str, *details: object) -> None:
        raise UserError(
            f"{self.path} declares the entity '{name}'. Entity declarations are rejected for "
            f"security: remove it.",
            code="unsafe_xml",
        )

    def attribute_declaration(
        self, element: str, name: str, kind: str, default: str | None, is_required: bool
    ) -> None:
        if default is not None:
            raise UserError(
                f"{self.path} declares a default for the attribute '{name}'. Defaults are rejected "
                f"for security: remove it.",
                code="unsafe_xml",
            )

    def namespace_declaration(self, prefix: str | None, namespace: str | None) -> None:
        noun = "characters of a namespace"
        limits = len(namespace or ""), _MAX_NAMESPACE_LENGTH
        check_limit(self.path, *limits, noun, "too_long", "Shorten it.")
