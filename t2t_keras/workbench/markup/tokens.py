"""Divides HTML and XML into tokens, reads the characters of their text, and matches their tags.

No declared entity is expanded, and nothing is fetched. The tokens, joined, are the original text.
Reading and matching take time linear in the text, however deeply elements are nested.
"""

import html
import html.entities
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple
from xml.parsers import expat

from t2t_keras.errors import UserError
from t2t_keras.text.files import normalized

# A run of `space` counts as one space; `other` spaces stay as they are.
_PARTS = re.compile(r"(?P<space>[ \t\n\r\f]+)|(?P<other>\s)|(?P<reference>&)|[^\s&]+")
_XML_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\W\d][\w.\-:]{0,63});")
_HTML_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{0,63};?)")
# A character and its combining accents.
_COMPOSABLE = re.compile(
    r".[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u093c\u3099\u309a]*", re.DOTALL
)
_XML_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
# Length of the longest entity name that HTML accepts without a semicolon.
_MAX_BARE_NAME_LENGTH = max(len(name) for name in html.entities.html5 if not name.endswith(";"))
_NUMBER_PREFIX = re.compile("&#[xX]?0*")
_SPECIAL_SIGN = re.compile("[&<>]")
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A key of `spellings` that marks the text of a title, where tags are text.
NO_TAGS = "</title"
# In HTML, "<" begins a tag or a comment only before these characters.
_TAG_START = re.compile("[A-Za-z/!?]")
# Kinds of tokens.
OPEN, CLOSE, EMPTY, TEXT, OTHER = "open", "close", "empty", "text", "other"
# The token name of a tag that does not end.
UNFINISHED = "<"
# Elements of HTML without content.
_VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr".split()
)
# Elements whose content is not searched for tags; only the content of `title` is translated.
_RAW_ELEMENTS = frozenset("script style textarea title iframe noembed noframes xmp".split())
# Elements whose content is never searched for tags, not even in SVG and MathML.
_RAW_ANYWHERE = frozenset({"script", "style"})
# Elements with their own parsing rules, and elements of HTML that end these elements.
_FOREIGN = frozenset({"svg", "math"})
_BREAKOUT_ELEMENTS = frozenset(
    "b big blockquote body br center code dd div dl dt em embed foreignobject h1 h2 h3 h4 h5 h6 "
    "head hr i img li listing menu meta nobr ol p pre ruby s small span strong strike sub sup "
    "table tt u ul var".split()
)
# The tokens of well-formed XML.
_XML_TOKEN = re.compile(
    r"""<(?P<comment>!--).*?--> | <(?P<cdata>!\[CDATA\[).*?\]\]> | <(?P<instruction>\?).*?\?>
    | <(?P<doctype>!DOCTYPE)(?:
        [^\[\]<>"'] | "[^"]*" | '[^']*'
        | \[(?: <!--.*?--> | <\?.*?\?> | "[^"]*" | '[^']*' | [^\]<"'] | <(?!!--|\?))*+ \]
      )*+>
    | </(?P<close>[^\s/<>]+)\s*>
    | <(?P<open>[^\s/<>!?]+)[^<>"']*+(?: (?:"[^"]*"|'[^']*') [^<>"']*+)*+>
    | [^<]+ | <""",
    re.DOTALL | re.VERBOSE,
)
_HTML_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_QUOTE_OR_END = re.compile("[\"'>]")
# Elements of HTML, and of KDE's messages, that divide running text.
HTML_BLOCKS = frozenset(
    "address article aside blockquote body br button caption center col colgroup dd details "
    "dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 "
    "h6 head header hgroup hr html isindex item label legend li link list listing main menu "
    "menuitem meta nav noscript ol optgroup option p para plaintext pre search section select "
    "summary table tbody td template tfoot th thead title tr ul".split()
)
# Elements whose content is not in a natural language.
HTML_KEPT = frozenset(
    "code kbd samp var tt pre listing plaintext script style math textarea iframe noembed noframes "
    "object xmp".split()
)
# Elements of XLIFF that contain native codes of another format.
XML_KEPT = frozenset({"bpt", "ept", "it", "ph"})
# Elements inside a sentence that have a separate text.
_HTML_NOTES = frozenset({"rt", "rp", "rtc", "svg"})
_XML_NOTES = frozenset("endnote fn footnote indexterm rt rp".split())
# Elements of SVG that contain text.
SVG_TEXTS = frozenset({"text", "title", "desc", "foreignobject"})
# Elements that only change the look of words or parts of words.
_FORMATTING = frozenset("b i em strong u s strike del ins small big font mark sub sup tt g".split())
_RUBY = frozenset({"rb", "rt", "rtc", "rp"})
# For an element of HTML, the elements that end it when they begin.
_ENDED_BY = {
    "p": HTML_BLOCKS - {"br", "link", "meta", "body", "head", "html", "col"},
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "td": {"td", "th", "tr", "tbody", "tfoot"},
    "th": {"td", "th", "tr", "tbody", "tfoot"},
    "tr": {"tr", "tbody", "tfoot"},
    "option": {"option", "optgroup"},
    "svg": _BREAKOUT_ELEMENTS - {"foreignobject"},
    **dict.fromkeys(("pre", "listing", "plaintext"), frozenset()),
    **dict.fromkeys(_RUBY, _RUBY),
}
_NOT_TRANSLATED = re.compile(
    r"""\s(?:its:)?translate\s*=\s*(?:"no"|'no'|no(?=[\s/>]))"""
    r"""|\sclass\s*=\s*(?:"(?:[^"]*\s)?notranslate[\s"]|'(?:[^']*\s)?notranslate[\s'])""",
    re.IGNORECASE,
)
# Empty elements that are line ends or white space, by name or by XLIFF's attributes.
_BREAK = re.compile(
    r"""<(?:(?:br|cr|lb|tab)[\s/>]"""
    r"""|[^!?<>][^<>]*?\s(?:ctype|type|subType)\s*=\s*["'](?:xlf:)?(?:lb|pb)["'])"""
)
_NOTE_TYPE = re.compile(r"""\sctype\s*=\s*["']x-note["']""")
# Marks messages whose line ends are kept.
_KEPT_LINES_CLASS = re.compile(r"""\sclass\s*=\s*["']t2t-lines["']""")
_PRESERVED_SPACE = re.compile(r"""\sxml:space\s*=\s*["']preserve["']""")
_Spellings = MutableMapping[str, str]


