"""Reads glossaries, finds their terms in text, and adds hints on how to translate the terms.

"The ⟪ dog ⟪ Köter ⟫ sleeps." tells a model that was trained with hints to translate "dog" as
"Köter". The marks are separate words, and pieces of the vocabulary.
"""

import bisect
import dataclasses
import functools
import itertools
import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import Alignment, word_spans
from t2t_keras.text.files import is_blank, is_text, normalized, read_text, replace_spans, trimmed
from t2t_keras.text.sentences import KATAKANA, UNSPACED_SCRIPTS
from t2t_keras.workbench.placeholders import find as find_placeholders

MARKS = (
    "\N{MATHEMATICAL LEFT DOUBLE ANGLE BRACKET}",
    "\N{MATHEMATICAL RIGHT DOUBLE ANGLE BRACKET}",
)
_NO_MARKS = f"[^{''.join(MARKS)}]*"
_HINT = re.compile(f"{MARKS[0]} ({_NO_MARKS}) {MARKS[0]} {_NO_MARKS} {MARKS[1]}")


def with_hints(text: str, hints: Iterable[tuple[int, int, str]]) -> str:
    """Adds hints to a text.

    Args:
      text: a text without marks.
      hints: (start, end, hint) of terms in the text, in order.
    """
    hinted_terms = (
        (start, end, f"{MARKS[0]} {text[start:end]} {MARKS[0]} {hint} {MARKS[1]}")
        for start, end, hint in hints
    )
    return replace_spans(text, hinted_terms)


def without_hints(text: str) -> str:
    """Undoes `with_hints`."""
    return _HINT.sub(r"\1", text)


def positions_with_hints(hinted: str, length: int) -> list[int]:
    """Converts each position in a text, including its end, to a position in the text with hints.

    The position after a term becomes the position after its hint.

    Args:
      hinted: the text with hints, perhaps after control tokens.
      length: length of the text without hints.
    """
    positions = [position for position, _, is_text in _positions(hinted) if is_text]
    return [*positions, len(hinted)][len(positions) - length :]


def has_marks(text: str) -> bool:
    """Returns whether a text contains a mark, so that hints cannot be added."""
    return any(mark in text for mark in MARKS)


def original_word_numbers(hinted: str) -> list[int]:
    """Maps each word of a text with hints to the number of a word in the text without hints.

    Words of a hint map to the last word of its term. `word_numbers` numbers words the same way.
    """
    plain = without_hints(hinted)
    starts = [start for start, _ in word_spans(plain)]
    numbers = [bisect.bisect(starts, position) - 1 for position in range(len(plain))]
    positions = [position for _, position, _ in _positions(hinted)]
    return [max(numbers[positions[start]], 0) for start, _ in word_spans(hinted)]


def _positions(hinted: str) -> Iterator[tuple[int, int, bool]]:
    """Yields (position with hints, position without hints, whether the character is text).

    The mark before a term maps to the term's start, and a hint to the term's last character.
    """
    text_start = plain = 0
    for hint in [*_HINT.finditer(hinted), None]:
        text_end = hint.start() if hint else len(hinted)
        yield from zip(range(text_start, text_end), itertools.count(plain), itertools.repeat(True))
        if not hint:
            break
        plain += text_end - text_start
        term_start, term_end = hint.span(1)
        yield from ((i, plain, False) for i in range(text_end, term_start))
        yield from zip(range(term_start, term_end), itertools.count(plain), itertools.repeat(True))
        plain += term_end - term_start
        text_start = hint.end()
        yield from ((i, max(plain - 1, 0), False) for i in range(term_end, text_start))


def without_hint_words(alignment: Alignment, hinted: str) -> list[tuple[int, int]]:
    """Converts an alignment of a text with hints to one of the text without hints."""
    numbers = original_word_numbers(hinted)
    pairs = ((numbers[source], target) for source, target in alignment)
    return list(dict.fromkeys(pairs))


# White space between words and lines; a no-break space is part of a term.
_SPACES = re.compile(r"[ \t-\r\x1c-\x1f\x85\u2028\u2029]+")
_MAX_CHARACTERS = 1_024  # maximum length of either side of a term
_MAX_TOKENS = 200  # maximum words and signs of a term's source


