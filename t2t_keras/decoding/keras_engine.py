"""The engine of this library, which searches and scores with Keras's models."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops, tree

from t2t_keras.decoding import tensors
from t2t_keras.decoding.beam import (
    BeamSearch,
    Sampling,
    coverage_penalty,
    forbidden_sequences,
    word_boundaries,
)
from t2t_keras.decoding.config import SAMPLING_NAMES, DecodeConfig
from t2t_keras.decoding.engine import (
    Engine,
    Ids,
    Output,
    batches_at_once,
    batches_by_length,
    pad_rows,
    parallel_batches,
    xla_padding,
)
from t2t_keras.decoding.search import (
    BLOCK_SIZE,
    Cache,
    Constraints,
    Grammar,
    Hypotheses,
    Limits,
    Rule,
    SearchLoop,
    StepResult,
)
from t2t_keras.decoding.tensors import Tensor, compiled
from t2t_keras.environment import COMPILE_THREAD, usable_cores
from t2t_keras.errors import UserError
from t2t_keras.layers.base import layout_of
from t2t_keras.special_ids import EOS_ID, PADDING_ID
from t2t_keras.text.tokenizer import Tokenizer

_INT32_MAX = 2**31 - 1
_IDS = (None, None), "int32"
# Maximum tokens of a sentence to compile for: longer sentences may need several compilations.
MAX_COMPILED_LENGTH = 64


class KerasEngine(Engine):
    """Searches and scores with Keras's models; it reads their weights at every call.

    Args:
      models: a model, or several as an ensemble.
      tokenizer: the vocabulary of their outputs.
      config: decoding settings.
      forbidden: words or phrases that no output may contain, see `forbidden_sequences`.
      grammars: restrict outputs further; every output obeys all of them.

    Attributes:
      search: the `Search` for outputs.
      single_sentence_search: a `BackgroundXlaSearch` for single sentences, or None.

    Raises:
      UserError: the models do not fit together.
    """

    def __init__(
        self,
        models: Any,
        tokenizer: Tokenizer,
        config: DecodeConfig,
        forbidden: Sequence[str] = (),
        grammars: Sequence[Grammar] = (),
    ):
        ensemble = self._ensemble = Ensemble(
            models if isinstance(models, Sequence) else [models],
            with_coverage=config.coverage_penalty > 0,
        )
        if tensors.IS_JAX:  # JAX compiles for each shape, so there should be few shapes.
            config = dataclasses.replace(config, xla=True)
        sequences = forbidden_sequences(forbidden, tokenizer)
        boundaries = word_boundaries(tokenizer) if sequences else ()
        constraints = Constraints(config.min_length, sequences, boundaries, tuple(grammars))
        self.models = ensemble.models
        self.batches_at_once = batches_at_once(config, tensors.has_gpu())
        self.config = config
        self.search = Search(ensemble, config, constraints)
        self.single_sentence_search: BackgroundXlaSearch | None = None
        if config.xla_for_one and not config.xla:
            self.single_sentence_search = BackgroundXlaSearch(ensemble, config, constraints)
        # One graph per function, for all shapes, so that no graph computes the result of another.
        pair_graph = functools.partial(compiled, signatures=[_IDS, _IDS], models=ensemble.models)
        self._log_probs = pair_graph(ensemble.log_probs)
        self._coverage_penalties = pair_graph(ensemble.coverage_penalties)
        self._next_logits = pair_graph(ensemble.next_logits)
        self._cross_attention = pair_graph(ensemble.cross_attention)
        self._attention = pair_graph(ensemble.attention)
        self._grammars = constraints.grammars
        self._make_similar = functools.partial(
            KerasEngine, self.models, tokenizer, forbidden=forbidden
        )
        self._all_hypotheses: KerasEngine | None = None
        self._all_hypotheses_lock = threading.Lock()

    def with_all_hypotheses(self) -> "KerasEngine":
        """See `Engine`."""
        if self.config.returns_all:
            return self
        with self._all_hypotheses_lock:
            if not self._all_hypotheses:
                config = dataclasses.replace(self.config, return_beams=True)
                self._all_hypotheses = self._make_similar(config, grammars=self._grammars)
            return self._all_hypotheses

    def with_grammar(self, grammar: Grammar) -> "KerasEngine":
        """See `Engine`."""
        return self._make_similar(self.config, grammars=(*self._grammars, grammar))

    def outputs(self, sources: Ids, prefixes: Ids, numbers: Sequence[int]) -> list[list[Output]]:
        """See `Engine`."""
        config, count = self.config, len(sources)
        xla_search = self.single_sentence_search if count == 1 else None
        padding = xla_padding(sources, config.batch_tokens) if config.xla or xla_search else ()
        source, prefix = pad_rows(sources, *padding), pad_rows(prefixes, *padding)
        line_ids = np.pad(np.array(numbers, np.int32), (0, len(source) - count))
        hypotheses = xla_search(source, prefix, line_ids) if xla_search else None
        hypotheses = hypotheses or self.search(source, prefix, line_ids)
        ids, scores = (ops.convert_to_numpy(array)[:count] for array in hypotheses)
        if np.isnan(scores).any() or not np.isfinite(scores[:, 0]).all():
            raise UserError(
                "No translation is possible: every candidate contains a forbidden phrase or breaks "
                "the grammar, or the model computes NaN. Forbid fewer phrases; or, if none is "
                "forbidden, use another checkpoint: this one's weights are damaged, or its "
                "training diverged.",
                code="not_finite",
            )
        return [
            [Output(*output) for output in zip(*row, strict=True) if np.isfinite(output[1])]
            for row in zip(ids, scores, strict=True)
        ]

    def log_probs(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`."""
        for number, log_probs, _, n in self._pairs(self._log_probs, sources, targets):
            yield number, log_probs[:n]

    def scores(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, float]]:
        """See `Engine`."""
        penalties: dict[int, float] = {}
        if beta := self.config.coverage_penalty:
            pairs = self._pairs(self._coverage_penalties, sources, targets)
            penalties = {number: beta * float(penalty) for number, penalty, *_ in pairs}
        for number, score in super().scores(sources, targets):
            yield number, score + penalties.get(number, 0.0)

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        pair = pad_rows([source]), pad_rows([np.append(prefix, np.int32(EOS_ID))])
        self._ensemble.check_ids(*pair)
        logits = ops.convert_to_numpy(self._next_logits(*pair))[0]
        _check_finite(logits)
        logits[[PADDING_ID, EOS_ID]] = -np.inf
        return np.argsort(-logits, kind="stable")[: min(count, len(logits) - 2)].tolist()

    def cross_attention(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`."""
        for number, weights, m, n in self._pairs(self._cross_attention, sources, targets):
            yield number, weights[:n, :m]

    def check_attention(self) -> None:
        """Raises `UserError` for an ensemble: each of its models has its own attention."""
        if (count := len(self.models)) > 1:
            raise UserError(
                f"Attention needs one model, got an ensemble of {count}. Give one checkpoint.",
                code="not_supported",
            )

    def attention(self, sources: Ids, targets: Ids) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """See `Engine`."""
        self.check_attention()
        for number, weights, m, n in self._pairs(self._attention, sources, targets):
            sizes = {"encoder": (m, m), "decoder": (n, n), "cross": (n, m)}
            yield number, {name: weights[name][:, :, :q, :k] for name, (q, k) in sizes.items()}

    def _pairs(
        self, graph: Callable, sources: Ids, targets: Ids
    ) -> Iterator[tuple[int, Any, int, int]]:
        """Yields, for each pair, its number, its rows of a graph's arrays, and its lengths."""

        def compute(batch: list[int]) -> Any:
            sides = [[side[number] for number in batch] for side in (sources, targets)]
            longest = [max(pair, key=len) for pair in zip(*sides, strict=True)]
            padding = xla_padding(longest, self.config.batch_tokens) if tensors.IS_JAX else ()
            pairs = [pad_rows(side, *padding) for side in sides]
            self._ensemble.check_ids(*pairs)
            arrays = tree.map_structure(
                lambda x: ops.convert_to_numpy(x)[: len(batch)], graph(*pairs)
            )
            _check_finite(*tree.flatten(arrays))
            return arrays

        lengths = list(zip(map(len, sources), map(len, targets), strict=True))
        at_once = self.batches_at_once
        batches = batches_by_length(dict(enumerate(map(max, lengths))), self.config, at_once)
        for batch, arrays in parallel_batches(compute, batches, at_once):
            for row, number in enumerate(batch):
                pair_rows = tree.map_structure(lambda x, row=row: x[row], arrays)
                yield number, pair_rows, *lengths[number]


def _check_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise UserError(
            "The model computes NaN or infinite values: its weights are damaged, or its "
            "training diverged. Use another checkpoint.",
            code="not_finite",
        )


def share_cores(config: DecodeConfig) -> None:
    """Limits each matrix product to its batch's share of the cores.

    This changes the whole process, so commands call it, and the library does not. It has no effect
    after TensorFlow's first computation, which starts the threads.
    """
    at_once = batches_at_once(config, tensors.has_gpu())
    if at_once > 1 and config.lines_at_once > 1:
        with contextlib.suppress(RuntimeError):
            cores = max(usable_cores() // at_once, 1)
            tensors.set_threads(cores)


class Search:
    """Searches for outputs of source ids with one compiled function, `graph`.

    On TensorFlow one graph serves all shapes, and other graphs can call it, too.
    """

    def __init__(self, ensemble: "Ensemble", config: DecodeConfig, constraints: Constraints):
        self._ensemble, self._config, self._constraints = ensemble, config, constraints
        numbers, alpha = ((None,), "int32"), ((), "float32")
        self.graph = compiled(self._decode, [_IDS, _IDS, numbers, alpha], ensemble.models)

    def __call__(
        self,
        source: Tensor,
        prefixes: Tensor | None = None,
        numbers: Tensor | None = None,
        alpha: float | Tensor | None = None,
    ) -> Hypotheses:
        """Searches, or samples.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.
          prefixes: int32 [B, P], the beginning of each output, then padding; default: none.
          numbers: int32 [B], line numbers that sampling draws by; default: 0 to B - 1.
          alpha: exponent of the length penalty, >= 0; default: the setting.

        Returns:
          The requested hypotheses: ids int32 [B, N, L], scores float32 [B, N].

        Raises:
          UserError: an id is not in the vocabulary; not checked inside a graph.
        """
        if tensors.is_eager():
            prefix_ids = None if prefixes is None else np.asarray(prefixes)
            self._ensemble.check_ids(np.asarray(source), prefix_ids)
        source = ops.convert_to_tensor(source)
        return self.graph(
            source,
            ops.zeros_like(source[:, :0]) if prefixes is None else prefixes,
            ops.arange(ops.shape(source)[0]) if numbers is None else numbers,
            self._config.alpha if alpha is None else alpha,
        )

    def _decode(
        self, source: Tensor, prefixes: Tensor, numbers: Tensor, alpha: Tensor
    ) -> Hypotheses:
        config = self._config
        lengths = ops.count_nonzero(source != PADDING_ID, axis=1)
        max_lengths = ops.minimum(lengths + config.extra_length, config.max_length or _INT32_MAX)
        # A row of padding only completes the shape: its search ends at once.
        max_lengths = ops.where(lengths == 0, 1, max_lengths)
        max_length = config.max_output_length(source.shape[1]) if tensors.IS_JAX else 0
        coverage = ops.zeros((ops.shape(source)[0], 0))
        if config.coverage_penalty:
            coverage = self._ensemble.initial_coverage(source)
        scoring = dict(
            num_hypotheses=config.num_hypotheses, alpha=alpha, constraints=self._constraints
        )
        rule: Rule = BeamSearch(config.beam_size, beta=config.coverage_penalty, **scoring)
        if config.samples:
            rule = Sampling(**scoring, **{key: getattr(config, key) for key in SAMPLING_NAMES})
        window = self._ensemble.models[0].config.self_attention_radius  # The same in all models.
        loop = SearchLoop(self._ensemble.step, rule, BLOCK_SIZE, window, config.xla, max_length)
        cache = self._ensemble.start(source, BLOCK_SIZE, rule.beam_size)
        grammar_data = tuple(grammar.start(source) for grammar in self._constraints.grammars)
        return loop.run(cache, Limits(max_lengths, prefixes, numbers, coverage, grammar_data))


class BackgroundXlaSearch:
    """Searches with XLA if the shape of the input is already compiled; else returns None.

    The first sentence of a shape starts a thread that compiles the graph for that shape. Only one
    thread compiles at a time, as several would block TensorFlow's own threads.

    Attributes:
      search: the `Search` with XLA, which compiles at its first call for a shape.
    """

    def __init__(self, ensemble: "Ensemble", config: DecodeConfig, constraints: Constraints):
        self.search = Search(ensemble, dataclasses.replace(config, xla=True), constraints)
        # XLA caches code by a name with the TensorFlow function's running number. If traced here,
        # the function gets the same number in the next process, which then finds the code.
        self.search.graph.get_concrete_function()
        self._threads: dict[tuple, threading.Thread] = {}
        self._compiled_shapes: set[tuple] = set()
        self._start_lock, self._compile_lock = threading.Lock(), threading.Lock()

    def __call__(
        self, source: np.ndarray, prefixes: np.ndarray, numbers: np.ndarray
    ) -> Hypotheses | None:
        """Returns the hypotheses for a sentence [1, S]; None if it is too long or not compiled."""
        arguments = source, prefixes, numbers
        if source.shape[1] > MAX_COMPILED_LENGTH:
            return None
        shape = source.shape, prefixes.shape
        if shape in self._compiled_shapes:
            return self.search(*arguments)
        with self._start_lock:
            if shape not in self._threads:
                thread = threading.Thread(None, self._compile, COMPILE_THREAD, (shape, arguments))
                self._threads[shape] = thread
                thread.start()
        return None

    def _compile(self, shape: tuple, arguments: tuple) -> None:
        # A shape that cannot be compiled, as for lack of memory, is searched without XLA.
        with self._compile_lock, contextlib.suppress(Exception):
            self.search(*arguments)
            self._compiled_shapes.add(shape)

    def wait(self) -> None:
        """Waits for all compilations that were started."""
        for thread in [*self._threads.values()]:
            thread.join()


class Ensemble:
    """Models with the same vocabulary that choose each symbol together.

    The probability of a symbol is the arithmetic mean of the models' probabilities, so the scores
    of an ensemble are log-probabilities too. With coverage, a step also returns the attention over
    the source.

    Raises:
      UserError: there is no model, or the models differ in vocabulary or self-attention radius.
    """

    def __init__(self, models: Sequence, with_coverage: bool = False):
        self.models = tuple(models)
        self._with_coverage = with_coverage
        if not self.models:
            raise UserError("Expected at least one model, got none.", code="missing_argument")
        for name, values in {
            "vocab_size": {model.vocab_size for model in self.models},
            "self_attention_radius": {model.config.self_attention_radius for model in self.models},
        }.items():
            if len(values) > 1:
                raise UserError(
                    f"The models of an ensemble must have the same {name}, got "
                    f"{', '.join(map(str, sorted(values)))}.",
                    code="models_differ",
                )

    def check_ids(self, source: np.ndarray, target: np.ndarray | None = None) -> None:
        """Raises `UserError` if ids, of any shape, are not in the vocabulary."""
        size = self.models[0].vocab_size
        source_size = getattr(self.models[0], "source_vocab_size", None) or size
        for ids, vocab_size in ((source, source_size), (target, size)):
            if ids is not None and ids.size and not (ids.min() >= 0 and ids.max() < vocab_size):
                raise UserError(
                    f"Expected ids from 0 to {vocab_size - 1}, got {ids.min()} to {ids.max()}. "
                    f"Encode the text with the model's vocabulary.",
                    code="other_vocabulary",
                )

    def start(self, source: Tensor, block_size: int, beam_size: int) -> Cache:
        """Encodes source ids [B, S] and returns the cache of a search."""
        caches, layout = [], layout_of(source)
        for model in self.models:
            memory, memory_mask = model.encode(source, layout, training=False)
            cache = model.start_cache(memory, memory_mask, block_size, beam_size, layout)
            past, recent = cache.pop("past"), cache.pop("recent")
            caches.append(Cache(cache, past, recent, shared=cache.pop("projection")))
        # Each field lists its values for all models.
        return Cache(*map(list, zip(*caches, strict=True)))

    def step(
        self,
        previous: Tensor,
        index: Tensor,
        position: Tensor,
        valid_slots: Tensor,
        cache: Cache,
    ) -> StepResult:
        """Scores the next symbol; see `search.Step`."""
        logits, recent_caches, attention = [], [], []
        for model, sentence, past, recent, projection in zip(self.models, *cache, strict=True):
            model_cache = {**sentence, "past": past, "recent": recent, "projection": projection}
            model_logits, new_cache, *weights = model.decode_step(
                previous, index, model_cache, position, valid_slots, self._with_coverage
            )
            logits.append(model_logits)
            recent_caches.append(new_cache["recent"])
            attention += tree.flatten(weights)
        if self._with_coverage:
            # The mean over models, layers and heads, [B, K, S].
            means = [ops.mean(ops.cast(layer, "float32"), axis=1) for layer in attention]
            mean_attention = sum(means[1:], means[0]) / len(means)
        else:
            mean_attention = ops.zeros((*ops.shape(previous), 0))
        return StepResult(self._mean(logits), recent_caches, mean_attention)

    def log_probs(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the log-probability of each target symbol given the previous, float32 [B, T].

        Rows of `source` [B, S] and `target` [B, T] end with EOS, then padding; padding gets 0.
        """
        inputs = {"source": source, "target": target}
        logits = self._mean([model(inputs, training=False) for model in self.models])
        log_probs = -ops.sparse_categorical_crossentropy(target, logits, from_logits=True)
        return ops.where(target != PADDING_ID, log_probs, 0.0)

    def initial_coverage(self, source: Tensor) -> Tensor:
        """Returns float32 [B, S]: 1 at positions that the decoder cannot attend to, else 0."""
        is_masked = source == PADDING_ID
        if not any(model.config.source_end for model in self.models):
            # `Transformer.encode` hides the end of sentence.
            is_masked |= ops.pad(source[:, 1:] == EOS_ID, [[0, 0], [1, 0]])
        return ops.cast(is_masked, "float32")

    def coverage_penalties(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the `coverage_penalty` of targets, float32 [B], as a search computes it."""
        layers = []  # [B, T, S] each
        for cross in self._cross_attention(source, target):
            layers += ops.unstack(ops.mean(cross, axis=2), axis=1)
        mean = sum(layers[1:], layers[0]) / len(layers)
        is_token = ops.cast(target != PADDING_ID, "float32")[:, :, None]
        coverage = self.initial_coverage(source) + ops.sum(mean * is_token, axis=1)
        return coverage_penalty(coverage)

    def cross_attention(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the mean over the heads of `alignment_layer`, and over models, [B, T, S]."""
        means = [
            ops.mean(cross[:, alignment_layer(cross.shape[1])], axis=1)
            for cross in self._cross_attention(source, target)
        ]
        return sum(means[1:], means[0]) / len(means)

    def _cross_attention(self, source: Tensor, target: Tensor) -> list[Tensor]:
        """Returns the weights [B, layers, heads, T, S] of each model."""
        pair = {"source": source, "target": target}
        return [model.attention_weights(pair)["cross"] for model in self.models]

    def attention(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Returns all attention weights of the first model."""
        return self.models[0].attention_weights({"source": source, "target": target})

    def next_logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns unnormalised log-probabilities of the last symbol of targets, [B, V].

        Rows of ids, source [B, S] and target [B, T], have no padding; the last ids of targets have
        no effect.
        """
        inputs = {"source": source, "target": target}
        return self._mean([model(inputs, training=False)[:, -1] for model in self.models])

    def _mean(self, logits: list[Tensor]) -> Tensor:
        """Returns unnormalised log-probabilities of the mean distribution."""
        if len(logits) == 1:
            return logits[0]
        log_probs = ops.stack([ops.log_softmax(model_logits) for model_logits in logits])
        return ops.logsumexp(log_probs, axis=0)


def alignment_layer(layers: int) -> int:
    """Returns the number, from 0, of the decoder layer whose attention aligns words best.

    That is the layer before the last (Garg et al., 2019). Of two layers it is the last: queries of
    the first do not depend on the source (experiments/nested_markup/nested_fragments.py).
    """
    return layers - 2 if layers > 2 else layers - 1
