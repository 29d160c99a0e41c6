"""Finds the placeholders of a text, and compares them with those of its translation.

A special character before a name or a bracket begins a placeholder even in an unknown syntax. A
placeholder extends as far as possible: "%title" is not "%t", and "{count, number}" is one piece.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from t2t_keras.text.files import has_letters, replace_spans
from t2t_keras.text.sentences import KATAKANA, UNSPACED_SCRIPTS

# Characters for placeholders in the model's input, see `symbols`. They come from Unicode's last
# private plane, because fonts and markup use the first private range.
SYMBOLS = tuple(chr(0x10FF00 + number) for number in range(16))

# No currencies: the translation of "$5" may be "5 dollars".
_UNITS = (
    "‰|°[CF]?|[kKMGTP]?i?B(?:/s)?|[kKMG]?bit/s|[kKMG]bit|[kM]?bps|px|pt|em|dpi|ppi|fps|[kMGT]?Hz|"
    "[nµm]?s|min|h|[nµmck]?m[²³]?|[µmk]?g|[mk]?[VA]|[mkMGT]?Wh?|m?Ah|dB"
)
SPACE = r"[ \u00a0\u2009\u202f]"
# "1 000 000,5", but not "in 2019 300". Bounded, because a match may begin at any place.
_GROUPED = rf"(?<![\w.,:/\-])\d{{1,3}}(?:(?:{SPACE}|['\u2019])\d{{3}}(?!\d)){{1,5}}+(?:[.,]\d+)?"
# Tags; other words in angle brackets, such as <file>, are translated.
_TAGS = (
    "a|b|big|body|br|code|div|em|font|h[1-6]|head|hr|html|i|iframe|img|input|li|nobr|ol|p|pre|qt|s|"
    "script|small|span|strong|style|su[bp]|svg|t[dhrt]|table|tbody|textarea|thead|u|ul"
)
_ATTRIBUTE = r"(?:\s++[\w.:\-]++\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'))"
_FLAGS = r"[#0\-+'I]*+"
_LENGTH = "(?:hh|h|ll|l|q|j|z|t|L)?"
_CONVERSION = "[diouxXeEfFgGaAcsCSpnmr@]"
_NUMBER = rf"(?:{_GROUPED}|(?<![\w.,])\d[\d.,]*+(?<![.,]))"
# The sign in "5 %", but not in "5 %(n)s", "5 %.2f" and "5 %{name}".
_PERCENT = r"%(?![\w%({<\[@]|[#\-+.*\d]+[diouxXeEfFgGcsp](?![A-Za-z]))"
_NO_NAME = "(?!_*[A-Za-z0-9])"
# A conversion with a number, a width or a precision is not a name. Letters after any other one make
# it a name, except units ("%ds", "%dMB", "%dth", "%dx%d") and capitalised words ("%sWarning").
_BEFORE_WORD = f"[a-z](?<={_CONVERSION})(?=[A-Z])"
_BEFORE_UNIT = f"[diusfgx](?=(?:{_UNITS}|st|nd|rd|th|s|x|p|k|M){_NO_NAME})"
_PRINTF = (
    rf"%(?:\d+\$){_FLAGS}(?:\d+|\*(?:\d+\$)?)?(?:\.(?:\d+|\*(?:\d+\$)?)?)?{_LENGTH}{_CONVERSION}",
    rf"%{_FLAGS}(?:(?:\d+|\*(?:\d+\$)?)(?:\.(?:\d+|\*)?)?|\.(?:\d+|\*)?){_LENGTH}{_CONVERSION}",
    rf"%{_FLAGS}{_LENGTH}(?:@|{_CONVERSION}{_NO_NAME}|{_BEFORE_WORD}|{_BEFORE_UNIT})",
)


def _nested_brackets(opening: str, closing: str, depth: int) -> str:
    """Returns a pattern for brackets and their content, with inner brackets up to a depth."""
    inside = f"[^{opening}{closing}]"
    pattern = f"{opening}{inside}*+{closing}"
    for _ in range(depth):
        pattern = f"{opening}(?:{inside}++|{pattern})*+{closing}"
    return pattern


_BRACES = _nested_brackets(r"\{", r"\}", 4)
ADDRESSES = (
    r"\b[A-Za-z][A-Za-z0-9+.\-]{1,15}://(?=[^\w\s<>]{0,4}+[^\W_])[^\s<>\"“”«»]+",
    r"\bwww\.(?=[^\W_])[^\s<>\"“”«»]+",
    r"\b[A-Za-z]:\\[^\s<>\"“”«»|*?]+",
)
# Patterns of placeholders, tried at each place in this order.
KINDS = (
    r"\b[\w.+\-]{1,64}@\w[\w\-]*(?:\.\w[\w\-]*)+",
    r"&(?:[A-Za-z][A-Za-z0-9.\-]{1,63}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});",
    rf"{_NUMBER}{SPACE}?(?:(?:{_UNITS})(?![\w%])|{_PERCENT}|%(?=ige))",
    # Python's %(name)s, Ruby's %{name} and %<name>.2f, gettext's %<PRIu64>, Go's %[1]d.
    rf"%\([^()\s]+\)(?:{_FLAGS}(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]*[diouxXeEfFgGcrsa])?",
    rf"%<[^<>\s]+>(?:{_FLAGS}\d*(?:\.\d+)?[diouxXeEfFgGcs]{_NO_NAME})?",
    rf"%{_FLAGS}\[\w+\](?:\d+|\.\d+)*[A-Za-z]?",
    r"%#?@\w+@",  # Apple's plurals
    r"%\d{1,2}![^!\s]{1,20}!",  # Windows' messages
    # Windows' variables, also several in a row; "%lu%" is a conversion.
    rf"(?:%(?!{_LENGTH}[diouxX]%|.%)[A-Za-z_][\w.\-]*+(?:\(\w+\))?%)++(?![\w%])(?:\\[\w.\-\\]*[\w\\])?",
    r"(?<=[A-Za-z0-9])%[2-7][0-9A-Fa-f](?=[A-Za-z])",  # as in an address
    *_PRINTF,
    r"%L?(?:\d{1,2}|n)",  # Qt, KDE
    "%%",
    # The remaining conversions of strftime and Go, and all names.
    r"%[+#~\-]?[A-Za-z_][A-Za-z0-9_]*+(?:[.:][A-Za-z_]\w*+)*+",
    # ${x}, %{x}, #{x}, @{x}, {x}.
    rf"[$%#@]?{_BRACES}",
    # Variables and their parts, as $user->name, $env:HOME, $t(key) and $NAME$.
    r"\$\([^()\n]+\)|\$[A-Za-z_]\w*+(?:(?:->|\.|:)[A-Za-z_]\w*+|\[[^\[\]\n]*+\]|\([^()\n]*+\))*+\$?",
    # Swift's \(name); names after a backslash that does not follow a word ("\alpha", but not
    # "one\ntwo"); and escapes.
    r"\\\([^()\n]*+\)",
    rf"(?<![^\s(\[{{$])\\[a-z]{{2,}}+(?:{_BRACES})*+",
    r"\\(?:[nrt\\${}%&#_]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[A-Za-z0-9](?![A-Za-z0-9_]))",
    r"\\[A-Za-z]\w*+",
    r"<%(?:[^<>%\n]++|%(?!>))*+%>",
    rf"</?(?:{_TAGS}|\d++){_ATTRIBUTE}*+\s*+/?>",
    rf"</?[A-Za-z][\w.\-]*+(?::[\w.\-]++{_ATTRIBUTE}*+|{_ATTRIBUTE}++|(?=\s*+/>))\s*+/?>",
    # Closing tags; `find` then adds their opening tags.
    r"</[A-Za-z][\w.\-]*+\s*+>",
    # Laravel's :name and :name:, Drupal's @name and !name, and #name.
    r"(?<![\w:/.])(?::[a-z_][\w+\-]*+:?|@:?[A-Za-z_][\w]*+(?:\.[A-Za-z_]\w*+)*+)",
    r"(?<![\w!#&])(?:![a-z_]\w*+|#[A-Za-z_]\w*+#?)",
    r"(?<![\w~])~\d*[A-Za-z%](?![A-Za-z0-9])",  # Lisp's
    r"\[\[[^\[\]\n]+\]\]|\[(?:[a-z*#]+,)?_\d[^\[\]\n]*+\]",  # wikis', Maketext's
    r"(?<!\w)__(?=[A-Za-z])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*+__(?!\w)",
)
# A text without any of these has no placeholder.
SIGNS = re.compile(
    rf"[%&\\$<{{\d~{SYMBOLS[0]}-{SYMBOLS[-1]}]|://|www\.|[:@!#_]\w|@[:{{]|\[[\[_]|\[[a-z*#]+,_"
)
# A symbol that the text itself contains is also a placeholder.
_SYNTAXES = re.compile(
    f"[{SYMBOLS[0]}-{SYMBOLS[-1]}]|(?P<address>{'|'.join(ADDRESSES)})|{'|'.join(KINDS)}"
)
_CLOSING_TAG = re.compile(r"</([A-Za-z][\w.\-]*+)\s*+>")
# Punctuation after an address is not part of it.
_TRAILING_SIGNS = ".,;:!?'*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_UNNUMBERED_PRINTF = re.compile(
    r"%[#0\-+'I]*+(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGaAcsCSp]"
)
_NUMBERED_PRINTF = re.compile(r"%\d+\$.*")
# Characters of scripts without spaces between words.
UNSPACED_SIGNS = UNSPACED_SCRIPTS + KATAKANA
# Characters that continue a word. Only Latin continues Latin: other scripts attach particles to it.
_WORD_SIGNS = (r"[^\W\u0250-\u1dff\u1f00-\U0010ffff]", rf"[^\W{UNSPACED_SIGNS}]")
_SCRIPTS = tuple(map(re.compile, _WORD_SIGNS))


class Placeholder(NamedTuple):
    """A placeholder, from `start` to `end`."""

    start: int
    end: int
    text: str


class InWordPiece(str):
    """A verbatim piece that is a placeholder even inside a word: `int` in `<code>int</code>s`."""

    __slots__ = ()


def find(text: str, verbatim: Sequence[str] = ()) -> list[Placeholder]:
    r"""Returns the placeholders of a text, in order; none overlap.

    They are placeholders of printf, Python, Ruby, Qt, KDE, the shell and templates (`%s`,
    `%(name)s`, `%1`, `{0}`, `${x}`), entities (`&nbsp;`), tags, escapes (`\n`), web and mail
    addresses, numbers with units ("5 MB", "50 %"), and similar pieces of unknown syntax (`%name%`,
    `:name`).

    Args:
      text: the text.
      verbatim: additional pieces that are placeholders wherever they occur, but inside a word only
        if the piece is an `InWordPiece`.
    """
    closed_names = set(_CLOSING_TAG.findall(text)) if "</" in text else ()
    opening_tags = (InWordPiece(f"<{name}>") for name in closed_names)
    spans = _verbatim_spans(text, [*verbatim, *opening_tags])
    if not spans and not SIGNS.search(text):
        return []
    placeholders, position = [], 0
    match, spans = _SYNTAXES.search(text), spans[::-1]
    while match or spans:
        while spans and spans[-1][0] < position:
            spans.pop()
        if match and match.start() < position:
            match = _SYNTAXES.search(text, position)
        if spans and (not match or spans[-1][0] <= match.start()):
            start, position = spans.pop()
            placeholders.append(Placeholder(start, position, text[start:position]))
        elif match:
            piece = match[0]
            if match.lastgroup == "address":
                piece = _without_trailing_signs(piece)
            position = match.start() + len(piece)
            if spans and spans[-1][1] == position:  # A verbatim piece at its end is not part of it.
                position = spans[-1][0]
            placeholders.append(
                Placeholder(match.start(), position, text[match.start() : position])
            )
    return placeholders


def _verbatim_spans(text: str, verbatim: Sequence[str]) -> list[tuple[int, int]]:
    """Returns (start, end) of verbatim pieces, the longest at each place, in one pass."""
    in_words: dict[str, bool] = {}  # Whether a piece may be part of a longer word.
    for piece in filter(None, verbatim):
        in_words[str(piece)] = in_words.get(piece, False) or isinstance(piece, InWordPiece)
    lengths: dict[str, set[int]] = {}
    for piece in in_words:
        lengths.setdefault(piece[0], set()).add(len(piece))
    sizes_by_first = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
    spans = []
    for start, first in enumerate(text) if in_words else ():
        for size in sizes_by_first.get(first, ()):
            piece = text[start : start + size]
            end = start + len(piece)
            if piece in in_words and (in_words[piece] or _is_whole(text, start, end)):
                spans.append((start, end))
                break
    return spans


def _is_whole(text: str, start: int, end: int) -> bool:
    """Returns whether the text from `start` to `end` is not part of a longer word."""
    first = next((script for script in _SCRIPTS if script.match(text, start)), None)
    last = next((script for script in _SCRIPTS if script.match(text, end - 1)), None)
    begins_word = not first or not start or not first.match(text, start - 1)
    return begins_word and (not last or not last.match(text, end))


def whole_word_pattern(text: str, pattern: str) -> str:
    """Extends a pattern for a text so that it does not match inside longer words."""
    guard_before = next((f"(?<!{sign})" for sign in _WORD_SIGNS if re.match(sign, text)), "")
    guard_after = next((f"(?!{sign})" for sign in _WORD_SIGNS if re.match(sign, text[-1:])), "")
    return f"{guard_before}{pattern}{guard_after}"


def piece_at(text: str, start: int, end: int) -> str:
    """Returns the text from `start` to `end`; inside a longer word, an `InWordPiece`."""
    piece = text[start:end]
    return piece if _is_whole(text, start, end) else InWordPiece(piece)


def _without_trailing_signs(address: str) -> str:
    counts, end = Counter(address), len(address)
    while end > 1:
        last = address[end - 1]
        unopened = last in _BRACKETS and counts[_BRACKETS[last]] < counts[last]
        if last not in _TRAILING_SIGNS and not unopened:
            break
        counts[last] -= 1
        end -= 1
    return address[:end]


def has_words(text: str) -> bool:
    """Returns whether there is anything to translate: a letter outside of placeholders."""
    return has_letters(replace_spans(text, ((start, end, "") for start, end, _ in find(text))))


def missing(source: str, target: str, verbatim: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Returns the placeholders that a translation lacks, and the placeholders that it adds.

    The spelling of numbers with units may differ: "1.5 GB" equals "1,5 GB".

    Args:
      source: the text.
      target: its translation.
      verbatim: see `find`.
    """
    lost, added = unmatched(find(source, verbatim), find(target, verbatim))
    return [placeholder.text for placeholder in lost], [placeholder.text for placeholder in added]


