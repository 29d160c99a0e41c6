"""TMX, the exchange format of translation memories: translation units in any number of languages.

The file is read as a stream, without a tree in memory, and entities that attack the reader are
refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from xml.etree.ElementTree import ParseError

from t2t_keras.errors import UserError
from t2t_keras.text.files import MAX_LINE_BYTES, one_line

_BLOCK_BYTES = 1 << 16
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class _Units:
    """Target of an XML parser: collects the text of translation units."""

    def __init__(self, keep_lines: bool):
        self._text = str if keep_lines else one_line
        # Units that ended: text by language code, as "en-gb"; the first where one comes twice.
        self.complete: list[dict[str, str]] = []
        self._texts: dict[str, str] = {}
        self._language = ""
        self._parts: list[str] | None = None  # of the open segment
        self._code = 0  # depth in inline tags whose content is a program's code

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if self._parts is not None:
            # All inline tags but `hi` (bpt, ept, it, ph, ut) hold code.
            self._code += bool(self._code or tag != "hi")
        elif tag == "tu":
            self._texts = {}
        elif tag == "tuv":
            language = attributes.get(_XML_LANGUAGE) or attributes.get("lang") or ""
            self._language = normalised(language)
        elif tag == "seg":
            self._parts = []

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        if self._code:
            self._code -= 1
        elif tag == "seg" and self._parts is not None:
            self._texts.setdefault(self._language, self._text("".join(self._parts)))
            self._parts = None
        elif tag == "tu":
            self.complete.append(self._texts)

    def data(self, text: str) -> None:
        if self._parts is not None and not self._code:
            self._parts.append(text)


def translation_units(
    stream: BinaryIO, name: str, languages: tuple[str, str], keep_lines: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every unit; a side that the unit lacks is empty.

    The code "en" also finds "en-GB", where there is no "en". A file that cannot be parsed, or has
    no unit in both languages, is a `UserError`. Texts are one line each, or as they stand if lines
    are to be kept.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    units = _Units(keep_lines)
    parser = DefusedXMLParser(target=units)
    found: set[str] = set()
    complete = size = 0
    try:
        while block := stream.read(_BLOCK_BYTES):
            parser.feed(block)
            size = 0 if units.complete else size + len(block)
            if size >= MAX_LINE_BYTES:
                raise UserError(
                    f"{name}: a translation unit of over {MAX_LINE_BYTES:,} bytes.", code="too_long"
                )
            for texts in units.complete:
                found.update(texts)
                pair = tuple(in_language(texts, language) or "" for language in languages)
                complete += all(pair)
                yield tuple(text.encode("utf-8", "surrogatepass") for text in pair)
            units.complete.clear()
        parser.close()
    except ParseError as error:
        line, column = error.position
        raise UserError(
            f"{name}:{line}: not well-formed XML at column {column + 1} ({error.msg}). Repair it.",
            code="malformed_xml",
        ) from error
    except DefusedXmlException as error:
        raise UserError(
            f"{name} declares entities, which could attack the reader: {error}",
            code="unsafe_xml",
        ) from (error)
    except (ValueError, LookupError) as error:  # Of the parser: an encoding it does not know.
        raise UserError(
            f"{name} cannot be read: {error}. Convert it to UTF-8 and change its first line.",
            code="unknown_encoding",
        ) from error
    if not complete:
        raise UserError(
            f"{name}: expected translation units in {' and '.join(languages)}, got "
            f"{', '.join(sorted(found)) or 'none at all'}.",
            code="missing_language",
        )


def in_language(of: Mapping[str, Any], language: str) -> Any:
    """Returns what there is of a language or, where there is none, of a regional variant, or None.

    The keys are codes as `normalised` returns them.
    """
    language = normalised(language)
    regional = (each for code, each in of.items() if code.startswith(f"{language}-"))
    return of[language] if language in of else next(regional, None)


def normalised(language: str) -> str:
    """Returns a language code as "en-gb"."""
    return language.lower().replace("_", "-")
