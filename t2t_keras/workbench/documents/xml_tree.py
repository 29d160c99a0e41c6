"""XML with the position of everything in it, so that all but the translations stays as it is."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from xml.parsers import expat

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.spans import decoded, is_charset, replaced

_DECLARATION = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_TAG = re.compile(rb"""<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>""")
_MAX_DEPTH = 200
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
# Between a namespace and a name, as expat gives them.
SEPARATOR = " "
# Names are kept with their namespaces.
_MAX_NAMESPACE, _MAX_NAMES = 1000, 100_000


@dataclasses.dataclass(slots=True)
class Element:
    """An element: where its tags begin and end, in bytes, and what is between them."""

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
        """Whether one tag is all of it."""
        return self.inner_end < self.inner_start

    @property
    def language(self) -> str:
        """What xml:lang says, or lang, as TMX had it."""
        return self.attributes.get(_LANGUAGE) or self.attributes.get("lang", "")

    def text(self) -> str:
        """Returns all text in it."""
        return "".join(item if isinstance(item, str) else item.text() for item in self.items)

    def children(self, *names: str) -> list["Element"]:
        """Returns the elements of these names that are directly in it."""
        return [each for each in self.items if isinstance(each, Element) and each.name in names]

    def child(self, name: str) -> "Element | None":
        """Returns the first of `children`."""
        return next(iter(self.children(name)), None)


class XmlFile:
    """The bytes of an XML file as UTF-8, and what it takes to write them again."""

    def __init__(self, path: Path, content: bytes):
        self.path = path
        found = _DECLARATION.match(content)
        encoding = found[1].decode() if found else "utf-8"
        if not is_charset(encoding):
            raise UserError(
                f"{path}: the encoding {encoding} is unknown. Convert it to UTF-8.",
                code="unknown_encoding",
            )
        self.original = decoded(path, content, encoding)
        self.data = self.original.text.encode()

    def raw(self, start: int, end: int) -> str:
        """Returns a part of the file."""
        return self.data[start:end].decode()

    def changed(self, changes: Iterable[tuple[int, int, str]]) -> bytes:
        """Returns the file with spans (start, end, new text) replaced."""
        encoded = [(start, end, new.encode()) for start, end, new in sorted(changes)]
        text = replaced(self.data, encoded).decode()
        mark, encoding = self.original.mark, self.original.encoding
        return mark + text.encode(encoding, "xmlcharrefreplace")

    def walk(
        self,
        whole: Collection[str],
        opened: Callable[[Element], object],
        closed: Callable[[Element], object],
        texts: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Reads the file and calls back for its elements, in order.

        Args:
          whole: names of the elements whose whole content is kept until they end.
          opened: takes each other element when it begins, outside of such.
          closed: takes each such element and each of those when it ends.
          texts: takes text outside of such elements.

        Raises:
          UserError: it is not well-formed, is nested too deeply, or declares entities or defaults
            of attributes.
        """
        walker = _Walker(self, frozenset(whole), opened, closed, texts)
        parser = expat.ParserCreate("utf-8", SEPARATOR)
        walker.attach(parser)
        try:
            parser.Parse(self.data, True)
        except expat.ExpatError as error:
            raise UserError(
                f"{self.path}:{error.lineno}: not well-formed XML at column {error.offset + 1} "
                f"({expat.ErrorString(error.code)}). Repair it.",
                code="malformed_xml",
            ) from error


class _Walker:
    """The handlers of a parser."""

    def __init__(self, file: XmlFile, whole, opened, closed, texts):
        self.file, self.whole, self.opened, self.closed = file, whole, opened, closed
        self.texts = texts
        self.stack: list[Element] = []
        self.namespaces: dict[str, str] = {}
        self.kept = 0  # depth of the outermost element of `whole`, 0 = outside

    def attach(self, parser) -> None:
        self.parser = parser
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.SkippedEntityHandler = self.skipped
        parser.EntityDeclHandler = self.entity
        parser.AttlistDeclHandler = self.attribute
        parser.StartNamespaceDeclHandler = self.declared

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.stack) >= _MAX_DEPTH:
            raise UserError(
                f"{self.file.path}: elements in over {_MAX_DEPTH:,} others.", code="too_many_values"
            )
        position = self.parser.CurrentByteIndex
        if len(self.parser.intern) > _MAX_NAMES:
            raise UserError(
                f"{self.file.path}: names of over {_MAX_NAMES:,} kinds.", code="too_many_values"
            )
        namespace, _, local = name.rpartition(SEPARATOR)
        namespace = self.namespaces.setdefault(namespace, namespace)
        tag_end = _TAG.match(self.file.data, position).end()
        element = Element(local, namespace, attributes, position, tag_end)
        if self.kept:
            self.stack[-1].items.append(element)
        self.stack.append(element)
        if self.kept:
            return
        if local in self.whole:
            self.kept = len(self.stack)
        else:
            self.opened(element)

    def end(self, name: str) -> None:
        element = self.stack.pop()
        if self.file.data[element.inner_start - 2 : element.inner_start] == b"/>":
            element.end = element.inner_start
        else:
            element.inner_end = self.parser.CurrentByteIndex
            element.end = self.file.data.index(b">", element.inner_end) + 1
        if len(self.stack) < self.kept:
            self.kept = 0
        if not self.kept:
            self.closed(element)

    def text(self, text: str) -> None:
        if self.kept:
            self.stack[-1].items.append(text)
        else:
            self.texts(text)

    def skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            self.text(f"&{name};")

    def entity(self, name: str, *others) -> None:
        raise UserError(
            f"{self.file.path} declares the entity '{name}', which could attack the reader. Take "
            f"the declaration out.",
            code="unsafe_xml",
        )

    def attribute(self, element: str, name: str, kind: str, default: str | None, *others) -> None:
        if default is not None:
            raise UserError(
                f"{self.file.path} declares a default of the attribute '{name}', which could "
                f"attack the reader. Take the declaration out.",
                code="unsafe_xml",
            )

    def declared(self, prefix: str | None, namespace: str | None) -> None:
        if len(namespace or "") > _MAX_NAMESPACE:
            raise UserError(
                f"{self.file.path}: a namespace of over {_MAX_NAMESPACE:,} characters.",
                code="too_long",
            )
