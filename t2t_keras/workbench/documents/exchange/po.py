"""gettext's PO files: entries that are changed are written anew, all others stay as they are."""

import functools
import gettext
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.workbench.documents.document import Unit, checked_languages
from t2t_keras.workbench.documents.exchange.messages import (
    find_accelerators,
    markup_of_message,
    with_branches,
)
from t2t_keras.workbench.documents.exchange.po_entries import (
    Entry,
    MalformedError,
    changes_of,
    entries_of,
    field_lines,
)
from t2t_keras.workbench.documents.spans import (
    Change,
    SpanDocument,
    Text,
    decoded,
    is_charset,
    replaced,
)

# "one" and "other", as in English; the same with 0 as in French; none at all; and the Slavic ones.
_TWO = "nplurals=2; plural=(n != 1);"
_FEW = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_RULES = {
    _TWO: "af bg bn ca da de el en eo es et eu fi fy gl gu he hi hu ia it kn ku lb ml mn mr nb ne "
    "nl nn no pa pt rm si sq sv sw ta te ur yi",
    "nplurals=2; plural=(n > 1);": "am br fa fil fr hy ln mg mi oc pt_br ti tr uz wa",
    "nplurals=1; plural=0;": "ay bo id ja ka kk km ko ky lo ms my su th tt ug vi wo zh",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_FEW});": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n==1 ? 0 : {_FEW});": "pl",
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
_BY_LANGUAGE = {language: rule for rule, names in _RULES.items() for language in names.split()}
_HEADER = re.compile(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,1000});?\s*")
# More than any rule needs to show all it does.
_NUMBERS = range(201)
_CHARSET = re.compile(rb'("Content-Type:[^"\n]*charset=)([\w.:-]+)', re.IGNORECASE)
# Messages in which translators name themselves, of KDE and of GNOME.
_CREDITS = {"NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"}
_CREDITS_TEXT = {"translator-credits", "translator_credits"}
_CONTENT_TYPE = "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
# All that any of gettext's formats can take for a directive.
_DIRECTIVE = re.compile(
    r"%(?:\([^()]*\)|\{[^{}]*\}|<[^<>]*>)?[-+ #0'I*.\d$hlLqjzt]*.?|\$\{?\w+|~."
    r"|\{[^{}]*\}|[{}][^{}]*|</?[A-Za-z][^<>]*>",
    re.DOTALL,
)
_NUMBERED = re.compile(r"%L?\d{1,2}|%n")
_HAS_NAME = re.compile(r"%(?:[({<]|\d+\$|L?\d|n)|[{}$<]")


class PluralForms(NamedTuple):
    """How many forms there are, and which of them stand for the number 1 and no other."""

    number: int
    only_one: frozenset[int]


def plural_forms(header: str) -> PluralForms | None:
    """Returns what a Plural-Forms header says; None where it cannot be used."""
    if not (match := _HEADER.fullmatch(header)):
        return None
    count = int(match[1])
    try:
        form = gettext.c2py(match[2])
        forms = [form(number) for number in _NUMBERS]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    if not count or not all(0 <= form < count for form in forms):
        return None
    others = {form for number, form in enumerate(forms) if number != 1}
    return PluralForms(count, frozenset({forms[1]} - others))


def default_header(language: str) -> str:
    """Returns the Plural-Forms header of a language, "" where it is not known."""
    language = language.lower().replace("-", "_")
    return _BY_LANGUAGE.get(language) or _BY_LANGUAGE.get(language.partition("_")[0], "")


def read(path: Path, languages: tuple[str, str], content: bytes) -> "PoDocument":
    """Returns a document with a unit for each message, and for each of its plural forms."""
    declared = _CHARSET.search(content)
    charset = declared[2].decode() if declared else ""
    text = decoded(path, content, charset if is_charset(charset) else "utf-8")
    try:
        entries = entries_of(text.text)
    except MalformedError as error:
        line = text.text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{path}:{line} is not valid PO: {error}. Run msgfmt -c for details.",
            code="malformed_po",
        ) from error
    return PoDocument(path, languages, text, entries)


