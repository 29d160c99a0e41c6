"""The syntaxes of placeholders, known and unknown, as regular expressions.

Known ones end where they end. A sign of programs before a name or a bracket begins one of unknown
syntax, which goes as far as it can be one: "%title" is no "%t", and "{count, number}" is whole.
"""

import re

# Replace placeholders in the text that a model sees, see `symbols`.
# They are of Unicode's last private plane: fonts and markup use the first private range.
SYMBOLS = tuple(chr(0x10FF00 + number) for number in range(16))

# Not sums of money: a translation may have "5 dollars" for "$5".
_UNITS = (
    "‰|°[CF]?|[kKMGTP]?i?B(?:/s)?|[kKMG]?bit/s|[kKMG]bit|[kM]?bps|px|pt|em|dpi|ppi|fps|[kMGT]?Hz|"
    "[nµm]?s|min|h|[nµmck]?m[²³]?|[µmk]?g|[mk]?[VA]|[mkMGT]?Wh?|m?Ah|dB"
)
SPACE = r"[ \u00a0\u2009\u202f]"
# "1 000 000,5" but not "in 2019 300"; bounded, because each place may begin a match.
_GROUPED = rf"(?<![\w.,:/\-])\d{{1,3}}(?:(?:{SPACE}|['\u2019])\d{{3}}(?!\d)){{1,5}}+(?:[.,]\d+)?"
# Other words in angle brackets, such as <file>, are translated.
_TAGS = (
    "a|b|big|body|br|code|div|em|font|h[1-6]|head|hr|html|i|iframe|img|input|li|nobr|ol|p|pre|qt|s|"
    "script|small|span|strong|style|su[bp]|svg|t[dhrt]|table|tbody|textarea|thead|u|ul"
)
_ATTRIBUTE = r"(?:\s++[\w.:\-]++\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'))"
_FLAGS = r"[#0\-+'I]*+"
_LENGTH = "(?:hh|h|ll|l|q|j|z|t|L)?"
_CONVERSION = "[diouxXeEfFgGaAcsCSpnmr@]"
_NUMBER = rf"(?:{_GROUPED}|(?<![\w.,])\d[\d.,]*+(?<![.,]))"
# As in "5 %", but not in "5 %(n)s", "5 %.2f" and "5 %{name}".
_PERCENT = r"%(?![\w%({<\[@]|[#\-+.*\d]+[diouxXeEfFgGcsp](?![A-Za-z]))"
_NO_NAME = "(?!_*[A-Za-z0-9])"
# A conversion with a width, a precision or a number is not a name. Otherwise letters after it are
# part of a name, except units ("%ds", "%dMB", "%dth", "%dx%d") and a word after "%s" ("%sWarning").
_BEFORE_WORD = f"[a-z](?<={_CONVERSION})(?=[A-Z])"
_BEFORE_UNIT = f"[diusfgx](?=(?:{_UNITS}|st|nd|rd|th|s|x|p|k|M){_NO_NAME})"
_PRINTF = (
    rf"%(?:\d+\$){_FLAGS}(?:\d+|\*(?:\d+\$)?)?(?:\.(?:\d+|\*(?:\d+\$)?)?)?{_LENGTH}{_CONVERSION}",
    rf"%{_FLAGS}(?:(?:\d+|\*(?:\d+\$)?)(?:\.(?:\d+|\*)?)?|\.(?:\d+|\*)?){_LENGTH}{_CONVERSION}",
    rf"%{_FLAGS}{_LENGTH}(?:@|{_CONVERSION}{_NO_NAME}|{_BEFORE_WORD}|{_BEFORE_UNIT})",
)


def _nested(opening: str, closing: str, depth: int) -> str:
    """Returns the pattern of brackets with anything inside, brackets in them to a depth."""
    inside = f"[^{opening}{closing}]"
    pattern = f"{opening}{inside}*+{closing}"
    for _ in range(depth):
        pattern = f"{opening}(?:{inside}++|{pattern})*+{closing}"
    return pattern


_BRACES = _nested(r"\{", r"\}", 4)
ADDRESSES = (
    r"\b[A-Za-z][A-Za-z0-9+.\-]{1,15}://(?=[^\w\s<>]{0,4}+[^\W_])[^\s<>\"“”«»]+",
    r"\bwww\.(?=[^\W_])[^\s<>\"“”«»]+",
    r"\b[A-Za-z]:\\[^\s<>\"“”«»|*?]+",
)
# In the order in which they are tried at a place.
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
    # strftime's others, Go's, and all other names.
    r"%[+#~\-]?[A-Za-z_][A-Za-z0-9_]*+(?:[.:][A-Za-z_]\w*+)*+",
    # ${x}, %{x}, #{x}, @{x}, {x}.
    rf"[$%#@]?{_BRACES}",
    # Variables with what is taken from them, as $user->name, $env:HOME, $t(key) and $NAME$.
    r"\$\([^()\n]+\)|\$[A-Za-z_]\w*+(?:(?:->|\.|:)[A-Za-z_]\w*+|\[[^\[\]\n]*+\]|\([^()\n]*+\))*+\$?",
    # Swift's \(name); names after a backslash where a text does not go on in them ("\alpha", but
    # "one\ntwo"); and escapes.
    r"\\\([^()\n]*+\)",
    rf"(?<![^\s(\[{{$])\\[a-z]{{2,}}+(?:{_BRACES})*+",
    r"\\(?:[nrt\\${}%&#_]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[A-Za-z0-9](?![A-Za-z0-9_]))",
    r"\\[A-Za-z]\w*+",
    r"<%(?:[^<>%\n]++|%(?!>))*+%>",
    rf"</?(?:{_TAGS}|\d++){_ATTRIBUTE}*+\s*+/?>",
    rf"</?[A-Za-z][\w.\-]*+(?::[\w.\-]++{_ATTRIBUTE}*+|{_ATTRIBUTE}++|(?=\s*+/>))\s*+/?>",
    # The end of an element; so its beginning is not a word either.
    r"</[A-Za-z][\w.\-]*+\s*+>",
    # Laravel's :name and :name:, Drupal's @name and !name, and #name.
    r"(?<![\w:/.])(?::[a-z_][\w+\-]*+:?|@:?[A-Za-z_][\w]*+(?:\.[A-Za-z_]\w*+)*+)",
    r"(?<![\w!#&])(?:![a-z_]\w*+|#[A-Za-z_]\w*+#?)",
    r"(?<![\w~])~\d*[A-Za-z%](?![A-Za-z0-9])",  # Lisp's
    r"\[\[[^\[\]\n]+\]\]|\[(?:[a-z*#]+,)?_\d[^\[\]\n]*+\]",  # wikis', Maketext's
    r"(?<!\w)__(?=[A-Za-z])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*+__(?!\w)",
)
# Without any of these there is no placeholder.
SIGNS = re.compile(
    rf"[%&\\$<{{\d~{SYMBOLS[0]}-{SYMBOLS[-1]}]|://|www\.|[:@!#_]\w|@[:{{]|\[[\[_]|\[[a-z*#]+,_"
)
