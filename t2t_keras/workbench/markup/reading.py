"""Reads HTML and XML into segments of running text and the markup between them."""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterator, Sequence

from t2t_keras.errors import UserError
from t2t_keras.text.sentences import ends_sentence
from t2t_keras.workbench.markup.segments import KEPT, LONE, Atom, Mark, Segment, segment_of
from t2t_keras.workbench.markup.tokens import (
    CLOSE,
    HTML_BLOCKS,
    HTML_KEPT,
    NO_TAGS,
    OPEN,
    OTHER,
    SVG_TEXTS,
    TEXT,
    XML_KEPT,
    Characters,
    MarkupToken,
    check_xml,
    html_tokens,
    is_break_tag,
    is_formatting,
    is_kept,
    is_note,
    match_html,
    preserves_space,
    read_characters,
    xml_tokens,
)

FORMATS = ("html", "xml")
# Reading takes up to 350 bytes of memory per character if the tags are short.
MAX_CHARACTERS = 4_000_000
# Subscripts and superscripts: a number or variable there belongs to the word before.
_SUB_SUP = {"sub", "sup"}
_MAX_SHORT_TOKENS = 8
# Longer untranslated content does not help a model, and may not survive translation.
_MAX_KEPT_WORDS, _MAX_KEPT_CHARACTERS = 5, 60
# Stands for the note with this number. Valid text has no surrogates.
_NOTE = re.compile("\ud800([0-9]+)\udfff")


@dataclasses.dataclass(frozen=True)
class Fragment:
    """Markup, divided into segments of text and the markup between them.

    Attributes:
      pieces: segments to translate, and the markup between them.
      notes: the pieces of each note. A note is an element in a sentence with a text of its own.
    """

    pieces: tuple[Segment | str, ...]
    notes: tuple[tuple[Segment | str, ...], ...] = ()

    @property
    def segments(self) -> list[Segment]:
        """The segments to translate, including the segments of notes."""
        pieces = itertools.chain(self.pieces, *self.notes)
        return [piece for piece in pieces if isinstance(piece, Segment)]

    def write(self, translations: Sequence[str]) -> str:
        """Returns the markup with its segments replaced by `translations`, which are markup."""
        texts = iter(translations)
        markup = _join(self.pieces, texts)
        notes = [_join(pieces, texts) for pieces in self.notes]
        return _NOTE.sub(lambda note: notes[int(note[1])], markup) if notes else markup


def _join(pieces: Sequence[Segment | str], texts: Iterator[str]) -> str:
    return "".join(next(texts) if isinstance(piece, Segment) else piece for piece in pieces)


def read_fragment(
    text: str,
    format: str,  # noqa: A002
    blocks: Collection[str] = (),
    keep: Collection[str] = (),
    outline: bool = False,
    inline: Collection[str] = (),
) -> Fragment:
    """Reads markup: a document, or a piece of one.

    Nothing is fetched, and no declared entity is expanded.

    Args:
      text: the markup.
      format: "html" or "xml".
      blocks: names of additional elements that divide the text; in XML, by default none do.
      keep: names of additional elements whose content is not translated.
      outline: whether, in XML, the outermost elements with their own text divide the text.
      inline: names of elements that `outline` does not apply to.

    Raises:
      UserError: XML is malformed, or the text has over `MAX_CHARACTERS` characters.
    """
    if format not in FORMATS:
        raise UserError(
            f"Expected format to be text, html or xml, got {format!r}.", code="bad_value"
        )
    if len(text) > MAX_CHARACTERS:
        raise UserError(
            f"Expected markup of at most {MAX_CHARACTERS:,} characters, got {len(text):,}. Split "
            f"it.",
            code="too_long",
        )
    reader = Reader(text, format == "html", blocks, keep)
    if outline and format == "xml":
        reader.divide_by_outline(inline)
    return Fragment(tuple(reader.pieces()), tuple(map(tuple, reader.notes)))