class Trie:
    """A prefix tree: sequences of keys, each with values."""

    def __init__(self) -> None:
        # Each node maps keys to nodes, and None to the values of the sequence that ends there.
        self._root: dict[Any, Any] = {}

    def add(self, keys: Sequence[Hashable], value: Any) -> None:
        """Adds a value under a sequence of keys; None is not a key."""
        node = self._root
        for key in keys:
            node = node.setdefault(key, {})
        node.setdefault(None, []).append(value)

    def find(
        self, keys: Sequence[Hashable], first_keys: Sequence[Hashable] = ()
    ) -> Iterator[tuple[int, int, list[Any]]]:
        """Yields (start, end, values) of each occurrence of an added sequence.

        Args:
          keys: the keys to search.
          first_keys: keys to compare with the first key of a sequence; empty = `keys`.
        """
        for start, key in enumerate(first_keys or keys):
            node, end = self._root.get(key), start + 1
            while node is not None:
                if None in node:
                    yield start, end, node[None]
                node = node.get(keys[end]) if end < len(keys) else None
                end += 1


@dataclasses.dataclass(frozen=True)
class Term:
    """An entry of a glossary.

    Attributes:
      source: words of a source text.
      target: their translation.
      note: a comment.
    """

    source: str
    target: str
    note: str = ""


class Match(NamedTuple):
    """A term in a text, with its start and end."""

    start: int
    end: int
    term: Term


class Glossary:
    """Terms and their translations; see `read` and `of`. Iterable, with a length.

    Args:
      terms: terms that `read` or `of` has checked; also an attribute.
    """

    def __init__(self, terms: Sequence[Term] = ()):
        self.terms = tuple(terms)
        # Each value maps exact words to a term, or () to a term whose case is ignored.
        self._trie = Trie()
        by_keys: dict[tuple, dict[tuple, Term]] = {}
        for term in self.terms:
            tokens = tokens_of(term.source)
            keys = tuple(_keys(tokens))
            if keys not in by_keys:
                by_keys[keys] = {}
                self._trie.add(keys, by_keys[keys])
            by_keys[keys].setdefault(_exact_words(term, tokens), term)

    @classmethod
    def read(cls, path: str | Path) -> "Glossary":
        """Reads lines "source<tab>target" or "source<tab>target<tab>note"; skips blank lines.

        Raises:
          UserError: the file cannot be read, or a line is wrong.
        """
        rows = []
        for number, line in enumerate(read_text(Path(expand_path(path))), 1):
            if not is_blank(line):
                rows.append((f"{path}:{number}", line.split("\t")))
        return cls(_terms(rows))

    @classmethod
    def of(cls, pairs: Iterable[Sequence[str]], first_counts: bool = False) -> "Glossary":
        """Builds a glossary from terms (source, target) or (source, target, note).

        Args:
          pairs: the terms.
          first_counts: whether to use the first of several targets for a source; otherwise
            several targets are an error.

        Raises:
          UserError: a term is invalid, or a source has several targets.
        """
        rows = ((f"Term {number}", pair) for number, pair in enumerate(pairs, 1))
        return cls(_terms(rows, first_counts))

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def matches(self, text: str) -> list[Match]:
        """Returns the terms in a text, in order; of overlapping terms, only the longest.

        Terms match whole words. Case is ignored, except in terms with a capital after the first
        letter, such as "GmbH". Placeholders, such as "%(file)s", contain no terms.
        """
        tokens, is_used = tokens_of(text), bytearray(len(text))
        keys, candidates = _keys(tokens), []
        first_keys = [(key, False) for key, _ in keys]
        for first, end, [terms] in self._trie.find(keys, first_keys):
            exact = () if terms.keys() == {()} else tuple(token.text for token in tokens[first:end])
            for key in dict.fromkeys([exact, ()]):
                if term := terms.get(key):
                    candidates.append(Match(tokens[first].start, tokens[end - 1].end, term))
        if candidates:
            for start, end, _ in find_placeholders(text):
                is_used[start:end] = b"\1" * (end - start)
        # Longest first; of equal length, terms whose case matters first; then by position.
        candidates.sort(
            key=lambda match: (match.start - match.end, not has_capitals(match.term.source))
        )
        chosen_matches = []
        for match in candidates:
            if not any(is_used[match.start : match.end]):
                is_used[match.start : match.end] = b"\1" * (match.end - match.start)
                chosen_matches.append(match)
        return sorted(chosen_matches, key=lambda match: match.start)


