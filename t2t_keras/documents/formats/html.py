"""Web pages: a unit for the text between two tags of blocks, with the inline tags in it."""

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape, unescape
from pathlib import Path

from t2t_keras.documents.document import Unit
from t2t_keras.documents.formats.html_tokens import Token, tokens_of
from t2t_keras.documents.segments import has_letters, unwrapped
from t2t_keras.documents.spans import SpanDocument, decoded

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label "
    "mark math nobr output q rb rp rt ruby s samp small span strike strong sub sup svg time tt u "
    "var wbr".split()
)
# What is in these is not to be translated.
_CODE = frozenset("code kbd math samp svg var".split())
_KEEPS_LINES = ("listing", "pre", "textarea")
_SPACES = " \t\r\n\f"


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each text between tags of blocks."""
    found = _CHARSET.search(content[:4096])
    charset = found[1].decode() if found else "utf-8"
    try:
        "".encode(charset)
    except LookupError:
        charset = "utf-8"
    text = decoded(path, content, charset)
    document = SpanDocument(path, languages, text, "xmlcharrefreplace")
    add_pages(document, 0, len(text.text))
    return document


def add_pages(document: SpanDocument, first: int, last: int) -> None:
    """Adds the units of HTML from a place to another in a document."""
    text = document.read.text[first:last]
    for start, end, keeps_lines in units_of(text):
        raw = text[start:end]
        written: Callable[[str], str] = str
        if "<" in raw or "&" in raw:
            unit = Unit(raw, format="html")
        elif keeps_lines:
            unit, written = Unit(raw), _escaped
        else:
            line, lay_out = unwrapped(raw)
            unit, written = Unit(line), _escaped_as(lay_out)
        document.add(first + start, first + end, unit, written)


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _escaped_as(lay_out: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: lay_out(_escaped(text))


def units_of(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yields where the units begin and end, and whether ends of lines in them are no spaces."""
    run: list[Token] = []  # tokens since the last tag of a block
    visible = 0  # How many of them are text to translate.
    open_elements: list[tuple[str, bool]] = []
    counts: collections.Counter[str] = collections.Counter()
    protected = 0  # How many of the open elements are.

    def keeps_lines() -> bool:
        return any(counts[name] for name in _KEEPS_LINES)

    for token in tokens_of(text):
        is_text = token.kind == "text" and not protected
        if token.name and token.name not in _INLINE:
            if visible:
                yield *_trimmed(run, text), keeps_lines()
            run, visible = [], 0
        else:
            run.append(token)
            visible += is_text and has_letters(unescape(text[token.start : token.end]))
        if token.kind == "start":
            is_protected = token.is_protected or token.name in _CODE
            open_elements.append((token.name, is_protected))
            counts[token.name] += 1
            protected += is_protected
        elif token.kind == "end" and counts[token.name]:
            name = ""
            while name != token.name:
                name, was_protected = open_elements.pop()
                counts[name] -= 1
                protected -= was_protected
    if visible:
        yield *_trimmed(run, text), keeps_lines()


def _trimmed(run: Sequence[Token], text: str) -> tuple[int, int]:
    """Returns where a run of tokens begins and ends without what is only around the text."""
    matches = _matches(run)
    first, last = 0, len(run) - 1
    while True:
        if not _is_text(run[first], text) and matches.get(first, first) in (first, last):
            last -= matches.get(first, first) == last
            first += 1
        elif not _is_text(run[last], text) and last not in matches:
            last -= 1
        else:
            break
    start, end = run[first].start, run[last].end
    found = text[start:end]
    lead = len(found) - len(found.lstrip(_SPACES)) if run[first].kind == "text" else 0
    trail = len(found) - len(found.rstrip(_SPACES)) if run[last].kind == "text" else 0
    return start + lead, end - trail


def _is_text(token: Token, text: str) -> bool:
    return token.kind == "text" and not text[token.start : token.end].isspace()


def _matches(run: Sequence[Token]) -> dict[int, int]:
    """Returns the number of the end tag by that of its start tag, and the other way round."""
    stack: list[int] = []
    counts: collections.Counter[str] = collections.Counter()
    found = {}
    for number, token in enumerate(run):
        if token.kind == "start":
            stack.append(number)
            counts[token.name] += 1
        elif token.kind == "end" and counts[token.name]:
            while run[top := stack.pop()].name != token.name:
                counts[run[top].name] -= 1
            counts[token.name] -= 1
            found[top], found[number] = number, top
    return found