def unmatched(
    source: Sequence[Placeholder], target: Sequence[Placeholder]
) -> tuple[list[Placeholder], list[Placeholder]]:
    """Returns the placeholders of each side that the other lacks; of equal ones, the last.

    `%s` and `%d`, in this order, equal `%2$d` and `%1$s`.
    """
    sides = source, target
    is_numbered = [
        any(_NUMBERED_PRINTF.fullmatch(placeholder.text) for placeholder in side) for side in sides
    ]
    keys = []
    for side, other_is_numbered in zip(sides, reversed(is_numbered), strict=True):
        places = {placeholder: i for i, placeholder in enumerate(unnumbered_placeholders(side), 1)}
        keys.append(
            [
                f"%{places[placeholder]}${placeholder.text[1:]}"
                if other_is_numbered and placeholder in places and placeholder.text[0] == "%"
                else comparison_key(placeholder.text)
                for placeholder in side
            ]
        )
    lost = _surplus(source, keys[0], Counter(keys[1]))
    return lost, _surplus(target, keys[1], Counter(keys[0]))


def _surplus(
    placeholders: Sequence[Placeholder], keys: Sequence[str], other_counts: Counter
) -> list[Placeholder]:
    surplus = []
    for placeholder, key in zip(placeholders, keys, strict=True):
        if other_counts[key]:
            other_counts[key] -= 1
        else:
            surplus.append(placeholder)
    return surplus


def comparison_key(placeholder: str) -> str:
    """Returns a key for comparing placeholders, the same for all spellings of a number."""
    if placeholder.startswith(tuple(string.digits)):
        placeholder = re.sub(rf"[.,'\u2019](?=\d{{3}}(?!\d))|{SPACE}", "", placeholder)
        return placeholder.replace(",", ".")
    return placeholder


def is_reordered(source: str, target: str) -> bool:
    """Returns whether unnumbered conversions, such as `%d` and `%s`, are in a different order.

    Programs fill in the values of unnumbered conversions in order.
    """
    sides = [unnumbered_placeholders(find(text)) for text in (source, target)]
    texts = [[placeholder.text for placeholder in side] for side in sides]
    return texts[0] != texts[1] and sorted(texts[0]) == sorted(texts[1])


def unnumbered_placeholders(placeholders: Sequence[Placeholder]) -> list[Placeholder]:
    """Returns the placeholders that a program fills in by position."""
    return [
        placeholder
        for placeholder in placeholders
        if _UNNUMBERED_PRINTF.fullmatch(placeholder.text) or placeholder.text == "{}"
    ]
