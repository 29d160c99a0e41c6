"""gettext's PO files: changed entries are rewritten, all others stay byte for byte.

See https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

import dataclasses
import functools
import gettext
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.text.files import replace_spans
from t2t_keras.workbench.documents.document import (
    Change,
    SpanDocument,
    Text,
    Unit,
    decode_file,
    resolve_languages,
)
from t2t_keras.workbench.documents.software_strings import (
    divide_messages,
    find_accelerators,
    format_of_message,
)

# A comment with its line end, or a string.
_TOKEN = re.compile(r'\#[^\n\r]*+(?:\r\n|\r|\n)?+|"(?P<string>(?:[^"\\\n\r]|\\.)*+)"')
_GAP = r"(?:\s++|\#[^\n\r]*+)*+"
_STRING = r'"(?:[^"\\\n\r]|\\.)*+"'
# A keyword with its strings; comments may be anywhere.
_FIELD = re.compile(
    rf"{_GAP}(?P<keyword>domain|msgctxt|msgid_plural|msgid|msgstr)"
    rf"(?:(?<=msgstr){_GAP}\[\s*(?P<form>\d{{1,3}})\s*\])?+"
    rf"{_GAP}(?P<strings>{_STRING}(?:{_GAP}{_STRING})*+)?+"
)
# The keywords that may follow each keyword, and the beginning of the file.
_FIRST = {"domain", "msgctxt", "msgid"}
_MAY_FOLLOW = {
    "": _FIRST,
    "domain": _FIRST,
    "msgctxt": {"msgid"},
    "msgid": {"msgid_plural", "msgstr"},
    "msgid_plural": {"msgstr"},
    "msgstr": {"msgstr", *_FIRST},
}
_ATTRIBUTES = {"msgctxt": "context", "msgid": "source", "msgid_plural": "plural"}
_ESCAPE = re.compile(r"((?:\\(?:x[0-9A-Fa-f]{2}|[0-7]{1,3}))+)|\\(.)")
_BLANK_LINE = re.compile(r"(?>\r\n|\r|\n)[^\S\r\n]*[\r\n]")
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([0-7]{1,3}))")
_CONTROLS = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
_ESCAPE_TABLE = str.maketrans({sign: f"\\{name}" for name, sign in _CONTROLS.items()})
_MAX_WIDTH = 77
_WORDS = re.compile(r"\S*\s*")
# Plural rules. The first three: a form for 1 (English); a form for 0 and 1 (French); only one.
_ENGLISH_RULE = "nplurals=2; plural=(n != 1);"
_FEW_OR_MANY = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_RULES = {
    _ENGLISH_RULE: "af bg bn ca da de el en eo es et eu fi fy gl gu he hi hu ia it kn ku lb "
    "ml mn mr nb ne nl nn no pa pt rm si sq sv sw ta te ur yi",
    "nplurals=2; plural=(n > 1);": "am br fa fil fr hy ln mg mi oc pt_br ti tr uz wa",
    "nplurals=1; plural=0;": "ay bo id ja ka kk km ko ky lo ms my su th tt ug vi wo zh",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_FEW_OR_MANY});": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n==1 ? 0 : {_FEW_OR_MANY});": "pl",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": (
        "lt"
    ),
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5);": "ar",
}
_LANGUAGE_RULES = {language: rule for rule, names in _RULES.items() for language in names.split()}
_PLURAL_HEADER = re.compile(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,1000});?\s*")
# Numbers that together use every form of any rule.
_TEST_NUMBERS = range(201)
_CHARSET = re.compile(rb'("Content-Type:[^"\n]*charset=)([\w.:-]+)', re.IGNORECASE)
# Messages that stand for the names of translators: in KDE by context, in GNOME by text.
_CREDITS_CONTEXTS = {"NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"}
_CREDITS_SOURCES = {"translator-credits", "translator_credits"}
_CONTENT_TYPE = "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
# Everything that is a directive in one of gettext's formats.
_DIRECTIVE = re.compile(
    r"%(?:\([^()]*\)|\{[^{}]*\}|<[^<>]*>)?[-+ #0'I*.\d$hlLqjzt]*.?|\$\{?\w+|~."
    r"|\{[^{}]*\}|[{}][^{}]*|</?[A-Za-z][^<>]*>",
    re.DOTALL,
)
_NUMBERED_DIRECTIVE = re.compile(r"%L?\d{1,2}|%n")
_MOVABLE_DIRECTIVE = re.compile(r"%(?:[({<]|\d+\$|L?\d|n)|[{}$<]")


class MalformedError(Exception):
    """The file is not valid PO; `position` is the offset of the error."""

    def __init__(self, text: str, position: int):
        super().__init__(text)
        self.position = position


@dataclasses.dataclass
class Entry:
    """An entry: its strings, and the offsets of its parts.

    Attributes:
      context: msgctxt; None = no context, which differs from "".
      source: msgid.
      plural: msgid_plural; None = no plural.
      targets: msgstr by plural form; the key is None in an entry without a plural.
      flags: flags in its comments, such as "fuzzy".
      start: start of its last block of comments; without comments, of its first line.
      comments: (start, end) of comments with flags or with the previous message.
      message_start: start of its first line that is not a comment.
      translations_span: (start, end) of all its msgstr.
    """

    context: str | None = None
    source: str = ""
    plural: str | None = None
    targets: dict[int | None, str] = dataclasses.field(default_factory=dict)
    flags: list[str] = dataclasses.field(default_factory=list)
    start: int = -1
    comments: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    message_start: int = -1
    translations_span: tuple[int, int] = (-1, -1)

    @property
    def is_header(self) -> bool:
        """Whether it is the entry of the empty message."""
        return not self.source and self.context is None

    def fields(self) -> dict[str, str]:
        """Returns the fields of a header by name; the first of duplicates counts."""
        pairs = (line.partition(":") for line in self.targets.get(None, "").split("\n"))
        return {name.strip(): value.strip() for name, _, value in reversed(list(pairs))}


def entries_of(text: str) -> list[Entry]:
    """Returns the entries of a PO file, without obsolete ones.

    Raises:
      MalformedError: msgfmt would reject the file.
    """
    entries: list[Entry] = []
    previous, position = "", 0
    while field := _FIELD.match(text, position):
        keyword, start = field["keyword"], field.start("keyword")
        if keyword not in _MAY_FOLLOW[previous]:
            raise MalformedError(f"{keyword} after {previous or 'nothing'}", start)
        if not field["strings"]:
            raise MalformedError(f"{keyword} without a string", field.end())
        if keyword != "domain":
            if keyword in _FIRST and previous != "msgctxt":
                entries.append(Entry())
                position = _begin_entry(entries[-1], text, position, start)
            _add_field(entries[-1], field, list(_TOKEN.finditer(text, position, field.end())))
        previous, position = keyword, field.end()
    end = re.compile(_GAP).match(text, position)
    if end and end.end() < len(text):
        raise MalformedError("expected a string, a comment or a keyword", end.end())
    if previous in _ATTRIBUTES:
        raise MalformedError("an entry without msgstr", len(text))
    return entries


def _begin_entry(entry: Entry, text: str, start: int, end: int) -> int:
    """Sets where an entry begins, from the comments before its first keyword.

    Returns:
      The end of the comments of obsolete entries, or `start`.
    """
    comments = list(_TOKEN.finditer(text, start, end))
    obsolete_ends = [comment.end() for comment in comments if comment[0].startswith("#~")]
    own_start = max(obsolete_ends, default=start)
    blank_lines = (line.end() for line in _BLANK_LINE.finditer(text, own_start, end))
    block_start = max(blank_lines, default=own_start)
    first = next((token.start() for token in comments if token.start() >= block_start), end)
    entry.start, entry.message_start = (_line_start(text, start, place) for place in (first, end))
    return own_start


def _line_start(text: str, start: int, position: int) -> int:
    """Returns the start of the line, or the position if the line begins before `start`."""
    line_start = max(text.rfind(line_end, start, position) for line_end in "\n\r") + 1
    return line_start if line_start or not start else position


def _add_field(entry: Entry, field: re.Match, tokens: Sequence[re.Match]) -> None:
    """Adds a keyword's strings to an entry, and the comments before and between them."""
    text = "".join(unescape(token["string"]) for token in tokens if token["string"])
    if field["keyword"] == "msgstr":
        form = int(field["form"]) if field["form"] else None
        entry.targets[form] = entry.targets.get(form, "") + text
        start, _ = entry.translations_span
        entry.translations_span = field.start("keyword") if start < 0 else start, field.end()
    else:
        setattr(entry, _ATTRIBUTES[field["keyword"]], text)
    for comment in tokens:
        if comment[0].startswith("#,"):
            entry.flags += filter(None, map(str.strip, comment[0][2:].split(",")))
        if comment[0].startswith(("#,", "#|")):
            entry.comments.append(comment.span())


