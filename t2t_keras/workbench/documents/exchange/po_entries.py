"""The entries of PO files, read as msgfmt reads them, each with the places of its parts.

See https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from t2t_keras.workbench.documents.spans import Change

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>\#[^\n\r]*)|(?P<string>"(?:[^"\\\n\r]|\\.)*")"""
    r"""|(?P<index>\[\s*\d{1,3}\s*\])|(?P<keyword>[a-z_]+)"""
)
# The keywords that may precede each keyword in its entry.
_BEFORE = {
    "msgctxt": set(),
    "msgid": {"msgctxt"},
    "msgid_plural": {"msgid"},
    "msgstr": {"msgid", "msgid_plural", "msgstr"},
    "domain": set(),
}
_ESCAPE = re.compile(r"((?:\\(?:x[0-9A-Fa-f]{2}|[0-7]{1,3}))+)|\\(.)")
_COMMENTS = re.compile(r"(?:\s|#[^\n\r]*)*+")
_END_OF_LINE = re.compile(r"\r\n|\r|\n|$")
_BLANK_LINE = re.compile(r"(?>\r\n|\r|\n)[^\S\r\n]*[\r\n]")
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([0-7]{1,3}))")
_CONTROLS = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
_ESCAPED = str.maketrans({sign: f"\\{name}" for name, sign in _CONTROLS.items()})
_WIDTH = 77
_WORDS = re.compile(r"\S*\s*")


class MalformedError(Exception):
    """The file is not valid PO; `position` is the offset of the error."""

    def __init__(self, text: str, position: int):
        super().__init__(text)
        self.position = position


@dataclasses.dataclass
class Entry:
    """An entry: its strings, and the offsets of its parts.

    Attributes:
      context: msgctxt; None = there is none, which differs from "".
      source: msgid.
      plural: msgid_plural; None = there is none.
      targets: msgstr by plural form; the key is None in an entry without a plural.
      flags: from its comments, such as "fuzzy".
      start: where its last block of comments begins; without comments, its first line.
      lines: (start, end) of its comments with flags or with the previous message.
      message: where its first line that is not a comment begins.
      translations: (start, end) of all its msgstr.
    """

    context: str | None = None
    source: str = ""
    plural: str | None = None
    targets: dict[int | None, str] = dataclasses.field(default_factory=dict)
    flags: list[str] = dataclasses.field(default_factory=list)
    start: int = -1
    lines: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    message: int = -1
    translations: tuple[int, int] = (-1, -1)

    @property
    def is_header(self) -> bool:
        """Whether it is the entry of the empty message."""
        return not self.source and self.context is None

    @property
    def is_fuzzy(self) -> bool:
        """Whether its translations are not to be used."""
        return "fuzzy" in self.flags

    def fields(self) -> dict[str, str]:
        """Returns the fields of a header by name, the first where one comes twice."""
        pairs = (line.partition(":") for line in self.targets.get(None, "").split("\n"))
        return {name.strip(): value.strip() for name, _, value in reversed(list(pairs))}


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.entry = Entry()
        self.keyword = ""
        self.form: int | None = None
        self.num_strings = 0  # of the keyword
        # The strings of the entry, by keyword, and those of msgstr by plural form.
        self.texts: dict[str, list[str]] = {}
        self.targets: dict[int | None, list[str]] = {}
        self.line_start = self.last_end = 0
        self.inner_comments_end = 0

    def entries(self) -> Iterator[Entry]:
        position = 0
        while position < len(self.text):
            token = _TOKEN.match(self.text, position)
            if not token:
                raise MalformedError("expected a string, a comment or a keyword", position)
            position = token.end()
            kind = token.lastgroup
            is_new = kind == "comment" or token[0] in ("msgctxt", "msgid", "domain")
            if is_new and self.targets and (kind != "comment" or self._begins_entry(token)):
                yield self._finished(token.start())
            getattr(self, f"_{kind}")(token)
            self.last_end = self.last_end if kind == "space" else position
        if self.keyword:
            yield self._finished(position)

    def _begins_entry(self, comment: re.Match) -> bool:
        """Returns whether a comment belongs to the next entry."""
        if comment.start() >= self.inner_comments_end:
            comments = _COMMENTS.match(self.text, comment.end())
            after = comments.end() if comments else comment.end()
            if not self.text.startswith(('"', "msgstr"), after):
                return True
            self.inner_comments_end = after
        return False

    def _finished(self, position: int) -> Entry:
        if not self.num_strings or self.keyword != "msgstr":
            raise MalformedError("an entry without msgstr", position)
        texts = {keyword: "".join(strings) for keyword, strings in self.texts.items()}
        entry = dataclasses.replace(
            self.entry,
            context=texts.get("msgctxt"),
            source=texts.get("msgid", ""),
            plural=texts.get("msgid_plural"),
            targets={form: "".join(strings) for form, strings in self.targets.items()},
        )
        self.entry, self.keyword, self.texts, self.targets = Entry(), "", {}, {}
        return entry

    def _space(self, token: re.Match) -> None:
        end = max(token[0].rfind("\n"), token[0].rfind("\r"))
        if end >= 0:
            self.line_start = token.start() + end + 1
        if not self.keyword and _BLANK_LINE.search(token[0]):
            self.entry.start = -1

    def _comment(self, token: re.Match) -> None:
        if token[0].startswith("#~"):
            # Comments before it belong to an obsolete entry.
            self.entry = self.entry if self.keyword else Entry()
            return
        if self.entry.start < 0:
            self.entry.start = self.line_start
        if token[0].startswith("#,"):
            self.entry.flags += [flag.strip() for flag in token[0][2:].split(",") if flag.strip()]
        if token[0].startswith(("#,", "#|")):
            end = _END_OF_LINE.search(self.text, token.end())
            self.entry.lines.append((token.start(), end.end() if end else len(self.text)))

    def _keyword(self, token: re.Match) -> None:
        name, before = token[0], _BEFORE.get(token[0])
        if before is None:
            raise MalformedError(f"'{name[:40]}' is not a keyword", token.start())
        if self.keyword and (self.keyword not in before or not self.num_strings):
            raise MalformedError(f"{name} after {self.keyword}", token.start())
        if not self.keyword:
            if name in ("msgid_plural", "msgstr"):
                raise MalformedError(f"{name} without msgid", token.start())
            is_first = self.last_end <= self.line_start
            self.entry.message = self.line_start if is_first else token.start()
            self.entry.start = self.entry.message if self.entry.start < 0 else self.entry.start
        if name == "msgstr" and self.entry.translations[0] < 0:
            self.entry.translations = token.start(), token.end()
        self.keyword, self.form, self.num_strings = name, None, 0

    def _index(self, token: re.Match) -> None:
        if self.keyword != "msgstr" or self.num_strings or self.form is not None:
            raise MalformedError("an index that is not of msgstr", token.start())
        self.form = int(token[0][1:-1])

    def _string(self, token: re.Match) -> None:
        text = unescape(token[0][1:-1])
        self.num_strings += 1
        if self.keyword == "domain":
            self.keyword, self.entry = "", Entry()
        elif self.keyword == "msgstr":
            self.targets.setdefault(self.form, []).append(text)
            self.entry.translations = self.entry.translations[0], token.end()
        elif self.keyword:
            self.texts.setdefault(self.keyword, []).append(text)
        else:
            raise MalformedError("a string without a keyword", token.start())


