"""Which words translate which, learned from parallel text by word alignment (IBM model 2).

Both directions are learned by expectation maximisation: a word of one side is made by a word of the
other, more likely by one at the same place in its sentence (Dyer et al., 2013), or by none.
"""

import functools
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.workbench.terms.glossary import Token, folded, tokens_of

# Words of lines with words of their translations, 20 bytes each; and so many at once.
_MOST_CELLS, _CELLS_AT_ONCE = 20_000_000, 1_000_000
_MOST_TOKENS = 100  # of a side; longer lines say little.
_ITERATIONS = 5
# Of Dyer et al. (2013): how much likelier words at the same place are, and words made by none.
_TENSION, _OF_NONE = 4.0, 0.08
# Translations less likely than that in one direction, and links of less, are left out.
_LEAST, _LEAST_LINK = 0.01, 0.02
_BITS = 32
_LOW = (1 << _BITS) - 1


class Lexicon:
    """Probabilities of words as translations of each other, capitals aside.

    Args:
      sources: the words of the source language, without repetition.
      targets: likewise.
      keys: int64 [entries], rising: number of a source word << 32 | number of a target word.
      scores: float32 [entries], probabilities in both directions, multiplied.
      counts: int64 [sources], how often each source word was read.
    """

    def __init__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        keys: np.ndarray,
        scores: np.ndarray,
        counts: np.ndarray,
    ):
        self.sources, self.targets = list(sources), list(targets)
        self._keys, self._scores, self._counts = keys, scores, counts
        self._numbers = [
            {word: i for i, word in enumerate(side)} for side in (self.sources, self.targets)
        ]

    def __len__(self) -> int:
        return len(self._keys)

    def to_bytes(self) -> bytes:
        """Returns the content of a file, which is the same for the same lexicon."""
        file = io.BytesIO()
        words = ["\n".join(side).encode() for side in (self.sources, self.targets)]
        sources, targets = (np.frombuffer(side, np.uint8) for side in words)
        np.savez_compressed(
            file,
            sources=sources,
            targets=targets,
            keys=self._keys,
            scores=self._scores,
            counts=self._counts,
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Lexicon":
        """Reads what `to_bytes` returned."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            sides = [file[name].tobytes().decode() for name in ("sources", "targets")]
            arrays = [file[name] for name in ("keys", "scores", "counts")]
        return cls(*(side.split("\n") if side else [] for side in sides), *arrays)

    def without(self, sources: Iterable[str], targets: Iterable[str] = ()) -> "Lexicon":
        """Returns a lexicon without what it says of some words."""
        kept = np.ones(len(self), bool)
        for numbers, words, of_side in zip(
            self._numbers, (sources, targets), (self._keys >> _BITS, self._keys & _LOW), strict=True
        ):
            kept &= ~np.isin(of_side, [numbers.get(folded(word), -1) for word in words])
        arrays = self._keys[kept], self._scores[kept], self._counts
        return Lexicon(self.sources, self.targets, *arrays)

    def count(self, source: str) -> int:
        """Returns how often a source word was read."""
        number = self._numbers[0].get(folded(source))
        return 0 if number is None else int(self._counts[number])

    def translations(self, source: str) -> dict[str, float]:
        """Returns what a source word may become, with the scores, the likeliest first."""
        number = self._numbers[0].get(folded(source), -1)
        first, end = np.searchsorted(self._keys, [number << _BITS, (number + 1) << _BITS])
        order = first + np.argsort(-self._scores[first:end], kind="stable")
        numbers = self._keys[order] & _LOW
        words = [self.targets[i] for i in numbers.tolist()]
        return dict(zip(words, self._scores[order].tolist(), strict=True))

    def links(self, source: Sequence[Token], target: Sequence[Token]) -> list[tuple[int, int]]:
        """Aligns a line with its translation.

        Returns:
          Pairs (number of a source token, number of a target token), rising: words each of which
          is the likeliest translation of the other among those of the pair.
        """
        if not source or not target or not len(self):
            return []
        rows, columns = (
            np.array([numbers.get(folded(token.text), -1) for token in side], np.int64)
            for numbers, side in zip(self._numbers, (source, target), strict=True)
        )
        keys = (rows[:, None] << _BITS) | columns
        places = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        known = (self._keys[places] == keys) & (rows >= 0)[:, None] & (columns >= 0)
        likely = np.where(known, self._scores[places], 0) * _closeness(len(source), len(target))
        best = likely.argmax(axis=1)
        mutual = likely.argmax(axis=0)[best] == np.arange(len(source))
        linked = mutual & (likely[np.arange(len(source)), best] >= _LEAST_LINK)
        return [(int(row), int(best[row])) for row in np.flatnonzero(linked)]


def affordable_pairs(sample: Sequence[tuple[str, str]]) -> int:
    """Returns from how many pairs as these `learn_lexicon` learns, so that memory holds them."""
    cells = sum(len(source) * len(target) for source, target in map(_words, sample))
    return max(_MOST_CELLS * len(sample) // max(cells, 1), 1)


def learn_lexicon(pairs: Iterable[tuple[str, str]]) -> Lexicon:
    """Learns a lexicon from lines and their translations; the same ones give the same lexicon.

    Pairs with a side of more than 100 words are left out, and those after `affordable_pairs`.
    """
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    rows, cells = [], 0
    for words in map(_words, pairs):
        size = len(words[0]) * len(words[1])
        if size and (cells := cells + size) <= _MOST_CELLS:
            sides = zip(numbers, words, strict=True)
            rows.append(
                [np.array([known.setdefault(w, len(known)) for w in side]) for known, side in sides]
            )
    sources, targets = map(list, numbers)
    if not rows:
        none = np.zeros(0, np.int64)
        return Lexicon([], [], none, none.astype(np.float32), none)
    found = _Cells(rows)
    forward, backward = found.probabilities(0), found.probabilities(1)
    kept = np.minimum(forward, backward) >= _LEAST
    scores = (forward * backward)[kept].astype(np.float32)
    return Lexicon(sources, targets, found.keys[kept], scores, np.bincount(found.words[0]))


def _words(pair: Sequence[str]) -> list[list[str]]:
    sides = [[folded(token.text) for token in tokens_of(text)] for text in pair]
    return sides if max(map(len, sides)) <= _MOST_TOKENS else [[], []]


class _Cells:
    """Each word of a line with each of its translation.

    Args:
      rows: of each pair, the numbers of the words of its sides.

    Attributes:
      keys: int64 [entries], the different pairs of words, as of `Lexicon`.
      words: of each side, int64 [tokens], the numbers of the words of all lines.
    """

    def __init__(self, rows: Sequence[Sequence[np.ndarray]]):
        self.words = [np.concatenate([row[side] for row in rows]) for side in (0, 1)]
        blocks = list(_blocks(rows))
        different = [np.unique(block.keys) for block in blocks]
        self.keys = np.unique(np.concatenate(different))
        self._blocks = [
            block._replace(keys=np.searchsorted(self.keys, block.keys).astype(np.int32))
            for block in blocks
        ]

    def probabilities(self, side: int) -> np.ndarray:
        """Returns of each key how likely its word of a side becomes the one of the other side."""
        other = 1 - side
        makers = self.keys >> _BITS if side == 0 else self.keys & _LOW
        made = self.words[other]
        found, of_none = np.ones(len(self.keys)), np.ones(made.max() + 1)
        for _ in range(_ITERATIONS):
            counts, left = np.zeros(len(self.keys)), np.zeros(len(of_none))
            for block in self._blocks:
                first, end = block.first[other], block.end[other]
                likely = found[block.keys] * block.priors[side] * (1 - _OF_NONE)
                none = _OF_NONE * of_none[made[first:end]]
                total = np.bincount(block.tokens[other], likely, end - first) + none
                likely /= total[block.tokens[other]]
                np.add.at(counts, block.keys, likely)
                np.add.at(left, made[first:end], none / total)
            found = counts / np.bincount(makers, counts)[makers]
            of_none = left / left.sum()
        return found


class _Block(NamedTuple):
    """The cells of some lines.

    Of both sides: the numbers of their tokens, from that of the first one in the block on; how
    likely a word of the side makes one of the other by their places; and the first and the last
    token, which is not the block's.
    """

    keys: np.ndarray
    tokens: tuple[np.ndarray, np.ndarray]
    priors: tuple[np.ndarray, np.ndarray]
    first: tuple[int, int]
    end: tuple[int, int]


def _blocks(rows: Sequence[Sequence[np.ndarray]]) -> Iterator[_Block]:
    first, number = (0, 0), 0
    while number < len(rows):
        keys: list[np.ndarray] = []
        tokens: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        priors: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        end, cells = list(first), 0
        while number < len(rows) and cells < _CELLS_AT_ONCE:
            source, target = rows[number]
            near = _closeness(len(source), len(target))
            keys.append(((source[:, None] << _BITS) | target).ravel())
            for side, indices in enumerate(np.indices(near.shape, np.int32)):
                tokens[side].append((indices + np.int32(end[side] - first[side])).ravel())
                priors[side].append((near / near.sum(axis=side, keepdims=True)).ravel())
                end[side] += near.shape[side]
            cells, number = cells + near.size, number + 1
        following = end[0], end[1]
        yield _Block(np.concatenate(keys), _joined(tokens), _joined(priors), first, following)
        first = following


def _joined(sides: tuple[list[np.ndarray], list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(sides[0]), np.concatenate(sides[1])


@functools.lru_cache(4096)
def _closeness(sources: int, targets: int) -> np.ndarray:
    """Returns float32 [sources, targets], how likely words are aligned for their places alone."""
    rows, columns = ((np.arange(count) + 0.5) / count for count in (sources, targets))
    return np.exp(-_TENSION * np.abs(rows[:, None] - columns)).astype(np.float32)