def entry_changes(
    text: str,
    entry: Entry,
    translations: Sequence[tuple[str, str]],
    flags: Sequence[str],
    comments: Sequence[str],
    newline: str,
) -> list[Change]:
    """Returns the changes that write new translations and remove previous messages.

    Args:
      text: the text of the file.
      entry: one of its entries.
      translations: keyword (msgstr or msgstr[0]) and text of each translation.
      flags: the entry's new flags.
      comments: new comments for translators.
      newline: the line ending.
    """
    changes = [
        (entry.start, entry.start, f"# {' '.join(comment.split())}{newline}")
        for comment in comments
    ]
    flags_line = f"#, {', '.join(flags)}{newline}" * bool(flags)
    keeps_flags = set(flags) == set(entry.flags)
    has_flags = False
    for start, end in entry.comments:
        is_flags = text.startswith("#,", start)
        if not (is_flags and keeps_flags):
            changes.append((start, end, flags_line if is_flags and not has_flags else ""))
        has_flags |= is_flags
    if flags_line and not has_flags:
        begins_line = entry.message_start == 0 or text[entry.message_start - 1] in "\r\n"
        flags_line = flags_line if begins_line else newline + flags_line
        changes.append((entry.message_start, entry.message_start, flags_line))
    start, end = entry.translations_span
    inner_comments = re.findall(r"[\n\r]\s*(#[^\n\r]*)", text[start:end])
    lines = [line for keyword, target in translations for line in field_lines(keyword, target)]
    return [*changes, (start, end, newline.join([*inner_comments, *lines]))]


