"""Hypotheses of lines, as an engine finds them, and which of them is taken."""

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.decoding.aligning import align_pairs
from t2t_keras.decoding.batching import parallel_batches, shared_batches
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.decoding.source_text import Source
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.placeholders.repair import number_broken, repaired
from t2t_keras.text.terms.hints import has_marks
from t2t_keras.text.tokenizer import Tokenizer

# A part of a line: the number of the line, and that of the part in it.
_Part = tuple[int, int]


class Candidates(NamedTuple):
    """The translations of a line.

    Attributes:
      parts: hypotheses of each part as the model wrote them, the one that is taken first.
      broken: number of placeholders that were repaired in what is taken.
      chosen: the most hypotheses of a part that were not taken, for their placeholders.
    """

    parts: list[list[Hypothesis]]
    broken: int = 0
    chosen: int = 0

    def joined(self, source: Source, prefix: np.ndarray, config: DecodeConfig) -> Translation:
        """Returns a line's translation from the hypotheses of its parts, best joined with best."""
        if not self.parts:
            return Translation("", 0.0)
        hypotheses = tuple(
            Hypothesis(
                source.shield.restore(" ".join(each.text for each in ranked)),
                sum(each.score for each in ranked),
            )
            for ranked in zip(*self.parts, strict=False)
        )
        # Its end is not a prefix's.
        most = config.longest_output(len(source.parts[0])) - 1
        return Translation(
            hypotheses[0].text,
            hypotheses[0].score,
            hypotheses,
            parts=tuple(found[0].text for found in self.parts),
            cut=source.cut,
            prefix_cut=max(len(prefix) - most, 0),
            broken=self.broken,
            chosen=self.chosen,
        )


