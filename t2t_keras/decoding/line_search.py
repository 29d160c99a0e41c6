"""The search for translations of lines, of which each is ids or, where it was split, several."""

from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.batching import padded, padded_to_few_shapes
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.probability_checks import check_found
from t2t_keras.decoding.search import Search
from t2t_keras.decoding.side_by_side import shared_batches, side_by_side
from t2t_keras.decoding.source_text import Source
from t2t_keras.decoding.translation import Hypothesis


class LineSearch:
    """Searches in batches of parts of similar length, some batches side by side.

    Args:
      search: finds the ids of outputs.
      tokenizer: makes text of them.
      config: how large batches are, and how many are computed at the same time.
    """

    def __init__(self, search: Search, tokenizer: Tokenizer, config: DecodeConfig):
        self._search, self._tokenizer, self._config = search, tokenizer, config

    def __call__(
        self,
        sources: Sequence[Source],
        prefixes: Sequence[np.ndarray],
        first_number: int,
        progress: Callable[[int], object],
    ) -> list[list[list[Hypothesis]]]:
        """Returns for each line and each of its parts the hypotheses asked for; of a blank line [].

        Args:
          sources: the lines.
          prefixes: for each line int32 [P], how its translation must begin, without an end.
          first_number: the number of the first line, which the draws of samples depend on.
          progress: is told how many more parts are done.

        Raises:
          UserError: no translation is possible under the constraints, or a model computes something
            that is not a number.
        """
        # The parts of a line by (line, part); its prefix belongs to the first.
        parts = {
            (number, part): ids
            for number, source in enumerate(sources)
            for part, ids in enumerate(source.parts)
        }

        def searched(batch: list[tuple[int, int]]) -> list[list[Hypothesis]]:
            begins = [
                prefixes[number] if part == 0 else prefixes[number][:0] for number, part in batch
            ]
            # A line's parts are told apart from other lines.
            numbers = [first_number + number + (part << 24) for number, part in batch]
            return self._of_batch([parts[key] for key in batch], begins, numbers)

        found = {}
        in_turn = shared_batches({key: len(ids) for key, ids in parts.items()}, self._config)
        for batch, hypotheses in side_by_side(searched, in_turn, self._config):
            found.update(zip(batch, hypotheses, strict=True))
            progress(len(batch))
        return [
            [found[number, part] for part in range(len(source.parts))]
            for number, source in enumerate(sources)
        ]

    def _of_batch(
        self,
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray],
        numbers: Sequence[int],
    ) -> list[list[Hypothesis]]:
        numbers = np.array(numbers) & 0x7FFFFFFF
        if self._config.xla:
            source = padded_to_few_shapes(sources, self._config.batch_tokens)
            added = len(source) - len(sources)
            prefixes = padded_to_few_shapes([*prefixes, *[prefixes[0][:0]] * added], len(source))
            numbers = np.pad(numbers, [0, added])
        else:
            source, prefixes = padded(sources), padded(prefixes)
        ids, scores = self._search(source, prefixes, numbers.astype(np.int32))
        ids, scores = ids.numpy()[: len(sources)], scores.numpy()[: len(sources)]
        check_found(scores)
        return [
            [
                Hypothesis(text, float(score))
                for text, score in zip(self._tokenizer.decode(row), row_scores, strict=True)
                if np.isfinite(score)
            ]
            for row, row_scores in zip(ids, scores, strict=True)
        ]