def entries_of(text: str) -> list[Entry]:
    """Returns the entries of a PO file, without obsolete ones.

    Raises:
      MalformedError: msgfmt would refuse it.
    """
    return list(_Reader(text).entries())


def changes_of(
    text: str,
    entry: Entry,
    translations: Sequence[tuple[str, str]],
    flags: Sequence[str],
    comments: Sequence[str],
    newline: str,
) -> list[Change]:
    """Returns the changes that new translations make in an entry; previous messages are removed.

    Args:
      text: of the file.
      entry: one of its entries.
      translations: the keyword, msgstr or msgstr[0], and the text of each.
      flags: its new flags.
      comments: to be added for translators.
      newline: the line ending.
    """
    changes = [
        (entry.start, entry.start, f"# {' '.join(comment.split())}{newline}")
        for comment in comments
    ]
    new_line = f"#, {', '.join(flags)}{newline}" * bool(flags)
    is_same = set(flags) == set(entry.flags)
    has_flags = False
    for start, end in entry.lines:
        is_flags = text.startswith("#,", start)
        if not (is_flags and is_same):
            changes.append((start, end, new_line if is_flags and not has_flags else ""))
        has_flags |= is_flags
    if new_line and not has_flags:
        is_first = entry.message == 0 or text[entry.message - 1] in "\r\n"
        new_line = new_line if is_first else newline + new_line
        changes.append((entry.message, entry.message, new_line))
    start, end = entry.translations
    inner_comments = re.findall(r"[\n\r]\s*(#[^\n\r]*)", text[start:end])
    lines = [line for keyword, target in translations for line in field_lines(keyword, target)]
    return [*changes, (start, end, newline.join([*inner_comments, *lines]))]


def unescape(text: str) -> str:
    """Returns the text of a PO string, given without its quotes."""

    def control(match: re.Match) -> str:
        if match[1]:
            codes = (int(x or octal, 16 if x else 8) for x, octal in _BYTE.findall(match[1]))
            return bytes(code & 255 for code in codes).decode("utf-8", "replace")
        return _CONTROLS.get(match[2], match[0])

    return _ESCAPE.sub(control, text) if "\\" in text else text


def field_lines(keyword: str, text: str) -> list[str]:
    """Returns a string as msgcat writes it: in lines of a page's width, broken at line feeds."""
    parts = [part.translate(_ESCAPED) for part in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(parts) == 1 and len(keyword) + len(parts[0]) + 3 <= _WIDTH + 2:
        return [f'{keyword} "{parts[0]}"']
    lines = [f'{keyword} ""']
    for part in parts:
        line = ""
        for word in _WORDS.findall(part):
            if line and len(line) + len(word) > _WIDTH:
                lines.append(f'"{line}"')
                line = ""
            line += word
        lines.append(f'"{line}"')
    return lines