def unescape(text: str) -> str:
    """Decodes the escape sequences in a PO string, given without its quotes."""

    def unescaped(match: re.Match) -> str:
        if match[1]:
            byte_values = (int(x or octal, 16 if x else 8) for x, octal in _BYTE.findall(match[1]))
            return bytes(code & 255 for code in byte_values).decode("utf-8", "replace")
        return _CONTROLS.get(match[2], match[0])

    return _ESCAPE.sub(unescaped, text) if "\\" in text else text


def field_lines(keyword: str, text: str) -> list[str]:
    """Returns the lines of a string, wrapped and broken at line feeds as by msgcat."""
    parts = [part.translate(_ESCAPE_TABLE) for part in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(parts) == 1 and len(keyword) + len(parts[0]) + 3 <= _MAX_WIDTH + 2:
        return [f'{keyword} "{parts[0]}"']
    lines = [f'{keyword} ""']
    for part in parts:
        line = ""
        for word in _WORDS.findall(part):
            if line and len(line) + len(word) > _MAX_WIDTH:
                lines.append(f'"{line}"')
                line = ""
            line += word
        lines.append(f'"{line}"')
    return lines


class PluralForms(NamedTuple):
    """The number of plural forms, and the forms that are used only for the number 1."""

    number: int
    forms_for_one: frozenset[int]


def plural_forms(header: str) -> PluralForms | None:
    """Returns the plural forms of a Plural-Forms header; None = it is invalid."""
    if not (match := _PLURAL_HEADER.fullmatch(header)):
        return None
    count = int(match[1])
    try:
        form_of = gettext.c2py(match[2])
        forms = [form_of(number) for number in _TEST_NUMBERS]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    if not count or not all(0 <= form < count for form in forms):
        return None
    forms_for_others = {form for number, form in enumerate(forms) if number != 1}
    return PluralForms(count, frozenset({forms[1]} - forms_for_others))


def default_rule(language: str) -> str:
    """Returns the Plural-Forms header of a language; "" = unknown."""
    language = language.lower().replace("-", "_")
    return _LANGUAGE_RULES.get(language) or _LANGUAGE_RULES.get(language.partition("_")[0], "")


def read_po(path: Path, languages: tuple[str, str], content: bytes) -> "PoDocument":
    """Returns a document with a unit for each message or, with a plural, each plural form."""
    declared = _CHARSET.search(content)
    file = decode_file(path, content, declared[2].decode() if declared else "")
    try:
        entries = entries_of(file.text)
    except MalformedError as error:
        line = file.text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{path}:{line} is not valid PO: {error}. Run msgfmt -c for details.",
            code="malformed_po",
        ) from error
    return PoDocument(path, languages, file, entries)