def _terms(rows: Iterable[tuple[str, Sequence[str]]], first_counts: bool = False) -> list[Term]:
    """Returns the checked terms of rows (origin, columns); equal terms count once."""
    by_key: dict[tuple, tuple[str, Term]] = {}
    for origin, columns in rows:
        term = _term(origin, columns)
        tokens = tokens_of(term.source)
        if len(tokens) > _MAX_TOKENS:
            raise UserError(
                f"{origin}: expected a source of at most {_MAX_TOKENS} words and signs, got "
                f"{len(tokens)}: '{term.source[:40]}...'.",
                code="too_long",
            )
        key = tuple(_keys(tokens)), _exact_words(term, tokens)
        earlier_origin, first = by_key.setdefault(key, (origin, term))
        if first.target != term.target and not first_counts:
            raise UserError(
                f"{origin}: '{term.source}' has the target '{term.target}', but '{first.target}' "
                f"in {earlier_origin}. Leave one of them out.",
                code="terms_conflict",
            )
    return [term for _, term in by_key.values()]


def _term(origin: str, columns: Sequence[str]) -> Term:
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise UserError(
            f"{origin}: expected strings as source and target, got {columns!r:.80}.",
            code="bad_value",
        )
    if not 2 <= len(columns) <= 3:
        raise UserError(
            f"{origin}: expected source<tab>target, or source<tab>target<tab>note, got "
            f"{len(columns)} columns: {'<tab>'.join(columns)!a:.80}.",
            code="bad_line",
        )
    cells = (trimmed(normalized(column)) for column in (*columns, "")[:3])
    source, target, note = (_SPACES.sub(" ", cell) for cell in cells)
    for side, text in (("source", source), ("target", target)):
        if is_blank(text):
            raise UserError(f"{origin}: the {side} is blank.", code="blank")
        if not is_text(text):
            raise UserError(f"{origin}: the {side} is not valid text.", code="invalid_text")
        if len(text) > _MAX_CHARACTERS:
            raise UserError(
                f"{origin}: expected a {side} of at most {_MAX_CHARACTERS:,} characters, got "
                f"{len(text):,}: '{text[:40]}...'.",
                code="too_long",
            )
        if any(mark in text for mark in MARKS):
            raise UserError(
                f"{origin}: a term cannot contain the marks {' and '.join(MARKS)}.",
                code="reserved_text",
            )
    return Term(source, target, note)


class WordToken(NamedTuple):
    """A word or a sign of a text, in NFC, with its start and end."""

    text: str
    start: int
    end: int


@functools.cache
def _token_pattern() -> re.Pattern:
    """Returns a pattern of words and signs; accents and vowel signs belong to their letter."""
    codes = range(0x20000)
    accents = [chr(i) for i in codes if unicodedata.category(chr(i)) in ("Mn", "Mc", "Me")]
    joiners = "".join(map(re.escape, accents)) + "\u200c\u200d"
    letter = rf"[^\W{UNSPACED_SCRIPTS}{KATAKANA}]"
    return re.compile(
        rf"[{UNSPACED_SCRIPTS}][{joiners}]*|[{KATAKANA}]+|{letter}(?:{letter}|[{joiners}])*|[^\w\s]"
    )


def tokens_of(text: str) -> list[WordToken]:
    """Returns the words and signs of a text."""
    matches = _token_pattern().finditer(text)
    return [WordToken(normalized(match[0]), *match.span()) for match in matches]


def _keys(tokens: Sequence[WordToken]) -> list[tuple[str, bool]]:
    """Returns (text for comparison, whether a space precedes) for each token."""
    ends_before = [token.start for token in tokens[:1]] + [token.end for token in tokens]
    pairs = zip(tokens, ends_before, strict=False)
    return [(folded(token.text), token.start > end_before) for token, end_before in pairs]


def folded(text: str) -> str:
    """Returns a text for case-insensitive comparison."""
    return normalized(text.casefold())


@functools.lru_cache(1 << 14)
def has_capitals(text: str) -> bool:
    """Returns whether a term has a capital after its first letter, so that case matters."""
    return any(map(str.isupper, text[1:]))


def _exact_words(term: Term, tokens: Sequence[WordToken]) -> tuple[str, ...]:
    """Returns the words of a term if their case matters, or ()."""
    return tuple(token.text for token in tokens) if has_capitals(term.source) else ()
