"""TMX, the exchange format of translation memories: translation units in any number of languages.

The file is read as a stream, with entities that attack the reader refused, and what was read is
forgotten, so that memory does not grow with the file.
"""

from collections.abc import Iterator
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError

from t2t_keras.data.sgm import one_line
from t2t_keras.errors import UserError

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Inline tags whose content is text; that of the others (bpt, ept, it, ph, ut) is a program's code.
_TEXT_TAGS = ("hi",)


def translation_units(
    stream: BinaryIO, name: str, languages: tuple[str, str]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of every unit; the side that a unit does not have is empty.

    Args:
      stream: the file.
      name: of the file, for errors.
      languages: codes of source and target. "en" also finds "en-GB", where there is no "en".

    Raises:
      UserError: not well-formed (line and column are named), a forbidden entity, or no unit in both
        languages.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    found: set[str] = set()
    complete = 0
    body = None
    try:
        for event, element in iterparse(stream, events=("start", "end")):
            tag = _local_name(element)
            if event == "start":
                body = element if tag == "body" else body
            elif tag == "tu":
                texts = _texts(element)
                found.update(texts)
                pair = tuple(_in_language(texts, language) for language in languages)
                complete += all(pair)
                yield tuple(text.encode("utf-8", "surrogatepass") for text in pair)
                (element if body is None else body).clear()
    except ParseError as error:
        line, column = error.position
        raise UserError(
            f"{name}:{line}: not well-formed XML at column {column + 1} ({error.msg}). Repair it."
        ) from error
    except DefusedXmlException as error:
        raise UserError(f"{name} declares entities, which could attack the reader: {error}") from (
            error
        )
    if not complete:
        raise UserError(
            f"{name} has no translation unit in {' and '.join(languages)}; it has "
            f"{', '.join(sorted(found)) or 'none at all'}."
        )


def _texts(unit: Element) -> dict[str, str]:
    """Returns the text of a unit by language code, as "en-gb"; the first where one comes twice."""
    texts: dict[str, str] = {}
    for variant in unit:
        language = variant.get(_XML_LANGUAGE) or variant.get("lang") or ""
        for part in variant:
            if _local_name(part) == "seg":
                text = one_line("".join(_pieces(part)))
                texts.setdefault(language.lower().replace("_", "-"), text)
    return texts


def _in_language(texts: dict[str, str], language: str) -> str:
    language = language.lower().replace("_", "-")
    if language in texts:
        return texts[language]
    regional = (text for code, text in texts.items() if code.startswith(f"{language}-"))
    return next(regional, "")


def _pieces(element: Element) -> Iterator[str]:
    """Yields the text in an element, without the code of inline tags."""
    yield element.text or ""
    for inline in element:
        if _local_name(inline) in _TEXT_TAGS:
            yield from _pieces(inline)
        yield inline.tail or ""


def _local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