class PoDocument(SpanDocument):
    """A PO file; `entries` excludes the headers."""

    def __init__(
        self, path: Path, languages: tuple[str, str], text: Text, entries: Sequence[Entry]
    ):
        self.headers = [entry for entry in entries if entry.is_header]
        self.entries = [entry for entry in entries if not entry.is_header]
        fields = self.headers[0].fields() if self.headers else {}
        named = "", fields.get("Language", "")
        super().__init__(path, checked_languages(path, named, languages), text)
        header = fields.get("Plural-Forms", "")
        self.plural_header = "" if plural_forms(header) else default_header(self.languages[1])
        self.forms = plural_forms(self.plural_header or header)
        self.of_entry: list[list[tuple[str, Unit]]] = list(map(self._units_of, self.entries))
        self.add_units(unit for units in self.of_entry for _, unit in units)
        find_accelerators(self.units, fields.get("X-Accelerator-Marker", ""))

    def _units_of(self, entry: Entry) -> list[tuple[str, Unit]]:
        """Returns the keyword and the unit of each translation that an entry has."""
        if entry.context in _CREDITS or entry.source in _CREDITS_TEXT:
            self.left_out["names of translators"] += 1
            return []
        if entry.plural is None:
            target = entry.targets.get(None) or entry.targets.get(0, "")
            units = with_branches(self, [_unit(entry, entry.source, target, None)])
            return [("msgstr", unit) for unit in units]
        if not self.forms:
            self.left_out["plurals, for want of a Plural-Forms header"] += 1
            return []
        return [
            (
                f"msgstr[{form}]",
                _unit(
                    entry,
                    entry.source if form in self.forms.only_one else entry.plural,
                    entry.targets.get(form, ""),
                    form,
                ),
            )
            for form in range(self.forms.number)
        ]

    def changes(self) -> list[Change]:
        """See `SpanDocument`."""
        newline = next(iter(re.findall(r"\r\n|\n|\r", self.read.text)), "\n")
        changes = [
            change
            for entry, units in zip(self.entries, self.of_entry, strict=True)
            if any(unit.match for _, unit in units)
            for change in _changes(self.read.text, entry, units, newline)
        ]
        return self._header_changes(newline) + changes if changes else []

    def content(self) -> bytes:
        """See `Document`."""
        text = replaced(self.read.text, self.changes())
        try:
            return self.read.encoded(text)
        except UnicodeEncodeError:
            # The header says so.
            return _CHARSET.sub(rb"\1UTF-8", text.encode(), count=1)

    def _header_changes(self, newline: str) -> list[Change]:
        """Returns the change of a template's header, or of one that lacks what it has to say."""
        header = self.headers[0] if self.headers else None
        old = header.targets.get(None, "") if header else _CONTENT_TYPE
        text = old.replace("charset=CHARSET", "charset=UTF-8")
        wanted = {"Language": self.languages[1]}
        if not self.forms or self.plural_header:
            wanted["Plural-Forms"] = self.plural_header
        for name, value in wanted.items():
            has_value = re.search(rf"^{name}: *\S", text, re.MULTILINE)
            if value and (name == "Plural-Forms" or not has_value):
                line = f"{name}: {value}\n"
                text, count = re.subn(rf"^{name}:.*\n", line, text, flags=re.MULTILINE)
                text += line * (not count)
        if header is None:
            lines = ['msgid ""', *field_lines("msgstr", text), ""]
            return [(0, 0, "".join(f"{line}{newline}" for line in lines))]
        if text == old:
            return []
        flags = [flag for flag in header.flags if flag != "fuzzy"]
        return changes_of(self.read.text, header, [("msgstr", text)], flags, [], newline)


def _unit(entry: Entry, source: str, target: str, form: int | None) -> Unit:
    formats = [flag for flag in entry.flags if flag.endswith("-format")]
    pattern = _DIRECTIVE if formats else None
    if formats and set(formats) <= {"kde-format", "qt-format"}:
        pattern = _NUMBERED
    return Unit(
        source,
        target,
        markup_of_message(source),
        bool(target) and not entry.is_fuzzy,
        entry.context,
        keeps_lines=True,
        is_safe=functools.partial(_is_safe, source, pattern),
        form=form,
    )


def _is_safe(source: str, directive: re.Pattern | None, target: str) -> bool:
    """Returns whether msgfmt -c surely accepts a translation of a source.

    It compares more than msgfmt does, which counts some signs in a text as directives only.
    """
    for ends in (str.startswith, str.endswith):
        if ends(source, "\n") != ends(target, "\n"):
            return False
    if not directive:
        return True
    found = [directive.findall(text) for text in (source, target)]
    tags = [sorted(each for each in side if each[0] == "<") for side in found]
    found = [[each for each in side if each[0] != "<"] for side in found]
    # Directives that are numbered or named can change places.
    if all(map(_HAS_NAME.match, found[0])):
        found = list(map(sorted, found))
    return found[0] == found[1] and tags[0] == tags[1]


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
    return changes_of(text, entry, translations, flags, comments, newline)
