"""Syntax in messages of programs: branches of ICU messages, accelerators of menus, and tags.

The branches of `{count, plural, one {# boat} other {# boats}}` are translated, see
https://unicode-org.github.io/icu/userguide/format_parse/messages/.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_keras.workbench.documents.document import Document, Piece, Unit, format_of
from t2t_keras.workbench.markup.tokens import (
    CLOSE,
    EMPTY,
    OPEN,
    MarkupToken,
    html_tokens,
    match_html,
)
from t2t_keras.workbench.placeholders import has_words
from t2t_keras.workbench.placeholders.symbols import Accelerator, with_mark, without_mark

_BRANCHED = re.compile(r"\{\s*[\w.\-]+\s*,\s*(plural|selectordinal|select|choice)\s*,")
_OFFSET = re.compile(r"\s*offset\s*:\s*\d+")
_BRANCH = re.compile(r"\s*(?:=\d+|[\w\-]+)\s*\{")
_END = re.compile(r"\s*\}")
# In ICU messages, an apostrophe quotes only before {, }, # and |.
_SIGN = re.compile(r"''|'[{}#|][^']*(?:'|$)|[{}]")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s<>/]*+)[^<>]*?(/?)>")
_MAX_DEPTH = 20
_ACCELERATOR_MARKS = "_&"
# Labels such as "_Save as...", which show that an untranslated file uses accelerators.
_SURE_LABEL = re.compile(r"[_&](?=[A-Z0-9])\S+(?:\s\S+){0,3}")
_UNREADABLE_REASON = "messages of ICU with text around their branches"
_TAG_KINDS = {OPEN, CLOSE, EMPTY}
# Elements without content that are common without attributes.
_BARE_ELEMENTS = {"br", "hr", "wbr"}
# Elements that HTML need not close. No space precedes them, except after punctuation.
_UNCLOSED = {"p", "li", "dt", "dd"}
_BEFORE_BLOCK = re.compile(r"(?:^|\w|[.!?:;)>\u2026]\s*)$")


class _UnreadableError(Exception):
    """The message cannot be divided into branches."""


class _Argument(NamedTuple):
    """An argument with branches: their pieces, and the text between them."""

    pieces: list[str | Piece]


def has_branches(message: str) -> bool:
    """Returns whether a message has an argument that selects one of several texts."""
    return bool(_BRANCHED.search(message))


def pieces_of(message: str) -> list[str | Piece] | None:
    """Returns the branches of a message and the text between them; None = it has no branches.

    The list is empty if the message is unreadable, or has text around branches, which cannot be
    translated separately.
    """
    if not has_branches(message):
        return None
    try:
        pieces, end = _parse(message, 0, False, 0)
    except _UnreadableError:
        return []
    return pieces if end == len(message) else []


def _parse(text: str, start: int, is_counted: bool, depth: int) -> tuple[list[str | Piece], int]:
    """Returns the pieces of a message from `start` on, and the end of the message."""
    parts: list[str | _Argument] = []
    position = text_start = start
    while (sign := _SIGN.search(text, position)) and sign[0] != "}":
        position = sign.end()
        if sign[0] != "{":
            continue
        if branched := _BRANCHED.match(text, sign.start()):
            parts.append(text[text_start : sign.start()])
            argument, position = _argument(text, branched, is_counted, depth + 1)
            parts.append(argument)
            text_start = position
        else:
            position = _argument_end(text, sign.start())
    end = sign.start() if sign else len(text)
    parts.append(text[text_start:end])
    return list(_join(parts, is_counted)), end


def _join(parts: list[str | _Argument], is_counted: bool) -> Iterator[str | Piece]:
    for part in parts:
        if isinstance(part, _Argument):
            yield from part.pieces
        elif not has_words(_TAG.sub("", part)):
            yield part
        elif len(parts) == 1:
            yield _branch_piece(part, is_counted)
        else:
            raise _UnreadableError


def _argument(text: str, branched: re.Match, is_counted: bool, depth: int) -> tuple[_Argument, int]:
    kind, position = branched[1], branched.end()
    if depth > _MAX_DEPTH:
        raise _UnreadableError
    if offset := _OFFSET.match(text, position):
        position = offset.end()
    pieces: list[str | Piece] = []
    piece_start = branched.start()
    while branch := _BRANCH.match(text, position):
        pieces.append(text[piece_start : branch.end()])
        inner, piece_start = _parse(text, branch.end(), is_counted or kind != "select", depth)
        if text[piece_start : piece_start + 1] != "}":
            raise _UnreadableError
        pieces += inner
        position = piece_start + 1
    if not pieces or not (end := _END.match(text, position)):
        raise _UnreadableError
    return _Argument([*pieces, text[piece_start : end.end()]]), end.end()


def _argument_end(text: str, start: int) -> int:
    """Returns the end of an argument without branches, such as {name} or {date, date, short}."""
    depth = 0
    for sign in _SIGN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(sign[0], 0)
        if not depth:
            return sign.end()
    raise _UnreadableError


def _branch_piece(text: str, is_counted: bool) -> Piece:
    """Returns a branch as a piece; in a branch that `is_counted`, # stands for the number."""
    open_tags: list[str] = []
    for is_closing, name, is_empty in _TAG.findall(text):
        if is_closing and (not open_tags or open_tags.pop() != name):
            raise _UnreadableError
        if not is_closing and not is_empty:
            open_tags.append(name)
    if open_tags:
        raise _UnreadableError
    signs = {sign[0][:2] for sign in _SIGN.finditer(text)}
    has_quotes = any(sign[0] == "'" and sign != "''" for sign in signs)
    if has_quotes:
        return Piece(text, lambda translation: _or_source(text, translation))
    doubles_quotes = "''" in signs and "'" not in text.replace("''", "")
    visible_text = text.replace("''", "'") if doubles_quotes else text
    if is_counted:
        visible_text = visible_text.replace("#", "{#}")

    def write(translation: str) -> str:
        # Double all apostrophes if the message does; otherwise those that would start a quote.
        translation = re.sub("'" if doubles_quotes else "'(?=[{}#])", "''", translation)
        return _or_source(text, translation.replace("{#}", "#") if is_counted else translation)

    return Piece(visible_text, write)