class Characters(NamedTuple):
    """Characters of a text between tags.

    Attributes:
      raw: as written in the markup.
      text: the visible characters; " " for white space.
      is_space: whether it is white space, which counts as one space.
      is_kept: whether it is written back unchanged. It is a special space, or a reference to a
        special space (`&nbsp;`), to an invisible character (`&shy;`), to an unknown entity or to
        an entity of several characters.
    """

    raw: str
    text: str
    is_space: bool = False
    is_kept: bool = False


def read_characters(raw: str, is_html: bool, spellings: _Spellings) -> list[Characters]:
    """Divides text between tags into characters; adds unusual spellings to `spellings`."""
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
            pieces.append(_read_reference(reference, is_html, spellings))
        else:
            pieces += _compose(part[0], spellings)
            for sign in [*_SPECIAL_SIGN.findall(part[0]), *NOT_XML.findall(part[0])]:
                spellings.setdefault(sign, sign)
    return pieces


def _compose(raw: str, spellings: _Spellings) -> list[Characters]:
    """Converts text to NFC; adds the characters that were not in NFC to `spellings`."""
    text = normalized(raw)
    if text == raw:
        return [Characters(raw, raw)]
    pieces = [Characters(letter, normalized(letter)) for letter in _COMPOSABLE.findall(raw)]
    for piece in pieces:
        if len(piece.text) == 1 and piece.text != piece.raw:
            spellings.setdefault(piece.text, piece.raw)
    return pieces if "".join(piece.text for piece in pieces) == text else [Characters(raw, text)]


