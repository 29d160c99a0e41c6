"""Samples subwords as SentencePiece does, but reproducibly.

SentencePiece's own generator gives different numbers in each process, even with the same seed.
"""

import array
import bisect
import functools
import itertools
import math
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.special_ids import EOS_ID, SPACE, UNKNOWN_ID

Draw = Callable[[], float]  # Returns a random number from 0 to 1.

# Maximum entries of the caches for divisions and for paths of words, some 50 MB each.
_MAX_DIVISIONS, _MAX_WORDS = 1 << 17, 1 << 14
# Longer words, such as lines without spaces, are rarely repeated, and not cached.
_MAX_CACHED_LENGTH = 20
# A character without a piece scores the lowest score of a piece plus this, as in SentencePiece.
_UNKNOWN_PENALTY = -10.0


class SubwordSampler:
    """Divides text into subwords at random, with a SentencePiece model.

    Args:
      model: its `ModelProto`, of kind bpe or unigram.
      processor: its `SentencePieceProcessor`.
      ids: ids of its pieces.
      sampling: `HParams.subword_sampling`, above 0.
      nbest: `HParams.subword_nbest`.

    Attributes:
      is_bpe: whether the model is of kind bpe, which does not use `nbest`.
    """

    def __init__(
        self, model: Any, processor: Any, ids: Mapping[str, int], sampling: float, nbest: int
    ):
        self._processor, self._ids = processor, ids
        self._sampling, self._nbest = sampling, nbest
        pieces = [piece for piece in model.pieces if piece.type in (piece.NORMAL, piece.UNUSED)]
        self._scores = {piece.piece: piece.score for piece in pieces}
        self._unused = {piece.piece for piece in pieces if piece.type == piece.UNUSED}
        self._scores_by_number = np.array([piece.score for piece in model.pieces])
        self._max_piece_length = max(map(len, self._scores), default=0)
        self._unknown_score = min(self._scores.values(), default=0.0) + _UNKNOWN_PENALTY
        symbols = [piece.piece for piece in model.pieces if piece.type == piece.USER_DEFINED]
        longest_first = map(re.escape, sorted(symbols, key=len, reverse=True))
        self._symbol_pattern = re.compile(f"({'|'.join(longest_first) or '(?!)'})")
        self._is_symbol = np.array([p.type == p.USER_DEFINED for p in model.pieces], int)
        # Words are divided one by one if no piece has a space inside.
        by_word = not any(SPACE in piece[1:] for piece in self._scores)
        self._word_pattern = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}" if by_word else ".+", re.S)
        self._log_keep = math.log1p(-sampling) if sampling < 1 else -math.inf
        self.is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
        self._cached_merge = functools.lru_cache(_MAX_DIVISIONS)(self._merge)
        self._cached_paths = functools.lru_cache(_MAX_WORDS)(self._find_paths)

    def sample(self, lines: Sequence[str], seeds: Sequence[str]) -> list[np.ndarray]:
        """Divides each line at random, as a function of the seed for the line.

        Returns ids in the form of `Tokenizer.encode`.
        """
        divide = self._divide if self.is_bpe or not self._nbest else self._draw_from_best
        encoded = []
        for line, seed in zip(lines, seeds, strict=True):
            ids = divide(line, random.Random(seed).random)
            ids.append(EOS_ID)
            encoded.append(np.frombuffer(ids, np.int32))
        return encoded

    def _divide(self, line: str, draw: Draw) -> array.array:
        draw_words = self._draw_merges if self.is_bpe else self._draw_paths
        ids = array.array("i")
        # Symbols, at odd indices, are never divided.
        for i, part in enumerate(self._symbol_pattern.split(self._processor.normalize(line))):
            if i % 2:
                ids += self._ids_of_piece(part)
            else:
                draw_words(self._word_pattern.findall(part), draw, ids)
        return ids

    def _draw_from_best(self, line: str, draw: Draw) -> array.array:
        """Draws one of the `nbest` likeliest divisions, weighted by likelihood ** sampling."""
        divisions = self._processor.nbest_encode(line, out_type=int, nbest_size=self._nbest)
        pieces = list(itertools.chain(*divisions))
        ids = array.array("i")
        if pieces:
            starts = np.cumsum([0, *map(len, divisions[:-1])])
            scores = np.add.reduceat(self._scores_by_number[pieces], starts)
            # Only the likeliest division is certain to keep all symbols whole.
            symbols = np.add.reduceat(self._is_symbol[pieces], starts)
            weights = np.exp(self._sampling * (scores - scores.max())) * (symbols == symbols[0])
            totals = np.cumsum(weights).tolist()
            index = bisect.bisect(totals, draw() * totals[-1], 0, len(totals) - 1)
            for number in divisions[index]:
                ids += self._ids_of_piece(self._processor.id_to_piece(number))
        return ids

    def _ids_of_piece(self, piece: str) -> array.array:
        """Returns the id of a piece, or the ids of its bytes."""
        if (piece_id := self._ids.get(piece)) is not None:
            return array.array("i", [piece_id])
        byte_pieces = (f"<0x{byte:02X}>" for byte in piece.encode())
        byte_ids = [self._ids.get(byte_piece, UNKNOWN_ID) for byte_piece in byte_pieces]
        return array.array("i", [UNKNOWN_ID] if UNKNOWN_ID in byte_ids else byte_ids)

    def _draw_merges(self, words: Sequence[str], draw: Draw, ids: array.array) -> None:
        """Adds ids by BPE-dropout (Provilkov et al., 2020), which skips random merges."""

        def draw_gap() -> int:
            """Draws the number of merges before the next one to skip."""
            return int(math.log(1 - draw()) / self._log_keep)

        skip_after = draw_gap()
        for word in words:
            if len(word) > _MAX_CACHED_LENGTH:
                ids += self._merge(
                    word, {i for i in range(3 * len(word)) if draw() < self._sampling}
                )[0]
                continue
            skipped: tuple[int, ...] = ()
            done = 0
            word_ids, num_tries = self._cached_merge(word, skipped)
            while skip_after < num_tries - done:
                skipped += (done + skip_after,)
                word_ids, num_tries = self._cached_merge(word, skipped)
                done, skip_after = skipped[-1] + 1, draw_gap()
            skip_after -= num_tries - done
            ids += word_ids

    def _merge(self, word: str, skipped: Collection[int]) -> tuple[array.array, int]:
        """Merges characters of a word, except at tries in `skipped`; returns (ids, num_tries)."""
        no_score, score_of = -math.inf, self._scores.get
        parts, num_tries, divisions = list(word), 0, {}
        scores = [
            score_of(left_piece + right_piece, no_score)
            for left_piece, right_piece in itertools.pairwise(parts)
        ]
        while scores and (best := max(scores)) > no_score:
            place = scores.index(best)
            if num_tries in skipped:
                # This pair is tried again only after one side has changed.
                scores[place] = no_score
            else:
                merged = parts[place] + parts[place + 1]
                if merged in self._unused:
                    divisions[merged] = parts[place : place + 2]
                parts[place : place + 2] = [merged]
                del scores[place]
                if place:
                    scores[place - 1] = score_of(parts[place - 1] + merged, no_score)
                if place < len(scores):
                    scores[place] = score_of(merged + parts[place + 1], no_score)
            num_tries += 1
        while not divisions.keys().isdisjoint(parts):
            parts = [piece for part in parts for piece in divisions.get(part, [part])]
        ids = array.array("i")
        for part in parts:
            ids += self._ids_of_piece(part)
        return ids, num_tries

    def _draw_paths(self, words: Sequence[str], draw: Draw, ids: array.array) -> None:
        """Adds ids by subword regularisation (Kudo, 2018); weights are likelihood ** sampling."""
        for word in words:
            find = self._cached_paths if len(word) <= _MAX_CACHED_LENGTH else self._find_paths
            paths, end, reversed_ids = find(word), len(word), []
            while end:
                totals, starts, pieces = paths[end]
                index = bisect.bisect(totals, draw() * totals[-1], 0, len(totals) - 1)
                reversed_ids.append(pieces[index])
                end = starts[index]
            for piece in reversed(reversed_ids):
                ids += piece

    def _find_paths(self, word: str) -> list[tuple[list[float], list[int], list[array.array]]]:
        """Returns the pieces that may end at each position: cumulative weights, starts, ids."""
        log_sums = [0.0]  # log(sum of the weights of all paths up to each end)
        paths: list[tuple[list[float], list[int], list[array.array]]] = [([], [], [])]
        for end in range(1, len(word) + 1):
            weights, starts, pieces = [], [], []
            for start in range(max(end - self._max_piece_length, 0), end):
                piece = word[start:end]
                score = None if piece in self._unused else self._scores.get(piece)
                if score is None and start == end - 1:
                    score = self._unknown_score
                if score is not None:
                    weights.append(log_sums[start] + self._sampling * score)
                    starts.append(start)
                    pieces.append(self._ids_of_piece(piece))
            top = max(weights)
            totals = list(itertools.accumulate(math.exp(weight - top) for weight in weights))
            log_sums.append(top + math.log(totals[-1]))
            paths.append((totals, starts, pieces))
        return paths