class CandidateSearch:
    """Searches for the translations of lines.

    Args:
      engine: searches.
      tokenizer: of the outputs.
      config: its settings.
      align: chooses pairs of words, as `Problem.align`.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, config: DecodeConfig, align: Callable):
        self._engine, self._tokenizer, self._config = engine, tokenizer, config
        self._align = align

    def find(
        self,
        sources: Sequence[Source],
        prefixes: Sequence[np.ndarray],
        first_number: int,
        progress: Callable[[int], object],
        check: bool,
        missing: Callable[[str, str], int] | None = None,
    ) -> list[Candidates]:
        """Returns the candidates for each line.

        Args:
          sources: the lines.
          prefixes: how their translations begin, without an end.
          first_number: number of the first line, which the draws of samples depend on.
          progress: takes the number of further parts that are done.
          check: whether placeholders are checked. The first hypothesis that has those of its part
            is taken. Where none has, the best one is repaired.
          missing: returns how many terms a translation of a source with hints lacks; of the beam's
            hypotheses, those with fewest come first.
        """
        keys = [
            (number, part)
            for number, source in enumerate(sources)
            for part in range(len(source.parts))
        ]
        searched = functools.partial(self._searched, sources, prefixes, first_number)
        hinted = {}
        if missing and not self._config.samples:
            hinted = {(n, part): None for n, part in keys if has_marks(sources[n].texts[part])}
        found = searched(self._engine, [key for key in keys if key not in hinted], progress)
        # Some engines prepare much for that.
        everything = self._engine.with_all_hypotheses() if hinted else self._engine
        for (number, part), hypotheses in searched(everything, hinted, progress).items():
            lacks = functools.cache(functools.partial(missing, sources[number].texts[part]))
            if lacks(hypotheses[0].text):
                hypotheses.sort(key=lambda each: lacks(each.text))
            found[number, part] = hypotheses
        broken, chosen = collections.Counter(), collections.Counter()
        if check:
            wrong = set(self._choose(sources, found, chosen)).difference(hinted)
            everything = self._engine.with_all_hypotheses() if wrong else self._engine
            if everything is not self._engine:
                more = searched(everything, wrong, lambda count: None)
                still_wrong = set(self._choose(sources, more, ranks := collections.Counter()))
                for key in more.keys() - still_wrong:
                    found[key] = more[key][:1] + found[key][1:]
                    chosen[key] = ranks[key]
        for key in hinted:
            found[key] = found[key][: self._config.num_hypotheses]
        if check:
            broken = self._repair(sources, found)
        return [
            Candidates(
                [found[number, part] for part in range(len(source.parts))],
                sum(broken[number, part] for part in range(len(source.parts))),
                max((chosen[number, part] for part in range(len(source.parts))), default=0),
            )
            for number, source in enumerate(sources)
        ]

    def _searched(
        self,
        sources: Sequence[Source],
        prefixes: Sequence[np.ndarray],
        first_number: int,
        engine: Engine,
        keys: Iterable[_Part],
        progress: Callable[[int], object],
    ) -> dict[_Part, list[Hypothesis]]:
        """Returns the hypotheses of these parts; a line's prefix belongs to its first."""
        parts = {(number, part): sources[number].parts[part] for number, part in keys}

        def search(batch: list[_Part]) -> list[list[Hypothesis]]:
            begins = [prefixes[number][: None if part == 0 else 0] for number, part in batch]
            # No two of the first 2^24 lines' parts, up to 128 of a line, share a number.
            numbers = [
                (first_number + number + (part << 24)) & 0x7FFFFFFF for number, part in batch
            ]
            found = engine.outputs([parts[key] for key in batch], begins, numbers)
            return list(map(self._decoded, found))

        found, at_once = {}, engine.batches_at_once
        lengths = {key: len(ids) for key, ids in parts.items()}
        batches = shared_batches(lengths, self._config, at_once)
        for batch, hypotheses in parallel_batches(search, batches, at_once):
            found.update(zip(batch, hypotheses, strict=True))
            progress(len(batch))
        return found

    def _decoded(self, outputs: Sequence[Output]) -> list[Hypothesis]:
        texts = self._tokenizer.decode([each.ids for each in outputs])
        return [
            Hypothesis(text, float(each.score)) for text, each in zip(texts, outputs, strict=True)
        ]

    def _choose(
        self,
        sources: Sequence[Source],
        found: dict[_Part, list[Hypothesis]],
        chosen: collections.Counter,
    ) -> list[_Part]:
        """Puts the first right hypothesis of each part first; returns the parts without any."""
        wrong = []
        for key, hypotheses in found.items():
            rank = next(
                (i for i, each in enumerate(hypotheses) if not _broken(sources, key, each)), None
            )
            if rank is None:
                wrong.append(key)
            else:
                chosen[key] = rank
                found[key] = [hypotheses[rank], *hypotheses[:rank], *hypotheses[rank + 1 :]]
        return wrong

    def _repair(
        self, sources: Sequence[Source], found: dict[_Part, list[Hypothesis]]
    ) -> collections.Counter:
        """Repairs all hypotheses; returns the placeholders of each part's first that it did."""
        wrong = [
            (key, rank, count)
            for key, hypotheses in found.items()
            for rank, each in enumerate(hypotheses)
            if (count := _broken(sources, key, each))
        ]
        ids = [sources[number].parts[part] for (number, part), _, _ in wrong]
        texts = [found[key][rank].text for key, rank, _ in wrong]
        alignments = align_pairs(self._engine, self._tokenizer, ids, texts, self._align)
        broken = collections.Counter()
        for (key, rank, count), text, alignment in zip(wrong, texts, alignments, strict=True):
            source = sources[key[0]]
            right = repaired(source.texts[key[1]], text, alignment, source.shield.verbatim)
            found[key][rank] = Hypothesis(right, found[key][rank].score)
            broken[key] += 0 if rank else count
        return broken


def _broken(sources: Sequence[Source], key: _Part, hypothesis: Hypothesis) -> int:
    source = sources[key[0]]
    return number_broken(source.texts[key[1]], hypothesis.text, source.shield.verbatim)
