"""Which tags of a text open and close an element together, and which elements are kept as they are.

Takes time in proportion to the number of tags, however deep they are nested.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence

from t2t_keras.workbench.markup.tokens import BREAKS_OUT, CLOSE, EMPTY, OPEN, Token, malformed

# Elements of HTML that stand between pieces of running text, not in it; and of KDE's messages.
HTML_BLOCKS = frozenset(
    "address article aside blockquote body br button caption center col colgroup dd details "
    "dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 "
    "h6 head header hgroup hr html isindex item label legend li link list listing main menu "
    "menuitem meta nav noscript ol optgroup option p para plaintext pre search section select "
    "summary table tbody td template tfoot th thead title tr ul".split()
)
# Elements whose content is no text of a language.
HTML_KEPT = frozenset(
    "code kbd samp var tt pre listing plaintext script style math textarea iframe noembed noframes "
    "object xmp".split()
)
# Of XLIFF: their content is the code of another format.
XML_KEPT = frozenset({"bpt", "ept", "it", "ph"})
# Elements inside a sentence with a text of their own.
_HTML_NOTES = frozenset({"rt", "rp", "rtc", "svg"})
_XML_NOTES = frozenset("endnote fn footnote indexterm rt rp".split())
# Elements of SVG that have text.
SVG_TEXTS = frozenset({"text", "title", "desc", "foreignobject"})
# Elements for the look of words, or of a part of one.
_LOOKS = frozenset("b i em strong u s strike del ins small big font mark sub sup tt g".split())

# Elements of HTML that end where one of these begins.
_RUBY = frozenset({"rb", "rt", "rtc", "rp"})
_ENDED_BY = {
    "p": HTML_BLOCKS - {"br", "link", "meta", "body", "head", "html", "col"},
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "td": {"td", "th", "tr", "tbody", "tfoot"},
    "th": {"td", "th", "tr", "tbody", "tfoot"},
    "tr": {"tr", "tbody", "tfoot"},
    "option": {"option", "optgroup"},
    "svg": BREAKS_OUT - {"foreignobject"},
    **dict.fromkeys(("pre", "listing", "plaintext"), frozenset()),
    **dict.fromkeys(_RUBY, _RUBY),
}
_NOT_TRANSLATED = re.compile(
    r"""\s(?:its:)?translate\s*=\s*(?:"no"|'no'|no(?=[\s/>]))"""
    r"""|\sclass\s*=\s*(?:"(?:[^"]*\s)?notranslate[\s"]|'(?:[^']*\s)?notranslate[\s'])""",
    re.IGNORECASE,
)
# Empty elements that end a line or stand for white space, by name or as XLIFF says it.
_BREAK = re.compile(
    r"""<(?:(?:br|cr|lb|tab)[\s/>]"""
    r"""|[^!?<>][^<>]*?\s(?:ctype|type|subType)\s*=\s*["'](?:xlf:)?(?:lb|pb)["'])"""
)
_IS_NOTE = re.compile(r"""\sctype\s*=\s*["']x-note["']""")
# As PO files have their lines kept.
_KEPT_LINES = re.compile(r"""\sclass\s*=\s*["']t2t-lines["']""")
_PRESERVED = re.compile(r"""\sxml:space\s*=\s*["']preserve["']""")


def match_html(
    tokens: Sequence[Token], to_end: bool = False
) -> tuple[list[int | None], list[int | None]]:
    """Returns, for each token, that of the other tag of its element, and where the element ends.

    That is the number of the token after it, None for what is not an opening tag. A tag that is
    not closed, or closes nothing, has no other one; what the standard ends without a tag ends;
    at the end of all tokens only if they are read `to_end`, as a whole page.
    """
    partners: list[int | None] = [None] * len(tokens)
    ends: list[int | None] = [None] * len(tokens)
    opened: list[int] = []
    names: Counter = Counter()

    def ended(at: int) -> int:
        number = opened.pop()
        names[tokens[number].name] -= 1
        if tokens[number].name in _ENDED_BY:
            ends[number] = at
        return number

    for number, token in enumerate(tokens):
        if token.kind == OPEN or (token.kind == EMPTY and token.name == "hr"):
            while opened and token.name in _ENDED_BY.get(tokens[opened[-1]].name, ()):
                ended(number)
        if token.kind == OPEN:
            opened.append(number)
            names[token.name] += 1
        elif token.kind == CLOSE and names[token.name]:
            while tokens[opened[-1]].name != token.name:
                ended(number)
            partner = ended(number)
            partners[number], partners[partner], ends[partner] = partner, number, number + 1
    while opened and to_end:
        ended(len(tokens))
    return partners, ends


def match_xml(tokens: Sequence[Token], text: str) -> tuple[list[int | None], list[int | None]]:
    """Returns what `match_html` does; a `UserError` where tags do not match."""
    partners: list[int | None] = [None] * len(tokens)
    ends: list[int | None] = [None] * len(tokens)
    opened: list[int] = []
    position, places, begun = 0, [], False
    for number, token in enumerate(tokens):
        places.append(position)
        position += len(token.raw)
        if token.name == "!DOCTYPE" and begun:
            raise malformed(text, places[number], "<!DOCTYPE after the first tag, or twice")
        begun = begun or token.kind in (OPEN, EMPTY) or token.name == "!DOCTYPE"
        if token.kind == OPEN:
            opened.append(number)
        elif token.kind == CLOSE:
            if not opened or tokens[opened[-1]].name != token.name:
                expected = f"</{tokens[opened[-1]].name}>" if opened else "none"
                raise malformed(text, places[number], f"expected {expected} as the closing tag")
            partner = opened.pop()
            partners[number], partners[partner], ends[partner] = partner, number, number + 1
    if opened:
        raise malformed(text, places[opened[-1]], f"<{tokens[opened[-1]].name}> is not closed")
    return partners, ends


def is_kept(token: Token, names: Collection[str]) -> bool:
    """Returns whether the content of an element stays as it is; `names` are such elements."""
    if token.name in names and not _KEPT_LINES.search(token.raw):
        return True
    return bool(_NOT_TRANSLATED.search(token.raw))


def is_note(token: Token, is_html: bool) -> bool:
    """Returns whether an element's content is a text apart from the sentence around it."""
    if is_html:
        return token.name in _HTML_NOTES
    return token.name.rpartition(":")[2] in _XML_NOTES or bool(_IS_NOTE.search(token.raw))


def is_for_looks(token: Token) -> bool:
    """Returns whether an element may enclose part of a word."""
    return token.name in _LOOKS


def parts_words(raw: str) -> bool:
    """Returns whether the tag of an empty element stands for the end of a line, or a tab."""
    return bool(_BREAK.match(raw))


def preserves_space(token: Token, is_html: bool) -> bool:
    """Returns whether the white space in an element matters."""
    return token.name == "pre" if is_html else bool(_PRESERVED.search(token.raw))
