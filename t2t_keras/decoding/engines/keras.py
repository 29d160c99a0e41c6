"""The engine of this library: its search in a TensorFlow graph, for any of its models."""

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.batching import batches_at_once, few_shapes, padded
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.decoding.engines.one_sentence import CompiledMeanwhile
from t2t_keras.decoding.scoring import Scorer
from t2t_keras.decoding.search.constraints import Constraints, forbidden_sequences, word_boundaries
from t2t_keras.decoding.search.ensemble import Ensemble
from t2t_keras.decoding.search.search import Search
from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError
from t2t_keras.text.tokenizer import Tokenizer


class KerasEngine(Scorer, Engine):
    """Searches with Keras's models, whose weights are read at every call.

    Args:
      models: a model, or several that search together.
      tokenizer: of their outputs.
      config: how to search.
      forbidden: words or phrases that no output may contain, see `forbidden_sequences`.

    Attributes:
      search: the `Search` of outputs for ids.
      for_one: the same for single sentences, `CompiledMeanwhile`, or None.

    Raises:
      UserError: the models do not fit together.
    """

    def __init__(
        self,
        models,
        tokenizer: Tokenizer,
        config: DecodeConfig,
        forbidden: Sequence[str] = (),
    ):
        ensemble = Ensemble(
            models if isinstance(models, Sequence) else [models],
            with_coverage=config.coverage_penalty > 0,
        )
        constraints = Constraints(
            config.min_length,
            forbidden_sequences(forbidden, tokenizer),
            word_boundaries(tokenizer) if forbidden else (),
        )
        super().__init__(ensemble, config, _batches_at_once(config))
        self.models = ensemble.models
        self.search = Search(ensemble, config, constraints)
        self._searches = ensemble, constraints
        compiles = config.xla_for_one and not config.xla
        self.for_one = CompiledMeanwhile(*self._searches, config) if compiles else None
        self._with_all: KerasEngine | None = None
        self._making = threading.Lock()

    def with_all_hypotheses(self) -> "KerasEngine":
        """See `Engine`."""
        if self.config.returns_all:
            return self
        with self._making:
            if self._with_all is None:
                ensemble, constraints = self._searches
                config = dataclasses.replace(self.config, return_beams=True)
                found = copy.copy(self)
                found.config = config
                found.search = Search(ensemble, config, constraints)
                found.for_one = self.for_one and CompiledMeanwhile(ensemble, constraints, config)
                self._with_all = found
            return self._with_all

    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        """See `Engine`."""
        config, count = self.config, len(sources)
        alone = self.for_one if count == 1 else None
        shape = few_shapes(sources, config.batch_tokens) if config.xla or alone else ()
        source, begins = padded(sources, *shape), padded(prefixes, *shape)
        arguments = source, begins, np.pad(np.int32(numbers), (0, len(source) - count))
        found = (alone and alone(*arguments)) or self.search(*arguments)
        ids, scores = (each.numpy()[:count] for each in found)
        if np.isnan(scores).any() or not np.isfinite(scores[:, 0]).all():
            raise UserError(
                "No translation is possible: each one contains a forbidden phrase, or the model "
                "computes NaN. Forbid less; or, if nothing is forbidden, use another checkpoint: "
                "this one's weights are damaged, or its training diverged.",
                code="not_finite",
            )
        return [
            [Output(*each) for each in zip(*row, strict=True) if np.isfinite(each[1])]
            for row in zip(ids, scores, strict=True)
        ]

    def scores(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, float]]:
        """See `Engine`."""
        penalties: dict[int, float] = {}
        if beta := self.config.coverage_penalty:
            pairs = self._pairs(self._coverage_penalties, sources, targets)
            penalties = {number: beta * float(penalty) for number, penalty, *_ in pairs}
        for number, score in super().scores(sources, targets):
            yield number, score + penalties.get(number, 0.0)


def _batches_at_once(config: DecodeConfig) -> int:
    on_gpu = not config.batches_at_once and tf.config.get_visible_devices("GPU")
    return 1 if on_gpu else batches_at_once(config)


def share_cores(config: DecodeConfig) -> None:
    """Lets each product use only its batch's share of the cores.

    This holds for the whole process: for a command, not for a user of the library. It has no effect
    after TensorFlow has computed anything, as its threads exist then.
    """
    at_once = _batches_at_once(config)
    if at_once > 1 and config.lines_at_once > 1:
        with contextlib.suppress(RuntimeError):
            cores = max(usable_cores() // at_once, 1)
            tf.config.threading.set_intra_op_parallelism_threads(cores)