def _or_source(text: str, translation: str) -> str:
    """Returns a translation if it has the same arguments as the text, else the text."""
    return translation if _arguments(text) == _arguments(translation) is not None else text


def _arguments(text: str) -> list[str] | None:
    arguments, position = [], 0
    while sign := _SIGN.search(text, position):
        position = sign.end()
        if sign[0] == "}":
            return None
        if sign[0] == "{":
            try:
                position = _argument_end(text, sign.start())
            except _UnreadableError:
                return None
            arguments.append(text[sign.start() : position])
    return sorted(arguments)


def divide_messages(document: Document, units: Iterable[Unit]) -> list[Unit]:
    """Divides ICU messages with branches into pieces; skips and counts unreadable messages."""
    readable_units = []
    for unit in units:
        pieces = pieces_of(unit.source)
        if pieces == []:
            document.left_out[_UNREADABLE_REASON] += 1
        else:
            unit.pieces = pieces or ()
            readable_units.append(unit)
    return readable_units


def find_accelerators(units: Sequence[Unit], declared_mark: str = "") -> None:
    """Removes the accelerator marks from labels, if the document uses accelerators.

    A document uses a mark if most translations of its labels have it; or, without translations, if
    a short label begins with it.

    Args:
      units: the units of a document.
      declared_mark: the mark that the document declares; "" = none.
    """
    for mark in declared_mark or _ACCELERATOR_MARKS:
        labels = [
            (unit, accelerator)
            for unit in units
            if unit.format == "text" and not unit.pieces
            if (accelerator := without_mark(unit.source, marks=mark)[1])
        ]
        if declared_mark or _uses_mark(mark, [unit for unit, _ in labels]):
            for unit, accelerator in labels:
                write = functools.partial(_restore_mark, accelerator)
                unit.pieces = [Piece(accelerator.text, write)]


def _uses_mark(mark: str, labels: Sequence[Unit]) -> bool:
    votes = [
        without_mark(unit.target, is_label=True, marks=mark)[1] is not None
        for unit in labels
        if unit.is_translated
    ]
    if votes:
        return 2 * sum(votes) > len(votes)
    return any(_SURE_LABEL.fullmatch(unit.source.strip()) for unit in labels)


def _restore_mark(accelerator: Accelerator, translation: str) -> str:
    has_mark = without_mark(translation, is_label=True, marks=accelerator.mark)[1]
    return translation if has_mark else with_mark(translation, accelerator)


def format_of_message(text: str) -> str:
    """Returns the format of a message: "html" if all its tags match, else "text".

    Tags such as in "Use `<style>` for the output" and "Open `<file>`" are words of the sentence.
    """
    if format_of(text) == "text":
        return "text"
    tokens = list(html_tokens(text))
    partners, ends = match_html(tokens)
    # An unclosed script or title contains everything that follows.
    raw_elements = {token.name for token in tokens if token.kind not in _TAG_KINDS}
    empty_elements = {token.name for token in tokens if token.kind == EMPTY}
    texts_before = ["", *(token.raw[-20:] for token in tokens)]
    matches = [
        partner is not None
        or end > 0  # HTML ends the element without a tag.
        or (token.kind == CLOSE and token.name in empty_elements)
        or (token.kind == OPEN and token.name in _UNCLOSED and _BEFORE_BLOCK.search(before))
        or (_is_empty(token) and token.name not in raw_elements)
        for before, token, partner, end in zip(texts_before, tokens, partners, ends, strict=False)
        if token.kind in _TAG_KINDS
    ]
    return "html" if matches and all(matches) else "text"


def _is_empty(token: MarkupToken) -> bool:
    """Returns whether a tag's element has no content."""
    if token.kind == EMPTY:
        return token.name in _BARE_ELEMENTS or "=" in token.raw or token.raw.endswith("/>")
    return token.kind == OPEN and token.raw.endswith("/>")
