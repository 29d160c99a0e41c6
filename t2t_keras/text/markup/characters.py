"""Characters of markup: references such as `&amp;`, and how they are written again."""

import html
import html.entities
import re
import unicodedata
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from t2t_keras.text.files import normalized

_PARTS = re.compile(
    r"(?P<space>[ \t\n\r\f]+)"
    r"|(?P<reference>&(?:#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};|[^\W\d][\w.\-:]{0,63};))"
    r"|[^ \t\n\r\f&]+|&"
)
# A character with the accents behind it.
_COMPOSABLE = re.compile(r".[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u093c\u3099\u309a]*")
_XML = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_MARKUP = re.compile("[&<>]")
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Characters(NamedTuple):
    """Some characters of a text between tags.

    Attributes:
      raw: as they stand there.
      text: what a reader sees; " " for white space.
      is_space: whether it is white space, of which any amount is a single space.
      is_kept: whether it is a reference that is written as it stood: to an entity that is not
        known, to a space of its own kind, as `&nbsp;`, or to what is not seen, as `&shy;`.
    """

    raw: str
    text: str
    is_space: bool = False
    is_kept: bool = False


def read_characters(raw: str, is_html: bool, spelled: MutableMapping[str, str]) -> list[Characters]:
    """Takes text between tags apart; adds how characters are `spelled`, where it is otherwise."""
    found = []
    for part in _PARTS.finditer(raw):
        if part["space"]:
            found.append(Characters(part[0], " ", is_space=True))
        elif part["reference"]:
            found.append(_referred(part[0], is_html, spelled))
        else:
            found.append(Characters(part[0], _composed(part[0], spelled)))
            for sign in _MARKUP.findall(part[0]):
                spelled.setdefault(sign, sign)
    return found


def _composed(raw: str, spelled: MutableMapping[str, str]) -> str:
    """Returns text in NFC; adds how characters are `spelled` that are not in it."""
    text = normalized(raw)
    if text != raw:
        for written in _COMPOSABLE.findall(raw):
            if len(character := normalized(written)) == 1 and character != written:
                spelled.setdefault(character, written)
    return text


def _referred(raw: str, is_html: bool, spelled: MutableMapping[str, str]) -> Characters:
    if is_html and raw[1] != "#":
        text = html.entities.html5.get(raw[1:], raw)
    else:
        text = html.unescape(raw) if raw[1] == "#" else _XML.get(raw, raw)
    if text == raw:
        return Characters(raw, raw, is_kept=True)
    if all(each.isspace() or unicodedata.category(each)[0] in "CZ" for each in text):
        return Characters(raw, " " if text.isspace() else "", is_kept=True)
    if len(text) == 1:
        spelled.setdefault(text, raw)
    return Characters(raw, text)


def write_characters(text: str, spelled: Mapping[str, str]) -> str:
    """Returns text as it stands between tags; other signs are spelled as they were in the source.

    "&", "<" and ">" that stood there as such do so again where they can mean nothing else. What no
    XML may have, as a model may spell it in bytes, becomes U+FFFD.
    """
    parts = []
    for position, sign in enumerate(NOT_XML.sub("\ufffd", text)):
        raw = spelled.get(sign, sign)
        if raw == sign and sign in "&<>":
            behind = text[position + 1 : position + 2]
            bare = sign in spelled and (sign == ">" or behind in ("", " "))
            raw = sign if bare else {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[sign]
        parts.append(raw)
    return "".join(parts)
