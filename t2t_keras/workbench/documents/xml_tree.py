"""Reads XML with the positions of its elements, so that writers change only translations."""

import dataclasses
import re
from collections.abc import Callable, Collection
from pathlib import Path
from xml.parsers import expat

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.document import Text, decode_file, is_charset

_DECLARATION = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_TAG = re.compile(r"""<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>""")
_MAX_DEPTH = 200
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
# Separates namespace and name in expat's names of elements.
SEPARATOR = " "
# Limited because expat keeps all names, with their namespaces, in memory.
_MAX_NAMESPACE_LENGTH, _MAX_NAMES = 1000, 100_000


@dataclasses.dataclass(slots=True)
class Element:
    """An element: the positions of its tags in the file's text, and its content."""

    file: str  # the text of the whole file
    name: str  # without its namespace
    namespace: str
    attributes: dict[str, str]
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

    def text(self) -> str:
        """Returns all its text."""
        return "".join(item if isinstance(item, str) else item.text() for item in self.items)

    def children(self, *names: str) -> list["Element"]:
        """Returns the child elements with these names."""
        return [item for item in self.items if isinstance(item, Element) and item.name in names]

    def child(self, name: str) -> "Element | None":
        """Returns the first of `children`."""
        return next(iter(self.children(name)), None)


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


def walk(
    path: Path,
    text: str,
    whole_names: Collection[str],
    on_open: Callable[[Element], object],
    on_close: Callable[[Element], object],
    on_text: Callable[[str], object] = lambda text: None,
) -> None:
    """Parses the text of a file and calls functions for its elements, in order.

    Args:
      path: path of the file, for errors.
      text: text of the file.
      whole_names: names of elements to read whole: `on_close` gets them with their content.
      on_open: called when an element begins, except for whole elements and those inside them.
      on_close: called when an element ends, except for those inside whole elements.
      on_text: called with text outside of whole elements.

    Raises:
      UserError: the text is not well-formed, is nested too deeply, or declares entities or
        defaults of attributes.
    """
    walker = _Walker(path, text, frozenset(whole_names), on_open, on_close, on_text)
    try:
        walker.parser.Parse(walker.data, True)
    except expat.ExpatError as error:
        raise UserError(
            f"{path}:{error.lineno}: not well-formed XML at column {error.offset + 1} "
            f"({expat.ErrorString(error.code)}). Repair it.",
            code="malformed_xml",
        ) from error


class _Walker:
    """The handlers of a parser."""

    def __init__(
        self,
        path: Path,
        file: str,
        whole_names: Collection[str],
        on_open: Callable[[Element], object],
        on_close: Callable[[Element], object],
        on_text: Callable[[str], object],
    ):
        self.path, self.file, self.data = path, file, file.encode()
        self.whole_names = whole_names
        self.on_open, self.on_close, self.on_text = on_open, on_close, on_text
        self.stack: list[Element] = []
        self.namespaces: dict[str, str] = {}
        self.whole_depth = 0  # depth of the open element of `whole_names`, 0 = none
        self.byte_offset = self.char_offset = 0  # the same place in `data` and in `file`
        self.parser = parser = expat.ParserCreate("utf-8", SEPARATOR)
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
        if len(self.stack) >= _MAX_DEPTH:
            raise UserError(
                f"{self.path}: elements are nested more than {_MAX_DEPTH:,} deep. Split the file.",
                code="too_many_values",
            )
        position = self.position()
        if len(self.parser.intern) > _MAX_NAMES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_NAMES:,} different names, got more.",
                code="too_many_values",
            )
        namespace, _, local_name = name.rpartition(SEPARATOR)
        namespace = self.namespaces.setdefault(namespace, namespace)
        tag = _TAG.match(self.file, position)
        tag_end = tag.end() if tag else position  # Always matches: the parser has read it.
        element = Element(self.file, local_name, namespace, attributes, position, tag_end)
        if self.whole_depth:
            self.stack[-1].items.append(element)
        self.stack.append(element)
        if self.whole_depth:
            return
        if local_name in self.whole_names:
            self.whole_depth = len(self.stack)
        else:
            self.on_open(element)

    def end(self, name: str) -> None:
        element = self.stack.pop()
        if element.tag.endswith("/>"):
            element.end = element.inner_start
        else:
            element.inner_end = self.position()
            element.end = self.file.index(">", element.inner_end) + 1
        if len(self.stack) < self.whole_depth:
            self.whole_depth = 0
        if not self.whole_depth:
            self.on_close(element)

    def text(self, text: str) -> None:
        if self.whole_depth:
            self.stack[-1].items.append(text)
        else:
            self.on_text(text)

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
        if len(namespace or "") > _MAX_NAMESPACE_LENGTH:
            raise UserError(
                f"{self.path}: expected namespaces of at most {_MAX_NAMESPACE_LENGTH:,} "
                f"characters, got a longer one.",
                code="too_long",
            )