class PoDocument(SpanDocument):
    """A PO file; `entries` exclude the headers."""

    def __init__(
        self, path: Path, languages: tuple[str, str], file: Text, entries: Sequence[Entry]
    ):
        self.headers = [entry for entry in entries if entry.is_header]
        self.entries = [entry for entry in entries if not entry.is_header]
        fields = self.headers[0].fields() if self.headers else {}
        declared = "", fields.get("Language", "")
        super().__init__(path, resolve_languages(path, declared, languages), file)
        header = fields.get("Plural-Forms", "")
        self.plural_header = "" if plural_forms(header) else default_rule(self.languages[1])
        self.forms = plural_forms(self.plural_header or header)
        self.units_by_entry: list[list[tuple[str, Unit]]] = list(map(self._units_of, self.entries))
        self.add_units(unit for units in self.units_by_entry for _, unit in units)
        find_accelerators(self.units, fields.get("X-Accelerator-Marker", ""))

    def _units_of(self, entry: Entry) -> list[tuple[str, Unit]]:
        """Returns (keyword, unit) for each translation of an entry."""
        if entry.context in _CREDITS_CONTEXTS or entry.source in _CREDITS_SOURCES:
            self.left_out["names of translators"] += 1
            return []
        if entry.plural is None:
            target = entry.targets.get(None) or entry.targets.get(0, "")
            units = divide_messages(self, [_unit(entry, entry.source, target, None)])
            return [("msgstr", unit) for unit in units]
        if not self.forms:
            self.left_out["plurals without a Plural-Forms header"] += 1
            return []
        sources = [
            entry.source if form in self.forms.forms_for_one else entry.plural
            for form in range(self.forms.number)
        ]
        return [
            (f"msgstr[{form}]", _unit(entry, source, entry.targets.get(form, ""), form))
            for form, source in enumerate(sources)
        ]

    def changes(self) -> list[Change]:
        """See `SpanDocument`."""
        newline = next(iter(re.findall(r"\r\n|\n|\r", self.file.text)), "\n")
        changes = [
            change
            for entry, units in zip(self.entries, self.units_by_entry, strict=True)
            if any(unit.match for _, unit in units)
            for change in _changes(self.file.text, entry, units, newline)
        ]
        return self._header_changes(newline) + changes if changes else []

    def content(self) -> bytes:
        """See `Document`."""
        text = replace_spans(self.file.text, self.changes())
        try:
            return self.file.encode(text)
        except UnicodeEncodeError:
            # Use UTF-8 instead, and declare it in the header.
            return _CHARSET.sub(rb"\1UTF-8", text.encode(), count=1)

    def _header_changes(self, newline: str) -> list[Change]:
        """Returns the changes that complete a header, such as a template's."""
        header = self.headers[0] if self.headers else None
        old_header = header.targets.get(None, "") if header else _CONTENT_TYPE
        text = old_header.replace("charset=CHARSET", "charset=UTF-8")
        header_fields = {"Language": self.languages[1]}
        if not self.forms or self.plural_header:
            header_fields["Plural-Forms"] = self.plural_header
        for name, value in header_fields.items():
            has_value = re.search(rf"^{name}: *\S", text, re.MULTILINE)
            if value and (name == "Plural-Forms" or not has_value):
                line = f"{name}: {value}\n"
                text, count = re.subn(rf"^{name}:.*\n", line, text, flags=re.MULTILINE)
                text += line * (not count)
        if header is None:
            lines = ['msgid ""', *field_lines("msgstr", text), ""]
            return [(0, 0, "".join(f"{line}{newline}" for line in lines))]
        if text == old_header:
            return []
        flags = [flag for flag in header.flags if flag != "fuzzy"]
        return entry_changes(self.file.text, header, [("msgstr", text)], flags, [], newline)


def _unit(entry: Entry, source: str, target: str, form: int | None) -> Unit:
    formats = [flag for flag in entry.flags if flag.endswith("-format")]
    pattern = _DIRECTIVE if formats else None
    if formats and set(formats) <= {"kde-format", "qt-format"}:
        pattern = _NUMBERED_DIRECTIVE
    return Unit(
        source,
        target,
        format_of_message(source),
        bool(target) and "fuzzy" not in entry.flags,
        entry.context,
        keeps_lines=True,
        is_safe=functools.partial(_is_safe, source, pattern),
        form=form,
    )


def _is_safe(source: str, directive: re.Pattern | None, target: str) -> bool:
    """Returns whether msgfmt -c is sure to accept a translation.

    Stricter than msgfmt, which recognises fewer directives.
    """
    for has_edge in (str.startswith, str.endswith):
        if has_edge(source, "\n") != has_edge(target, "\n"):
            return False
    if not directive:
        return True
    directives: list[list[str]] = [directive.findall(text) for text in (source, target)]
    tags = [sorted(sign for sign in side if sign[0] == "<") for side in directives]
    directives = [[sign for sign in side if sign[0] != "<"] for side in directives]
    # Numbered and named directives may change places.
    if all(map(_MOVABLE_DIRECTIVE.match, directives[0])):
        directives = list(map(sorted, directives))
    return directives[0] == directives[1] and tags[0] == tags[1]


def _changes(text: str, entry: Entry, units: list[tuple[str, Unit]], newline: str) -> list[Change]:
    flags = [flag for flag in entry.flags if flag != "fuzzy"]
    if any(unit.needs_review for _, unit in units):
        flags.insert(0, "fuzzy")
    suggestions = {
        suggestion.source: suggestion for _, unit in units for suggestion in unit.suggestions
    }
    comments = [
        f"{suggestion.ratio:.0%} like “{suggestion.source}”: “{suggestion.target}”"
        for suggestion in suggestions.values()
    ]
    translations = [(keyword, unit.target) for keyword, unit in units]
    return entry_changes(text, entry, translations, flags, comments, newline)
