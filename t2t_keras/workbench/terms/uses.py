"""Finds the terms of a glossary in a translation: exact, inflected, or missing."""

import bisect
import functools
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.text.alignment import Alignment, word_spans
from t2t_keras.workbench.terms.glossary import (
    Match,
    Trie,
    WordToken,
    folded,
    has_capitals,
    tokens_of,
)

EXACT, INFLECTED, MISSING = KINDS = ("exact", "inflected", "missing")

# Minimum common prefix of two forms of a word: share of the longer form, and number of letters.
_MIN_SHARED_RATIO, _MIN_LETTERS = 0.6, 3
# Maximum words of an inflected term; maximum positions to compare, in all and near the alignment.
_MAX_FORM_WORDS, _MAX_TRIED, _MAX_NEAR = 16, 64, 16


class Use(NamedTuple):
    """The use of a term in a translation.

    Attributes:
      match: the term in the source.
      kind: "exact" = the translation has the term's target; "inflected" = it has another form of
        the target, aligned with the term's source or an adjacent word; "missing".
    """

    match: Match
    kind: str


def same_stem(a: str, b: str) -> bool:
    """Returns whether two words may be forms of the same word: Haus, Häuser, Hauses.

    Ignoring accents and case, their common prefix must have 60 % of the longer word's letters, and
    at least 3.
    """
    a, b = _unaccented(a), _unaccented(b)
    shared = _prefix_length(a, b)
    return shared >= max(_MIN_LETTERS, _MIN_SHARED_RATIO * max(len(a), len(b))) or a == b