class Reader:
    """Reads markup; see `read_fragment`.

    Attributes:
      tokens: the tokens of the markup.
      ends: for each token, the end of its element, see `match_html`.
      notes: the pieces of each note.
    """

    def __init__(
        self,
        text: str,
        is_html: bool = True,
        blocks: Collection[str] = (),
        keep: Collection[str] = (),
    ):
        self._is_html = is_html
        if not is_html:
            check_xml(text)
        self.tokens = list(html_tokens(text) if is_html else xml_tokens(text))
        if is_html:
            blocks, keep = (frozenset(map(str.lower, names)) for names in (blocks, keep))
            self._partners, self.ends = match_html(self.tokens, to_end=True)
        else:
            self._partners, self.ends = match_html(self.tokens, ended_by={})
        self._block_names = HTML_BLOCKS.union(blocks) if is_html else frozenset(blocks)
        self._kept_names = (HTML_KEPT if is_html else XML_KEPT).union(keep)
        self._is_divider = list(map(self._divides, self.tokens))
        if is_html:
            self._divide_svg()
        self.notes: list[list[Segment | str]] = []
        self._atoms: list[Atom] = []
        self._spellings: dict[str, str] = {}
        self._last_character = ""  # of the visible text; "" = none, or white space

    def _divide_svg(self) -> None:
        """Divides SVG at its text elements, and ignores text outside them."""
        number = end = 0
        while number < len(self.tokens):
            token = self.tokens[number]
            if token.name == "svg" and token.kind == OPEN:
                end = max(end, self.ends[number])
            elif number < end and token.name in SVG_TEXTS and self.ends[number]:
                after = self.ends[number]
                self._is_divider[number] = self._is_divider[after - 1] = True
                number = after
                continue
            elif number < end and token.kind == TEXT:
                self.tokens[number] = MarkupToken(OTHER, token.raw, "svg")
            number += 1

    def divide_by_outline(self, inline: Collection[str]) -> None:
        """Divides XML at the outermost elements that have their own text, except `inline` ones."""
        open_tokens, elements_with_text = [-1], set()
        number = 0
        while number < len(self.tokens):
            token, end = self.tokens[number], self.ends[number]
            if end and is_kept(token, self._kept_names):
                number = end
                continue
            if token.kind == OPEN:
                open_tokens.append(number)
            elif token.kind == CLOSE:
                open_tokens.pop()
            elif token.kind == TEXT and token.raw.strip():
                elements_with_text.add(open_tokens[-1])
            number += 1
        # Text outside of all elements makes everything inline.
        after = len(self.tokens) if -1 in elements_with_text else 0
        for number in sorted(elements_with_text):
            if number >= after:
                after = self.ends[number]
                if self.tokens[number].name not in inline:
                    self._is_divider[number] = self._is_divider[after - 1] = True

    def pieces(self) -> Iterator[Segment | str]:
        """Yields the segments and the markup between them."""
        # For each token, the number of earlier tokens that are text or divide the text.
        pairs = zip(self.tokens, self._is_divider, strict=True)
        is_filled = (
            is_divider or (token.kind == TEXT and token.raw.strip()) for token, is_divider in pairs
        )
        self._num_filled = [0, *itertools.accumulate(map(bool, is_filled))]
        yield from self._read(0, len(self.tokens))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yields (start, end) of each segment in the markup, in order."""
        position = 0
        for piece in self.pieces():
            raw = self._with_notes(piece)
            if isinstance(piece, Segment):
                yield position, position + len(raw)
            position += len(raw)

    def _with_notes(self, piece: Segment | str) -> str:
        """Returns the markup of a piece, including its notes."""
        raw = piece.raw if isinstance(piece, Segment) else piece
        if not self.notes:
            return raw
        return _NOTE.sub(lambda note: "".join(map(self._with_notes, self.notes[int(note[1])])), raw)

    def _read(self, number: int, stop: int, in_note: bool = False) -> Iterator[Segment | str]:
        preserved_end = 0  # White space matters up to this token.
        while number < stop:
            token, end = self.tokens[number], self.ends[number]
            if end and preserves_space(token, self._is_html):
                preserved_end = max(preserved_end, end)
            if end and is_kept(token, self._kept_names):
                yield from self._read_kept(number, end)
                number = end
                continue
            if (
                end
                and not self._is_divider[number]
                and (atom := self._single_atom(number, end, in_note))
            ):
                self._append(atom)
                number = end
                continue
            if token.kind == TEXT:
                if token.name:
                    self._spellings |= {NO_TAGS: "", "<": "<"}
                for characters in read_characters(token.raw, self._is_html, self._spellings):
                    if number < preserved_end and characters.is_space and characters.raw != " ":
                        yield from self._flush(characters.raw)
                    else:
                        self._append(_atom(characters))
            elif self._is_divider[number] or (in_note and is_note(token, self._is_html)):
                yield from self._flush(token.raw)
            else:
                self._append(self._tag_atom(number, token))
            number += 1
        yield from self._flush()

    def _single_atom(self, number: int, end: int, in_note: bool) -> Atom | None:
        """Returns a sub- or superscript, a note or an empty element as one atom; else None."""
        token = self.tokens[number]
        if token.name in _SUB_SUP and self._is_sub_or_sup(number, end):
            inner_tokens = self.tokens[number:end]
            raw = "".join(token.raw for token in inner_tokens)
            return Atom(raw, self._visible_text(inner_tokens), Mark(LONE, raw))
        if self._num_filled[number] == self._num_filled[end]:
            inner_tokens = self.tokens[number:end]
            raw = "".join(token.raw for token in inner_tokens)
            is_space = any(token.kind == TEXT for token in inner_tokens)
            return Atom(raw, mark=Mark(LONE, raw, is_space=is_space))
        if not in_note and (is_note(token, self._is_html) or self._is_sentence(number, end)):
            return self._note_atom(number, end)
        return None

    def _is_sub_or_sup(self, number: int, end: int) -> bool:
        """Returns whether an element directly follows a word, and itself contains no word."""
        if not self._last_character or not self._is_short(number, end):
            return False
        text = self._visible_text(self.tokens[number:end])
        return bool(text) and not (len(text) > 1 and any(map(str.isalpha, text)))

    def _is_sentence(self, number: int, end: int) -> bool:
        """Returns whether an element is a sentence directly after a word, such as a footnote."""
        if not self._last_character.isalnum() or not self._is_short(number, end):
            return False
        text = self._visible_text(self.tokens[number:end])
        return text[:1].isupper() and " " in text and ends_sentence(text)

    def _is_short(self, number: int, end: int) -> bool:
        return end - number <= _MAX_SHORT_TOKENS and not any(self._is_divider[number:end])

    def _note_atom(self, number: int, end: int) -> Atom:
        """Returns an atom for a note, and adds the pieces of the note to `notes`."""
        outer_state = self._atoms, self._spellings, self._last_character
        self._atoms, self._spellings, self._last_character = [], {}, ""
        pieces = list(self._read(number, end, in_note=True))
        self._atoms, self._spellings, self._last_character = outer_state
        if not any(isinstance(piece, Segment) for piece in pieces):
            raw = _join(pieces, iter(()))
        else:
            raw = f"\ud800{len(self.notes)}\udfff"
            self.notes.append(pieces)
        return Atom(raw, mark=Mark(LONE, raw))

    def _append(self, atom: Atom) -> None:
        self._atoms.append(atom)
        if not atom.mark:
            self._last_character = "" if atom.is_space else atom.raw[-1:]
        elif atom.text:
            self._last_character = atom.text[-1]
        elif atom.mark.is_space:
            self._last_character = ""

    def _divides(self, token: MarkupToken) -> bool:
        if token.kind == TEXT:
            return False
        if token.kind == OTHER:
            # Comments and the content of scripts do not divide text.
            return token.name in ("!", "?", "!DOCTYPE")
        return token.name in self._block_names

    def _flush(self, raw: str = "") -> Iterator[Segment | str]:
        if self._atoms:
            before, segment, after = segment_of(self._atoms, self._spellings, self._is_html)
            yield from self._with_own_notes(before)
            if segment:
                yield segment
            yield from self._with_own_notes(after)
        if raw:
            yield raw
        self._atoms, self._spellings, self._last_character = [], {}, ""

    def _with_own_notes(self, raw: str) -> Iterator[Segment | str]:
        """Yields the markup before or after a segment, with the pieces of notes in it."""
        for number, part in enumerate(_NOTE.split(raw)):
            if number % 2:
                yield from self.notes[int(part)]
                self.notes[int(part)] = []
            elif part:
                yield part

    def _tag_atom(self, number: int, token: MarkupToken) -> Atom:
        partner = self._partners[number]
        if partner is None:
            mark = Mark(LONE, token.raw, is_space=is_break_tag(token.raw))
        else:
            kind = OPEN if number < partner else CLOSE
            mark = Mark(kind, token.raw, min(number, partner), is_formatting=is_formatting(token))
        return Atom(token.raw, mark=mark)

    def _read_kept(self, number: int, end: int) -> Iterator[Segment | str]:
        inner_tokens = self.tokens[number:end]
        raw = "".join(token.raw for token in inner_tokens)
        if any(self._is_divider[number:end]):
            yield from self._flush(raw)
            return
        text = self._visible_text(inner_tokens)
        if 0 < len(text) <= _MAX_KEPT_CHARACTERS and len(text.split()) <= _MAX_KEPT_WORDS:
            self._atoms.append(Atom(raw, text, Mark(KEPT, raw)))
        else:
            self._atoms.append(Atom(raw, mark=Mark(LONE, raw)))

    def _visible_text(self, tokens: Sequence[MarkupToken]) -> str:
        parts = []
        for token in tokens:
            if token.kind == TEXT:
                parts += [
                    characters.text for characters in read_characters(token.raw, self._is_html, {})
                ]
        return " ".join("".join(parts).split())


def _atom(characters: Characters) -> Atom:
    raw, text = characters.raw, characters.text
    if not characters.is_kept:
        return Atom(raw, text, is_space=characters.is_space)
    if text.strip():
        return Atom(raw, text, Mark(KEPT, raw))
    return Atom(raw, mark=Mark(LONE, raw, is_space=bool(text)))
