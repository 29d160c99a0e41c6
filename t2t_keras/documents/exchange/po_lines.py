"""The lines of PO files: where each entry has what, and entries with other translations."""

import dataclasses
import re
from collections.abc import Sequence

import polib

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
_WIDTH = 77
_WORDS = re.compile(r"\S*\s*")


@dataclasses.dataclass
class Entry:
    """The lines of an entry: comments, flags, what it was before, message and translations."""

    comments: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    previous: list[str] = dataclasses.field(default_factory=list)
    message: list[str] = dataclasses.field(default_factory=list)
    translations: list[str] = dataclasses.field(default_factory=list)
    start: int = 0  # position in the text of the first line, and of the end of the last
    end: int = 0

    @property
    def is_header(self) -> bool:
        """Whether it is the entry of the empty message."""
        return "".join(self.message).strip() == 'msgid ""'


def entries_of(text: str) -> list[Entry]:
    """Returns the entries of a PO file that is valid, without obsolete ones."""
    entries, entry, position = [Entry()], None, 0
    field: list[str] = []
    for match in _LINE.finditer(text):
        line, position = match[0], match.end()
        stripped = line.strip()
        entry = entries[-1]
        if not stripped or stripped.startswith("#~"):
            # A comment before it belongs to an obsolete entry.
            if entry.translations or (stripped and entry.start < entry.end):
                entries.append(Entry())
            continue
        if not stripped.startswith(('"', "msgstr")):
            if entry.translations:
                entries.append(entry := Entry())
            field = _field(entry, stripped)
        elif stripped.startswith("msgstr"):
            field = entry.translations
        if entry.start == entry.end:
            entry.start = match.start()
        field.append(line)
        entry.end = position
    return [entry for entry in entries if entry.translations]


def _field(entry: Entry, line: str) -> list[str]:
    if line.startswith("#,"):
        return entry.flags
    if line.startswith("#|"):
        return entry.previous
    return entry.comments if line.startswith("#") else entry.message


def rendered(
    entry: Entry,
    translations: Sequence[tuple[str, str]],
    flags: Sequence[str],
    comments: Sequence[str],
    newline: str,
) -> str:
    """Returns an entry with other translations and flags, and without what it was before.

    Args:
      entry: its lines until now.
      translations: the keyword, msgstr or msgstr[0], and the text of each.
      flags: all that it has now.
      comments: to add for translators.
      newline: what ends lines.
    """
    lines = [f"# {' '.join(comment.split())}{newline}" for comment in comments]
    lines += entry.comments
    if flags:
        lines.append(f"#, {', '.join(flags)}{newline}")
    lines += entry.message
    for keyword, text in translations:
        lines += [f"{line}{newline}" for line in field_lines(keyword, text)]
    if not entry.translations[-1].endswith(("\n", "\r")):
        lines[-1] = lines[-1].removesuffix(newline)
    return "".join(lines)


def field_lines(keyword: str, text: str) -> list[str]:
    """Returns a string as msgcat writes it: in lines of a page's width, broken at line feeds."""
    parts = [polib.escape(part) for part in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(parts) == 1 and len(keyword) + len(parts[0]) + 3 <= _WIDTH + 2:
        return [f'{keyword} "{parts[0]}"']
    lines = [f'{keyword} ""']
    for part in parts:
        line = ""
        for word in _WORDS.findall(part):
            if line and len(line) + len(word.rstrip()) > _WIDTH:
                lines.append(f'"{line}"')
                line = ""
            line += word
        lines.append(f'"{line}"')
    return lines
