"""The tokens of web pages: tags, text, and all else, in linear time whatever the page holds."""

import re
from collections.abc import Iterator
from typing import NamedTuple

VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr".split()
)
# Their text ends at their own end tag only; that of the first is no text of the page.
_SILENT = frozenset("script style template xmp iframe noembed noframes".split())
_RAW = _SILENT | {"title", "textarea"}
# Atomic groups and possessive repeats never look back, so that no input takes quadratic time.
_TOKEN = re.compile(
    r"""(?P<comment><!--(?:>|->|(?>.*?(?:-->|\Z))))
    |(?P<other><[!?/](?![a-zA-Z])[^>]*+>?|<![a-zA-Z][^>]*+>?)
    |<(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)
        (?P<attributes>(?>[^>"']++|"[^"]*+"|'[^']*+')*+)
        (?P<end>>?)
    |(?P<text>(?>[^<]++|<(?![a-zA-Z/!?]))++|<)""",
    re.VERBOSE | re.DOTALL,
)
_PROTECTED = re.compile(
    r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b"""
    r"""|notranslate\b)""",
    re.IGNORECASE,
)


class Token(NamedTuple):
    """A token and its place.

    Attributes:
      kind: "start", "end", "empty" (a tag that has no end), "text", "silent" (text that nobody
        sees) or "other" (comments, declarations).
      name: of a tag, in small letters.
      start: where it begins.
      end: where the next begins.
      is_protected: whether the tag says that its element is not to be translated.
    """

    kind: str
    name: str
    start: int
    end: int
    is_protected: bool = False


def tokens_of(text: str) -> Iterator[Token]:
    """Yields the tokens of a page, which together are all of it."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        position = match.end()
        if name := (match["name"] or "").lower():
            if not match["end"]:
                # A tag that never ends takes all that follows, as browsers have it.
                yield Token("other", "", match.start(), len(text))
                return
            attributes = match["attributes"]
            is_empty = name in VOID or attributes.endswith("/")
            kind = "end" if match["slash"] else "empty" if is_empty else "start"
            is_protected = bool(_PROTECTED.search(attributes))
            yield Token(kind, name, match.start(), position, is_protected)
            if kind == "start" and name in _RAW:
                end = re.compile(rf"</{name}(?=[\s/>])|\Z", re.IGNORECASE).search(text, position)
                if end.start() > position:
                    inner = "silent" if name in _SILENT else "text"
                    yield Token(inner, "", position, end.start())
                position = end.start()
        elif match["text"]:
            yield Token("text", "", match.start(), position)
        else:
            yield Token("other", "", match.start(), position)
