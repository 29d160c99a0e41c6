"""Reads HTML and XML into segments of running text and what stands between them."""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

from t2t_keras.errors import UserError
from t2t_keras.text.markup.characters import Characters, read_characters
from t2t_keras.text.markup.matching import (
    HTML_BLOCKS,
    HTML_KEPT,
    XML_KEPT,
    is_kept,
    match_html,
    match_xml,
    parts_words,
    preserves_space,
)
from t2t_keras.text.markup.segments import CLOSE, KEPT, LONE, OPEN, Atom, Mark, Segment, segment_of
from t2t_keras.text.markup.tokens import CLOSE as CLOSING
from t2t_keras.text.markup.tokens import OPEN as OPENING
from t2t_keras.text.markup.tokens import OTHER, TEXT, Token, html_tokens, xml_tokens

FORMATS = ("html", "xml")
# What is read takes up to 350 bytes of memory for each, where tags are short.
MOST_CHARACTERS = 4_000_000
# Elements for what is written above or below its line: numbers and variables belong to a word.
_INDICES = {"sub", "sup"}
_MOST_TOKENS_OF_INDEX = 8
# What is longer says little about the sentence that it stands in, and may not come through it.
_MOST_KEPT_WORDS, _MOST_KEPT_CHARACTERS = 5, 60


@dataclasses.dataclass(frozen=True)
class Fragment:
    """Markup, taken apart: `write` puts it together again.

    Attributes:
      pieces: segments to be translated, and the markup between them.
    """

    pieces: tuple[Segment | str, ...]

    @property
    def segments(self) -> list[Segment]:
        """What is to be translated."""
        return [piece for piece in self.pieces if isinstance(piece, Segment)]

    def write(self, translations: Sequence[str]) -> str:
        """Returns the markup with others for the texts of the segments, as markup."""
        texts = iter(translations)
        return "".join(
            f"{piece.before}{next(texts)}{piece.behind}" if isinstance(piece, Segment) else piece
            for piece in self.pieces
        )


def read_fragment(
    text: str,
    format: str,  # noqa: A002
    blocks: Collection[str] = (),
    keep: Collection[str] = (),
    outline: bool = False,
    inline: Collection[str] = (),
) -> Fragment:
    """Reads markup: a document, or a piece of one.

    Nothing is fetched, and of the entities that a document declares none is expanded.

    Args:
      text: the markup.
      format: "html" or "xml".
      blocks: names of more elements that divide the text; of XML, none does so else.
      keep: names of more elements whose content stays as it is.
      outline: whether in XML the outermost elements that have text of their own divide it.
      inline: names of elements that do not even so.

    Raises:
      UserError: XML is malformed, or the text has over `MOST_CHARACTERS` characters.
    """
    if format not in FORMATS:
        raise UserError(f"Expected format to be text, html or xml, got {format!r}.")
    if len(text) > MOST_CHARACTERS:
        raise UserError(
            f"Expected markup of at most {MOST_CHARACTERS:,} characters, got {len(text):,}. Divide "
            f"it."
        )
    reader = _Reader(text, format == "html", blocks, keep)
    if outline and format == "xml":
        reader.divide_by_outline(inline)
    return Fragment(tuple(reader.pieces()))


