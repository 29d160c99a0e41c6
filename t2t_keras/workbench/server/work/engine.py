"""A model's engine whose computations take turns with those of other batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.workbench.server.work.batching import Batch

# Scoring this many sentences costs as much as one search.
_SCORED_FOR_SEARCHED = 8
_MOST_SCORED = 256  # sentences at a time, as their attention needs memory


class EngineInTurns(Engine):
    """An engine that waits for a turn of a batch before each computation, and ends with the batch.

    Args:
      engine: computes.
      batch: whose turns it takes.
    """

    def __init__(self, engine: Engine, batch: Batch):
        self._engine, self._batch = engine, batch
        self.name, self.models = engine.name, engine.models
        self.batches_at_once = engine.batches_at_once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def with_all_hypotheses(self) -> "EngineInTurns":
        """See `Engine`."""
        other = self._engine.with_all_hypotheses()
        return self if other is self._engine else EngineInTurns(other, self._batch)

    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        """See `Engine`."""
        outputs: list[list[Output]] = []
        while len(outputs) < len(sources):
            first = len(outputs)
            some = slice(first, first + self._batch.rows_at_once)
            with self._batch.turn(len(sources[some])):
                outputs += self._engine.outputs(sources[some], prefixes[some], numbers[some])
        return outputs

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`."""
        return self._of_pairs(self._engine.log_probs, sources, targets)

    def scores(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, float]]:
        """See `Engine`."""
        return self._of_pairs(self._engine.scores, sources, targets)

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`."""
        return self._of_pairs(self._engine.cross_attention, sources, targets)

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """See `Engine`."""
        return self._of_pairs(self._engine.attention, sources, targets)

    def _of_pairs(
        self, compute: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, Any]]:
        first = 0
        while first < len(sources):
            rows = min(_SCORED_FOR_SEARCHED * self._batch.rows_at_once, _MOST_SCORED)
            some = slice(first, first + rows)
            with self._batch.turn(len(sources[some]) // _SCORED_FOR_SEARCHED):
                results = list(compute(sources[some], targets[some]))
            yield from ((first + number, result) for number, result in results)
            first = some.stop

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        with self._batch.turn(1):
            return self._engine.next_symbols(source, prefix, count)

    def check_attention(self) -> None:
        """See `Engine`."""
        self._engine.check_attention()
