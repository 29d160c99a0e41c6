"""Whether a translation has the terms that it should have: as they are, inflected, or not."""

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.text.alignment import Alignment, word_spans
from t2t_keras.text.glossary import Match, Token, folded, has_capitals, tokens_of

EXACT, INFLECTED, MISSING = KINDS = ("exact", "inflected", "missing")

# Of the letters of the longer of two forms of a word, those that both begin with, and the fewest.
_SHARED, _FEWEST = 0.6, 3


class Use(NamedTuple):
    """What became of a term of a source.

    Attributes:
      match: where it is in the source.
      kind: "exact" = the translation has its target; "inflected" = another form of it, aligned
        with the source of the term or a word beside; "missing".
    """

    match: Match
    kind: str


def same_stem(one: str, other: str) -> bool:
    """Returns whether two words begin alike enough to be forms of one: Haus, Häuser, Hauses.

    Of the longer one at least 60 % of the letters, and 3; accents and capitals aside.
    """
    one, other = _bare(one), _bare(other)
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared >= max(_FEWEST, _SHARED * max(len(one), len(other))) or one == other


@functools.lru_cache(1 << 16)
def _bare(word: str) -> str:
    letters = unicodedata.normalize("NFD", word.casefold())
    return "".join(each for each in letters if not unicodedata.combining(each))


def find_uses(
    source: str, matches: Sequence[Match], target: str, alignment: Alignment | None = None
) -> list[Use]:
    """Returns what became of each term.

    Each occurrence in the translation is of one term only, and the longest are found first.

    Args:
      source: the text.
      matches: of terms in it.
      target: its translation.
      alignment: of their words; None = unknown, and no inflected form is found.
    """
    tokens = tokens_of(target)
    free, kinds = [True] * len(tokens), [MISSING] * len(matches)
    order = sorted(range(len(matches)), key=lambda number: -len(matches[number].term.target))
    places = [_places(source, match, target, tokens, alignment) for match in matches]
    for kind in (EXACT, INFLECTED)[: 1 if alignment is None else 2]:
        for number in order:
            if kinds[number] == MISSING:
                term = tokens_of(matches[number].term.target)
                found = _find(matches[number], term, tokens, free, places[number], kind)
                if found is not None:
                    kinds[number] = kind
                    free[found : found + len(term)] = [False] * len(term)
    return [Use(match, kind) for match, kind in zip(matches, kinds, strict=True)]


def may_be_inflected(use: Use, target: str) -> bool:
    """Returns whether a term that is missing may be there in another form, at whatever place."""
    words = [token.text for token in tokens_of(target)]
    return use.kind == MISSING and all(
        any(same_stem(each, token.text) for each in words)
        for token in tokens_of(use.match.term.target)
    )


def _places(
    source: str, match: Match, target: str, tokens: Sequence[Token], alignment: Alignment | None
) -> set[int]:
    """Returns the target's tokens in words that are aligned with a term's, or one beside them.

    Attention often looks at the word beside.
    """
    words = {near for word in words_of(source, match) for near in (word - 1, word, word + 1)}
    aligned = {to for number, to in alignment or () if number in words}
    spans = word_spans(target) if aligned else []
    return {
        number
        for number, token in enumerate(tokens)
        if any(spans[word][0] <= token.start < spans[word][1] for word in aligned)
    }


def aligned_words(source: str, match: Match, alignment: Alignment) -> set[int]:
    """Returns the numbers of the target's words that are aligned with those of a term."""
    words = words_of(source, match)
    return {target for number, target in alignment if number in words}


def words_of(source: str, match: Match) -> set[int]:
    """Returns the numbers of the source's words that a term is in."""
    spans = enumerate(word_spans(source))
    return {number for number, (start, end) in spans if start < match.end and match.start < end}


def _find(
    match: Match,
    term: Sequence[Token],
    tokens: Sequence[Token],
    free: Sequence[bool],
    places: Iterable[int],
    kind: str,
) -> int | None:
    """Returns the first token of an occurrence, best one at the term's place."""
    capitals, found = has_capitals(match.term.target), None
    for first in range(len(tokens) - len(term) + 1):
        there = tokens[first : first + len(term)]
        at_place = any(first <= place < first + len(term) for place in places)
        if not all(free[first : first + len(term)]) or not (at_place or kind == EXACT):
            continue
        pairs = list(zip(there, term, strict=True))
        if kind == INFLECTED:
            fits = all(same_stem(each.text, other.text) for each, other in pairs)
        elif capitals:
            fits = all(each.text == other.text for each, other in pairs)
        else:
            fits = all(folded(each.text) == folded(other.text) for each, other in pairs)
        if fits and at_place:
            return first
        if fits and found is None:
            found = first
    return found