def reference_at(text: str, start: int, is_html: bool) -> str:
    """Returns the reference that begins at a place, as written; "" = none begins there."""
    match = (_HTML_REFERENCE if is_html else _XML_REFERENCE).match(text, start)
    if not match:
        return ""
    raw = match[0]
    if raw[1] == "#" or not is_html or raw[1:] in html.entities.html5:
        return raw
    # "&copycat" is unknown, but begins with "&copy", which needs no semicolon.
    for length in range(min(len(raw), _MAX_BARE_NAME_LENGTH + 1), 1, -1):
        if raw[1:length] in html.entities.html5:
            return raw[:length]
    return raw if raw[-1] == ";" else ""


def _referenced_text(raw: str, is_html: bool) -> str:
    """Returns the characters that a reference stands for; an unknown reference is unchanged."""
    if raw[1] == "#":
        # Python refuses to read very long numbers.
        return html.unescape(raw) if len(_NUMBER_PREFIX.sub("", raw)) <= 8 else "\ufffd"
    return html.entities.html5.get(raw[1:], raw) if is_html else _XML_ENTITIES.get(raw, raw)


def _read_reference(raw: str, is_html: bool, spellings: _Spellings) -> Characters:
    text = _referenced_text(raw, is_html)
    if text == raw or (raw[1] != "#" and len(text) > 1):
        return Characters(raw, raw, is_kept=True)
    if all(character.isspace() or unicodedata.category(character)[0] in "CZ" for character in text):
        return Characters(raw, " " if text and text.isspace() else "", is_kept=True)
    if len(text) == 1 and not (text.isascii() and text.isalnum()):
        spellings.setdefault(text, raw if raw[-1] == ";" else f"{raw};")
    return Characters(raw, text)


def write_characters(text: str, spellings: Mapping[str, str], after: str = "") -> str:
    """Writes text as markup, with its special characters spelled as in the source.

    "&", "<" and ">" stay bare if they are bare in the source and cannot be read as markup.
    Characters that XML forbids become U+FFFD, unless the source has them.

    Args:
      text: the text, with any characters, because a model may have spelled it in bytes.
      spellings: spellings in the source, by character.
      after: the markup that follows the text.
    """
    text = NOT_XML.sub(lambda sign: sign[0] if sign[0] in spellings else "\ufffd", text)
    if not spellings and not _SPECIAL_SIGN.search(text):
        return text
    text_and_after, parts = text + after, []
    for position, sign in enumerate(text):
        raw = spellings.get(sign, sign)
        if (
            raw == sign
            and sign in "&<>"
            and not (sign in spellings and _is_bare(text_and_after, position, spellings))
        ):
            raw = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[sign]
        parts.append(raw)
    return "".join(parts)


def _is_bare(text: str, position: int, spellings: Mapping[str, str]) -> bool:
    """Returns whether "&", "<" or ">" at a place in HTML can only be text."""
    if text[position] == "&":
        return not reference_at(text, position, True)
    if text[position] == "<" and NO_TAGS in spellings:
        return text[position + 1 : position + 7].lower() != "/title"
    if text[position] == "<":
        return not _TAG_START.match(text, position + 1)
    return not text.endswith("]]", 0, position)


def terminate_reference(raw: str, after: str, is_html: bool) -> str:
    """Adds ";" to a reference that would otherwise merge with the markup after it."""
    if raw[:1] == "&" and raw[-1] != ";" and reference_at(raw + after, 0, is_html) != raw:
        return f"{raw};"
    return raw


class MarkupToken(NamedTuple):
    """A piece of markup.

    Attributes:
      kind: OPEN, CLOSE or EMPTY for a tag; TEXT; or OTHER, such as a comment or a script's content.
      raw: as written in the markup.
      name: the element's name, in lower case in HTML; for OTHER, mostly its first characters.
    """

    kind: str
    raw: str
    name: str = ""