class _Reader:
    def __init__(self, text: str, is_html: bool, blocks: Collection[str], keep: Collection[str]):
        self._is_html = is_html
        self._tokens = list(html_tokens(text) if is_html else xml_tokens(text))
        if is_html:
            blocks, keep = (frozenset(map(str.lower, names)) for names in (blocks, keep))
            self._partners, self._ends = match_html(self._tokens)
        else:
            self._partners, self._ends = match_xml(self._tokens, text)
        self._blocks = HTML_BLOCKS.union(blocks) if is_html else frozenset(blocks)
        self._keep = (HTML_KEPT if is_html else XML_KEPT).union(keep)
        self._dividing = list(map(self._divides, self._tokens))
        self._atoms: list[Atom] = []
        self._spelled: dict[str, str] = {}

    def divide_by_outline(self, inline: Collection[str]) -> None:
        """Has the outermost elements with text of their own divide it, but those of some names."""
        opened, own = [-1], set()
        number = 0
        while number < len(self._tokens):
            token, end = self._tokens[number], self._ends[number]
            if end and is_kept(token, self._keep):
                number = end
                continue
            if token.kind == OPENING:
                opened.append(number)
            elif token.kind == CLOSING:
                opened.pop()
            elif token.kind == TEXT and token.raw.strip():
                own.add(opened[-1])
            number += 1
        # Text that is in no element is running text, and so are all elements in it.
        behind = len(self._tokens) if -1 in own else 0
        for number in sorted(own):
            if number >= behind:
                behind = self._ends[number]
                if self._tokens[number].name not in inline:
                    self._dividing[number] = self._dividing[behind - 1] = True

    def pieces(self) -> Iterator[Segment | str]:
        """Yields the segments and what is between them."""
        # Of all tokens before each one, how many are text or divide it.
        pairs = zip(self._tokens, self._dividing, strict=True)
        filled = (divides or (token.kind == TEXT and token.raw.strip()) for token, divides in pairs)
        self._filled = [0, *itertools.accumulate(map(bool, filled))]
        number = 0
        preserved = 0  # Up to this token, white space matters.
        while number < len(self._tokens):
            token, end = self._tokens[number], self._ends[number]
            if end and preserves_space(token, self._is_html):
                preserved = max(preserved, end)
            if end and is_kept(token, self._keep):
                yield from self._kept(number, end)
                number = end
                continue
            if end and token.name in _INDICES and self._is_index(number, end):
                inside = self._tokens[number:end]
                raw = "".join(token.raw for token in inside)
                self._atoms.append(Atom(raw, Mark(LONE, raw), None, self._visible(inside)))
                number = end
                continue
            if end and not self._dividing[number] and self._is_empty(number, end):
                self._atoms.append(self._as_one(number, end))
                number = end
                continue
            if token.kind == TEXT:
                for each in read_characters(token.raw, self._is_html, self._spelled):
                    if number < preserved and each.is_space and each.raw != " ":
                        yield from self._flush(each.raw)
                    else:
                        self._atoms.append(_atom(each))
            elif self._dividing[number]:
                yield from self._flush(token.raw)
            else:
                self._atoms.append(self._tag(number, token))
            number += 1
        yield from self._flush()

    def _is_index(self, number: int, end: int) -> bool:
        """Returns whether an element has no words, and stands right behind one."""
        if end - number > _MOST_TOKENS_OF_INDEX or any(self._dividing[number:end]):
            return False
        text = self._visible(self._tokens[number:end])
        has_words = len(text) > 1 and any(map(str.isalpha, text))
        for atom in reversed(self._atoms if text and not has_words else []):
            if not atom.mark or atom.text or atom.mark.is_space:
                return not (atom.mark.is_space if atom.mark else atom.characters.is_space)
        return False

    def _is_empty(self, number: int, end: int) -> bool:
        return self._filled[number] == self._filled[end]

    def _as_one(self, number: int, end: int) -> Atom:
        inside = self._tokens[number:end]
        raw = "".join(token.raw for token in inside)
        return Atom(raw, Mark(LONE, raw, is_space=any(token.kind == TEXT for token in inside)))

    def _divides(self, token: Token) -> bool:
        if token.kind == TEXT:
            return False
        if token.kind == OTHER:
            # A script's content is between its tags; a comment may stand within a sentence.
            return token.name in ("!", "?", "!DOCTYPE")
        return token.name in self._blocks

    def _flush(self, raw: str = "") -> Iterator[Segment | str]:
        if self._atoms:
            yield segment_of(self._atoms, self._spelled)
        if raw:
            yield raw
        self._atoms, self._spelled = [], {}

    def _tag(self, number: int, token: Token) -> Atom:
        partner = self._partners[number]
        if partner is None:
            return Atom(token.raw, Mark(LONE, token.raw, is_space=parts_words(token.raw)))
        kind = OPEN if number < partner else CLOSE
        before = self._tokens[number - 1] if number else None
        is_next_link = kind == OPEN and token.name == "a" == getattr(before, "name", "")
        mark = Mark(kind, token.raw, min(number, partner), is_space=is_next_link)
        return Atom(token.raw, mark)

    def _kept(self, number: int, end: int) -> Iterator[Segment | str]:
        inside = self._tokens[number:end]
        raw = "".join(token.raw for token in inside)
        if any(self._dividing[number:end]):
            yield from self._flush(raw)
            return
        text = self._visible(inside)
        if 0 < len(text) <= _MOST_KEPT_CHARACTERS and len(text.split()) <= _MOST_KEPT_WORDS:
            self._atoms.append(Atom(raw, Mark(KEPT, raw), None, text))
        else:
            self._atoms.append(Atom(raw, Mark(LONE, raw)))

    def _visible(self, tokens: Sequence[Token]) -> str:
        parts = []
        for token in tokens:
            if token.kind == TEXT:
                parts += [each.text for each in read_characters(token.raw, self._is_html, {})]
        return " ".join("".join(parts).split())


def _atom(characters: Characters) -> Atom:
    if not characters.is_kept:
        return Atom(characters.raw, None, characters)
    if characters.text.strip():
        return Atom(characters.raw, Mark(KEPT, characters.raw), None, characters.text)
    return Atom(characters.raw, Mark(LONE, characters.raw, is_space=bool(characters.text)))
