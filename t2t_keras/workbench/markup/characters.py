"""Characters of markup: references such as `&amp;`, and how they are written again."""

import html
import html.entities
import re
import unicodedata
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from t2t_keras.text.files import normalized

# A run of these spaces means a single space; other spaces stay.
_PARTS = re.compile(r"(?P<space>[ \t\n\r\f]+)|(?P<other>\s)|(?P<reference>&)|[^\s&]+")
_XML_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\W\d][\w.\-:]{0,63});")
_HTML_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{0,63};?)")
# A character and its combining accents.
_COMPOSABLE = re.compile(
    r".[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u093c\u3099\u309a]*", re.DOTALL
)
_XML = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
# The longest name that HTML takes without a semicolon.
_LONGEST_BARE = max(len(name) for name in html.entities.html5 if not name.endswith(";"))
_DIGITS = re.compile("&#[xX]?0*")
_MARKUP = re.compile("[&<>]")
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A key of `spelled`: the text is that of a title, where tags are text.
NO_TAGS = "</title"
# What begins a tag of HTML after "<".
_TAG_NAME = re.compile("[A-Za-z/!?]")


class Characters(NamedTuple):
    """Some characters of a text between tags.

    Attributes:
      raw: as they stand there.
      text: what a reader sees; " " for white space.
      is_space: whether it is white space, any amount of which is a single space.
      is_kept: whether it is a reference that is written as it stood: to an entity that is not
        known or has several characters, to a space of its own kind, as `&nbsp;`, or to what is not
        seen, as `&shy;`; or such a space itself.
    """

    raw: str
    text: str
    is_space: bool = False
    is_kept: bool = False


def read_characters(raw: str, is_html: bool, spelled: MutableMapping[str, str]) -> list[Characters]:
    """Takes text between tags apart; adds how characters are `spelled`, where it is otherwise."""
    pieces, position = [], 0
    while part := _PARTS.match(raw, position):
        position = part.end()
        if part["space"]:
            pieces.append(Characters(part[0], " ", is_space=True))
            continue
        if part["other"]:
            pieces.append(Characters(part[0], " ", is_kept=True))
            continue
        reference = reference_at(raw, part.start(), is_html) if part["reference"] else ""
        if reference:
            position = part.start() + len(reference)
            pieces.append(_referred(reference, is_html, spelled))
        else:
            pieces += _composed(part[0], spelled)
            for sign in [*_MARKUP.findall(part[0]), *NOT_XML.findall(part[0])]:
                spelled.setdefault(sign, sign)
    return pieces


def _composed(raw: str, spelled: MutableMapping[str, str]) -> list[Characters]:
    """Returns text in NFC; adds how characters are `spelled` that are not in it."""
    text = normalized(raw)
    if text == raw:
        return [Characters(raw, raw)]
    pieces = [Characters(written, normalized(written)) for written in _COMPOSABLE.findall(raw)]
    for piece in pieces:
        if len(piece.text) == 1 and piece.text != piece.raw:
            spelled.setdefault(piece.text, piece.raw)
    return pieces if "".join(piece.text for piece in pieces) == text else [Characters(raw, text)]


def reference_at(text: str, start: int, is_html: bool) -> str:
    """Returns the reference that begins at a place, as it stands there; "" = it is text."""
    match = (_HTML_REFERENCE if is_html else _XML_REFERENCE).match(text, start)
    if not match:
        return ""
    raw = match[0]
    if raw[1] == "#" or not is_html or raw[1:] in html.entities.html5:
        return raw
    # An unknown name may begin with a known one, which needs no semicolon.
    for length in range(min(len(raw), _LONGEST_BARE + 1), 1, -1):
        if raw[1:length] in html.entities.html5:
            return raw[:length]
    return raw if raw[-1] == ";" else ""


def _character(raw: str, is_html: bool) -> str:
    """Returns the characters that a reference stands for; itself if that is unknown."""
    if raw[1] == "#":
        # Python would not read very long numbers.
        return html.unescape(raw) if len(_DIGITS.sub("", raw)) <= 8 else "\ufffd"
    return html.entities.html5.get(raw[1:], raw) if is_html else _XML.get(raw, raw)


def _referred(raw: str, is_html: bool, spelled: MutableMapping[str, str]) -> Characters:
    text = _character(raw, is_html)
    if text == raw or (raw[1] != "#" and len(text) > 1):
        return Characters(raw, raw, is_kept=True)
    if all(character.isspace() or unicodedata.category(character)[0] in "CZ" for character in text):
        return Characters(raw, " " if text and text.isspace() else "", is_kept=True)
    if len(text) == 1 and not (text.isascii() and text.isalnum()):
        spelled.setdefault(text, raw if raw[-1] == ";" else f"{raw};")
    return Characters(raw, text)


def write_characters(text: str, spelled: Mapping[str, str], after: str = "") -> str:
    """Returns text as it stands between tags; other signs are spelled as they were in the source.

    "&", "<" and ">" that stood there as such do so again where they can mean nothing else. What no
    XML may have, as a model may spell it in bytes, becomes U+FFFD, unless the source has it.

    Args:
      text: to be written.
      spelled: how characters stand in the source.
      after: what follows the text.
    """
    text = NOT_XML.sub(lambda sign: sign[0] if sign[0] in spelled else "\ufffd", text)
    if not spelled and not _MARKUP.search(text):
        return text
    whole, parts = text + after, []
    for position, sign in enumerate(text):
        raw = spelled.get(sign, sign)
        if (
            raw == sign
            and sign in "&<>"
            and not (sign in spelled and _is_bare(whole, position, spelled))
        ):
            raw = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[sign]
        parts.append(raw)
    return "".join(parts)


def _is_bare(text: str, position: int, spelled: Mapping[str, str]) -> bool:
    """Returns whether "&", "<" or ">" at a place in HTML can only be text."""
    if text[position] == "&":
        return not reference_at(text, position, True)
    if text[position] == "<" and NO_TAGS in spelled:
        return text[position + 1 : position + 7].lower() != "/title"
    if text[position] == "<":
        return not _TAG_NAME.match(text, position + 1)
    return not text.endswith("]]", 0, position)


def write_again(raw: str, after: str, is_html: bool) -> str:
    """Returns a reference of the source, with ";" if what follows now requires it."""
    if raw[:1] == "&" and raw[-1] != ";" and reference_at(raw + after, 0, is_html) != raw:
        return f"{raw};"
    return raw