def _prefix_length(a: str, b: str) -> int:
    """Returns the length of the common prefix of two words."""
    pairs = zip(a, b, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_form(word: str, target: str, source_words: Sequence[str]) -> bool:
    """Returns whether a word is a form of a term's target, rather than of its source."""
    shared = _prefix_length(_unaccented(word), _unaccented(target))
    return same_stem(word, target) and all(
        _prefix_length(_unaccented(word), _unaccented(source_word)) <= shared
        for source_word in source_words
    )


@functools.lru_cache(1 << 16)
def _unaccented(word: str) -> str:
    """Returns a word in lower case, without accents."""
    letters = unicodedata.normalize("NFD", word.casefold())
    return "".join(sign for sign in letters if not unicodedata.combining(sign))


def find_uses(
    source: str,
    matches: Sequence[Match],
    target: str,
    alignment: Alignment | None = None,
    anywhere: bool = False,
) -> list[Use]:
    """Returns the use of each term.

    Each occurrence in the translation counts for one term only; the longest terms come first. A
    source word left untranslated is not a form of a term: "password" is no form of "Passwort".
    Takes time linear in the texts and the matches.

    Args:
      source: the text.
      matches: the terms in it.
      target: its translation.
      alignment: alignment of their words; None = unknown, so inflected forms are not found.
      anywhere: whether to find inflected forms anywhere, without an alignment.
    """
    words = _Words(target, [match.term.target for match in matches])
    aligned_tokens = _AlignedTokens(source, target, words.tokens, alignment or ())
    kinds = [MISSING] * len(matches)
    order = sorted(range(len(matches)), key=lambda number: -len(matches[number].term.target))
    for kind in (EXACT, INFLECTED)[: 1 if alignment is None and not anywhere else 2]:
        for number in order:
            if kinds[number] == MISSING:
                match = matches[number]
                nearby = aligned_tokens.near(match)
                is_found = (
                    words.take_exact(match.term.target, nearby)
                    if kind == EXACT
                    else words.take_form(
                        match.term.target, source[match.start : match.end], nearby, anywhere
                    )
                )
                kinds[number] = kind if is_found else MISSING
    return [Use(match, kind) for match, kind in zip(matches, kinds, strict=True)]


class _Words:
    """The words of a translation; each belongs to at most one term."""

    def __init__(self, target: str, terms: Iterable[str]):
        self.tokens = tokens_of(target)
        self._free = [True] * len(self.tokens)
        self._terms = {term: tokens_of(term) for term in dict.fromkeys(terms)}
        self._starts: dict[str, list[int]] = {term: [] for term in self._terms}
        self._num_used: Counter = Counter()  # for each term, the number of used starts
        trie = Trie()
        for term, tokens in self._terms.items():
            trie.add([folded(token.text) for token in tokens], term)
        for start, end, matches in trie.find([folded(token.text) for token in self.tokens]):
            for term in matches:
                words = [token.text for token in self._terms[term]]
                actual = [token.text for token in self.tokens[start:end]]
                if not has_capitals(term) or words == actual:
                    self._starts[term].append(start)

    def take_exact(self, term: str, nearby: Sequence[int]) -> bool:
        """Takes a free occurrence, preferably near the alignment; returns whether there is one."""
        starts, length = self._starts[term], len(self._terms[term])
        while self._num_used[term] < len(starts) and not self._is_free(
            starts[self._num_used[term]], length
        ):
            self._num_used[term] += 1
        first_free = starts[self._num_used[term] : self._num_used[term] + 1]
        for place in nearby if first_free else ():
            first = bisect.bisect_right(starts, place - length)
            for start in starts[first : first + _MAX_NEAR]:
                if start <= place and self._is_free(start, length):
                    return self._take(start, length)
        return bool(first_free) and self._take(first_free[0], length)

    def take_form(self, term: str, source: str, nearby: Sequence[int], anywhere: bool) -> bool:
        """Takes an inflected form of a term near the alignment; returns whether there is one."""
        words = [token.text for token in self._terms[term]]
        if not words or len(words) > _MAX_FORM_WORDS:
            return False
        if anywhere:
            candidates: Iterable[int] = self._by_stem.get(_unaccented(words[0])[:_MIN_LETTERS], ())
        else:
            starts = (range(place - len(words) + 1, place + 1) for place in nearby)
            candidates = sorted(set(itertools.chain.from_iterable(starts)))
        source_words = [token.text for token in tokens_of(source)][:_MAX_FORM_WORDS]
        for start in itertools.islice(candidates, _MAX_TRIED):
            if self._is_free(start, len(words)) and all(
                _is_form(token.text, word, source_words)
                for token, word in zip(self.tokens[start : start + len(words)], words, strict=True)
            ):
                return self._take(start, len(words))
        return False

    @functools.cached_property
    def _by_stem(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, token in enumerate(self.tokens):
            numbers.setdefault(_unaccented(token.text)[:_MIN_LETTERS], []).append(number)
        return numbers

    def _is_free(self, start: int, length: int) -> bool:
        end = start + length
        return start >= 0 and end <= len(self._free) and all(self._free[start:end])

    def _take(self, start: int, length: int) -> bool:
        self._free[start : start + length] = [False] * length
        return True


class _AlignedTokens:
    """The words of a translation aligned with a term, or with an adjacent word.

    Attention often points to the adjacent word.
    """

    def __init__(self, source: str, target: str, tokens: Sequence[WordToken], alignment: Alignment):
        self._starts, self._ends = [], []
        self._tokens_by_word: dict[int, list[int]] = {}
        self._token_cache: dict[tuple[int, int], list[int]] = {}
        if alignment:
            spans = word_spans(source)
            self._starts, self._ends = ([span[side] for span in spans] for side in (0, 1))
            ends = [end for _, end in word_spans(target)]
            by_target: dict[int, list[int]] = {}
            for number, token in enumerate(tokens):
                by_target.setdefault(bisect.bisect_right(ends, token.start), []).append(number)
            for word, target_word in alignment:
                self._tokens_by_word.setdefault(word, []).extend(by_target.get(target_word, ()))

    def near(self, match: Match) -> list[int]:
        """Returns the numbers of aligned tokens, in order, at most `_MAX_NEAR`."""
        first = bisect.bisect_right(self._ends, match.start)
        end = bisect.bisect_left(self._starts, match.end)
        if (first, end) not in self._token_cache:
            aligned = (self._tokens_by_word.get(word, ()) for word in range(first - 1, end + 1))
            numbers = sorted(set(itertools.chain.from_iterable(aligned)))
            self._token_cache[first, end] = numbers[:_MAX_NEAR]
        return self._token_cache[first, end]


def aligned_word_numbers(source: str, match: Match, alignment: Alignment) -> set[int]:
    """Returns the numbers of the target's words that are aligned with words of a term."""
    words = source_word_numbers(source, match)
    return {target for number, target in alignment if number in words}


def source_word_numbers(source: str, match: Match) -> set[int]:
    """Returns the numbers of the source's words that overlap a term."""
    spans = enumerate(word_spans(source))
    return {number for number, (start, end) in spans if start < match.end and match.start < end}