def html_tokens(text: str) -> Iterator[MarkupToken]:
    """Yields the tokens of HTML, as the HTML standard defines them.

    "<" before a space is text, for example. An unfinished tag is OTHER.
    """
    text_start = position = 0  # There is text from `text_start` to `position`.
    foreign_depth = 0  # Number of open elements of `_FOREIGN`.
    while (position := text.find("<", position)) >= 0:
        token = _html_token(text, position, foreign_depth > 0)
        if token is None:
            position += 1
            continue
        if text_start < position:
            yield MarkupToken(TEXT, text[text_start:position])
        yield token
        text_start = position = position + len(token.raw)
        if token.name in _FOREIGN:
            foreign_depth = max(foreign_depth + (token.kind == OPEN) - (token.kind == CLOSE), 0)
        elif token.kind in (OPEN, EMPTY) and token.name in _BREAKOUT_ELEMENTS:
            foreign_depth = 0
        if token.kind == OPEN and token.name in (_RAW_ANYWHERE if foreign_depth else _RAW_ELEMENTS):
            end = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(text, text_start)
            position = end.start() if end else len(text)
            if text_start < position:
                kind = TEXT if token.name == "title" else OTHER
                yield MarkupToken(kind, text[text_start:position], token.name)
            text_start = position
    if text_start < len(text):
        yield MarkupToken(TEXT, text[text_start:])


def _html_token(text: str, start: int, is_foreign: bool) -> MarkupToken | None:
    """Returns the token that begins with "<" at `start`; None = the "<" is text."""
    name = _HTML_NAME.match(text, start)
    if name:
        end = _tag_end(text, name.end())
        if not end:
            return MarkupToken(OTHER, text[start:], UNFINISHED)
        kind = CLOSE if text[start + 1] == "/" else EMPTY if name[1].lower() in _VOID else OPEN
        if kind == OPEN and text[end - 2] == "/" and (is_foreign or name[1].lower() in _FOREIGN):
            kind = EMPTY
        return MarkupToken(kind, text[start:end], name[1].lower())
    if text.startswith("<!--", start):
        comment_end = re.compile("-->|--!>").search(text, start + 2)
        return MarkupToken(
            OTHER, text[start : comment_end.end() if comment_end else len(text)], "!--"
        )
    if is_foreign and text.startswith("<![CDATA[", start):
        end = text.find("]]>", start) + 3
        return MarkupToken(OTHER, text[start : end if end > 2 else len(text)], "![CDATA[")
    if text[start + 1 : start + 2] in ("!", "?", "/"):
        end = text.find(">", start) + 1
        return MarkupToken(OTHER, text[start : end or len(text)], text[start + 1])
    return None


def _tag_end(text: str, position: int) -> int:
    """Returns the end of a tag; 0 = it has no end. A ">" in a quoted value does not end it."""
    while sign := _QUOTE_OR_END.search(text, position):
        position = sign.end()
        if sign[0] == ">":
            return position
        # A quotation mark begins a value only after "="; otherwise it is part of a name.
        if text[max(position - 100, 0) : position - 1].rstrip().endswith("="):
            position = text.find(sign[0], position) + 1
            if not position:
                return 0
    return 0


def xml_tokens(text: str) -> Iterator[MarkupToken]:
    """Yields the tokens of XML that `check_xml` accepts."""
    for match in _XML_TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "close":
            yield MarkupToken(CLOSE, match[0], match[kind])
        elif kind == "open":
            yield MarkupToken(EMPTY if match[0].endswith("/>") else OPEN, match[0], match[kind])
        elif kind:
            yield MarkupToken(OTHER, match[0], match[kind])
        else:
            yield MarkupToken(TEXT, match[0])


