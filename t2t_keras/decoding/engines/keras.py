"""The engine of this library: TensorFlow graphs that search and score with Keras's models."""

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.batching import (
    batches_at_once,
    few_shapes,
    padded,
    parallel_batches,
    shared_batches,
)
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.decoding.search.forbidden import forbidden_sequences, word_boundaries
from t2t_keras.decoding.search.loop import Constraints, Hypotheses
from t2t_keras.decoding.search.search import Ensemble, Search
from t2t_keras.environment import COMPILING, usable_cores
from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID
from t2t_keras.text.tokenizer import Tokenizer

_IDS = tf.TensorSpec([None, None], tf.int32)
# Of single sentences: longer ones may need more than one compilation.
LONGEST = 64


def alignment_layer(layers: int) -> int:
    """Returns the decoder layer, from 0, that aligns words as people do.

    That is the last but one (Garg et al., 2019), but not the first of two: it has not yet looked at
    the source when it asks (experiments/nested_markup/nested_fragments.py).
    """
    return layers - 2 if layers > 2 else layers - 1


class Scorer:
    """Force-decodes pairs in batches of similar length, some in parallel.

    All methods take ids of sources and of their translations, int32 arrays with their ends of
    sentence. They yield the number of each pair with what was computed for it, in any order, and
    raise `UserError` if a model computes NaN or an id is not in the vocabulary. So many batches
    are computed `at_once`.
    """

    def __init__(self, ensemble: Ensemble, config: DecodeConfig, at_once: int):
        self._ensemble, self.config, self.batches_at_once = ensemble, config, at_once
        # One graph each for all shapes; it keeps only the attention that it returns. There is
        # nothing to convert for autograph, and looking for it took most of the start.
        (
            self._log_probs,
            self._attention,
            self._cross_attention,
            self._next_logits,
            self._coverage_penalties,
        ) = (
            tf.function(function, input_signature=[_IDS, _IDS], autograph=False)
            for function in (
                ensemble.log_probs,
                self._all_attention,
                self._mean_cross_attention,
                ensemble.next_logits,
                ensemble.coverage_penalties,
            )
        )

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields log-probabilities of the symbols of each target, float32 [target]."""
        for number, found, _, n in self._pairs(self._log_probs, sources, targets):
            yield number, found[:n]

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        arrays = padded([source]), padded([np.append(prefix, np.int32(EOS_ID))])
        self._ensemble.check_ids(*arrays)
        logits = self._next_logits(*arrays).numpy()[0]
        _check_finite(logits)
        logits[[PADDING_ID, EOS_ID]] = -np.inf
        return np.argsort(-logits, kind="stable")[: min(count, len(logits) - 2)].tolist()

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields "encoder", "decoder" and "cross" of `AttentionWeights`, of one model only."""
        self.check_attention()
        for number, found, m, n in self._pairs(self._attention, sources, targets):
            sizes = {"encoder": (m, m), "decoder": (n, n), "cross": (n, m)}
            yield number, {name: found[name][:, :, :q, :k] for name, (q, k) in sizes.items()}

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields float32 [target, source], the mean over heads of `alignment_layer`, and models."""
        for number, found, m, n in self._pairs(self._cross_attention, sources, targets):
            yield number, found[:n, :m]

    def check_attention(self) -> None:
        """Raises `UserError` if there are several models: each has its own attention."""
        if (count := len(self._ensemble.models)) > 1:
            raise UserError(
                f"Attention needs one model, got an ensemble of {count}. Give one checkpoint.",
                code="not_supported",
            )

    def _pairs(
        self, graph: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, Any, int, int]]:
        """Yields number, row of the arrays that a graph computes, and lengths of each pair."""

        def compute(batch: list[int]) -> Any:
            arrays = [padded([side[number] for number in batch]) for side in (sources, targets)]
            self._ensemble.check_ids(*arrays)
            found = tf.nest.map_structure(lambda x: x.numpy(), graph(*arrays))
            _check_finite(*tf.nest.flatten(found))
            return found

        lengths = list(zip(map(len, sources), map(len, targets), strict=True))
        at_once = self.batches_at_once
        batches = shared_batches(dict(enumerate(map(max, lengths))), self.config, at_once)
        for batch, found in parallel_batches(compute, batches, at_once):
            for row, number in enumerate(batch):
                yield (
                    number,
                    tf.nest.map_structure(lambda x, row=row: x[row], found),
                    *lengths[number],
                )

    def _all_attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._ensemble.models[0].attention_weights({"source": source, "target": target})

    def _mean_cross_attention(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        found = []
        for model in self._ensemble.models:
            cross = model.attention_weights({"source": source, "target": target})["cross"]
            found.append(tf.reduce_mean(cross[:, alignment_layer(cross.shape[1])], axis=1))
        return tf.add_n(found) / len(found)


def _check_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise UserError(
            "The model computes NaN or infinite values: its weights are damaged, or its "
            "training diverged. Use another checkpoint.",
            code="not_finite",
        )


class CompiledMeanwhile:
    """Searches by XLA once that is compiled for a shape, and until then has no answer.

    The first sentence of a shape is searched in a thread, which compiles what such sentences need.
    One thread at a time does so: TensorFlow would keep all its own waiting for several.

    Attributes:
      search: the `Search` by XLA, which compiles at its first call for a shape.
    """

    def __init__(self, ensemble: Ensemble, constraints: Constraints, config: DecodeConfig):
        self.search = Search(ensemble, dataclasses.replace(config, xla=True), constraints)
        # XLA keeps compiled code under a name that counts all that TensorFlow has made before: made
        # here, it is the same in the next process.
        self.search.graph.get_concrete_function()
        self._threads: dict[tuple, threading.Thread] = {}
        self._compiled: set[tuple] = set()
        self._beginning, self._compiling = threading.Lock(), threading.Lock()

    def __call__(
        self, source: np.ndarray, prefixes: np.ndarray, numbers: np.ndarray
    ) -> Hypotheses | None:
        """Returns what `Search` finds for sentences [1, S] of up to `LONGEST` tokens, or None."""
        arguments = source, prefixes, numbers
        if source.shape[1] > LONGEST:
            return None
        shape = source.shape, prefixes.shape
        if shape in self._compiled:
            return self.search(*arguments)
        with self._beginning:
            if shape not in self._threads:
                thread = threading.Thread(None, self._compile, COMPILING, (shape, arguments))
                self._threads[shape] = thread
                thread.start()
        return None

    def _compile(self, shape: tuple, arguments: tuple) -> None:
        # What cannot be compiled, for lack of memory, goes on without.
        with self._compiling, contextlib.suppress(Exception):
            self.search(*arguments)
            self._compiled.add(shape)

    def wait(self) -> None:
        """Waits until everything that was begun is compiled."""
        for thread in [*self._threads.values()]:
            thread.join()


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
        phrases = ()
        if forbidden:
            phrases = forbidden_sequences(forbidden, tokenizer), word_boundaries(tokenizer)
        constraints = Constraints(config.min_length, *phrases)
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