def check_xml(text: str) -> None:
    """Raises `UserError` if a document, or the content of an element, is malformed XML.

    Nothing is fetched. Entities need not be declared, and are not expanded.
    """
    if forbidden := NOT_XML.search(text):
        line = text.count("\n", 0, forbidden.start()) + 1
        raise _xml_error(line, f"the character {forbidden[0]!a} is not allowed")
    # Put an element around everything after the declaration and the document type.
    start = position = 0
    for token in xml_tokens(text):
        if token.kind != OTHER and token.raw.strip():
            break
        position += len(token.raw)
        if token.name == "!DOCTYPE" or token.raw.startswith("<?xml"):
            start = position
    data = f"{text[:start]}<t>{text[start:]}".encode()
    parser = expat.ParserCreate("utf-8")
    parser.UseForeignDTD(True)
    parser.ExternalEntityRefHandler = lambda *names: 1
    parser.DefaultHandler = lambda data: None
    try:
        parser.Parse(data, False)
        parser.Parse("</t>", True)
    except expat.ExpatError as error:
        place = parser.ErrorByteIndex
        excerpt = data[max(place - 10, 0) : place + 30].decode("utf-8", "ignore")
        reason = f"{expat.ErrorString(error.code)} near {excerpt!a}"
        raise _xml_error(error.lineno, reason) from error


def _xml_error(line: int, reason: str) -> UserError:
    return UserError(f"Malformed XML in line {line}: {reason}. Repair it.", code="malformed_xml")


def match_html(
    tokens: Sequence[MarkupToken],
    to_end: bool = False,
    ended_by: Mapping[str, Collection[str]] = _ENDED_BY,
) -> tuple[list[int | None], list[int]]:
    """Returns, for each token, the number of its matching tag, and the end of its element.

    A token without a matching tag has None. The end is the number of the token after the element;
    tokens without an end, such as text, have 0.

    Args:
      tokens: the tokens of a text.
      to_end: whether unclosed elements end after the last token, as on a whole page.
      ended_by: by element, the elements that end it when they begin.
    """
    partners: list[int | None] = [None] * len(tokens)
    ends = [0] * len(tokens)
    open_tags: list[int] = []
    open_counts: Counter = Counter()

    def close_innermost(end: int) -> int:
        number = open_tags.pop()
        open_counts[tokens[number].name] -= 1
        if tokens[number].name in ended_by:
            ends[number] = end
        return number

    for number, token in enumerate(tokens):
        if token.kind == OPEN or (token.kind == EMPTY and token.name == "hr"):
            while open_tags and token.name in ended_by.get(tokens[open_tags[-1]].name, ()):
                close_innermost(number)
        if token.kind == OPEN:
            open_tags.append(number)
            open_counts[token.name] += 1
        elif token.kind == CLOSE and open_counts[token.name]:
            while tokens[open_tags[-1]].name != token.name:
                close_innermost(number)
            partner = close_innermost(number)
            partners[number], partners[partner], ends[partner] = partner, number, number + 1
    while open_tags and to_end:
        close_innermost(len(tokens))
    return partners, ends


def is_kept(token: MarkupToken, names: Collection[str]) -> bool:
    """Returns whether an element is left untranslated, by its attributes or as one of `names`."""
    if token.name in names and not _KEPT_LINES_CLASS.search(token.raw):
        return True
    return bool(_NOT_TRANSLATED.search(token.raw))


def is_note(token: MarkupToken, is_html: bool) -> bool:
    """Returns whether an element's content is a separate text, not part of its sentence."""
    if is_html:
        return token.name in _HTML_NOTES
    return token.name.rpartition(":")[2] in _XML_NOTES or bool(_NOTE_TYPE.search(token.raw))


def is_formatting(token: MarkupToken) -> bool:
    """Returns whether an element may enclose part of a word."""
    return token.name in _FORMATTING


def is_break_tag(raw: str) -> bool:
    """Returns whether an empty element's tag stands for a line end or a tab."""
    return bool(_BREAK.match(raw))


def preserves_space(token: MarkupToken, is_html: bool) -> bool:
    """Returns whether the white space in an element matters."""
    return token.name == "pre" if is_html else bool(_PRESERVED_SPACE.search(token.raw))
