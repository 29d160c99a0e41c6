"""Beam search or sampling with one model or several, as the settings request: ids in, ids out."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.config import OF_SAMPLING, DecodeConfig
from t2t_keras.decoding.search.beam import BeamSearch, coverage_penalty
from t2t_keras.decoding.search.loop import (
    Cache,
    Constraints,
    Hypotheses,
    Limits,
    Scored,
    SearchLoop,
)
from t2t_keras.decoding.search.sampling import Sampling
from t2t_keras.errors import UserError
from t2t_keras.layers.base import layout_of
from t2t_keras.special_ids import EOS_ID, PADDING_ID

_BLOCK_SIZE = 8
_IDS = tf.TensorSpec([None, None], tf.int32)


class Ensemble:
    """Models of one vocabulary that choose each symbol together.

    The probability of a symbol is the arithmetic mean of those of the models, so the scores of an
    ensemble are log-probabilities as well. With coverage, a step also returns its attention over
    the source.

    Raises:
      UserError: there is no model, or they have different vocabularies or radii of self-attention.
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
        """Raises `UserError` where ids, of any shape, are not in their vocabulary."""
        size = self.models[0].vocab_size
        source_size = getattr(self.models[0], "source_vocab_size", None) or size
        for ids, most in ((source, source_size), (target, size)):
            if ids is not None and ids.size and not (ids.min() >= 0 and ids.max() < most):
                raise UserError(
                    f"Expected ids from 0 to {most - 1}, got {ids.min()} to {ids.max()}. Were they "
                    f"made with another vocabulary?",
                    code="other_vocabulary",
                )

    def start(self, source: tf.Tensor, block_size: int, hypotheses: int) -> Cache:
        """Encodes source ids [B, S] and returns the cache of a search."""
        parts, layout = [], layout_of(source)
        for model in self.models:
            memory, memory_mask = model.encode(source, layout, training=False)
            kept = model.start_cache(memory, memory_mask, block_size, hypotheses, layout)
            parts.append(Cache(kept, *map(kept.pop, ("past", "recent", "projection"))))
        return Cache(*map(list, zip(*parts, strict=True)))

    def step(
        self,
        previous: tf.Tensor,
        index: tf.Tensor,
        position: tf.Tensor,
        valid_slots: tf.Tensor,
        cache: Cache,
    ) -> Scored:
        """Scores the next symbol; see `loop.Step`."""
        logits, kept, attention = [], [], []
        for model, sentence, past, recent, projection in zip(self.models, *cache, strict=True):
            parts = {**sentence, "past": past, "recent": recent, "projection": projection}
            scores, extended, *weights = model.decode_step(
                previous, index, parts, position, valid_slots, self._with_coverage
            )
            logits.append(scores)
            kept.append(extended["recent"])
            attention += tf.nest.flatten(weights)
        if self._with_coverage:
            # The mean over models, layers and heads, [B, K, S].
            means = [tf.reduce_mean(tf.cast(each, tf.float32), axis=1) for each in attention]
            mean = tf.add_n(means) / len(means)
        else:
            mean = tf.zeros([*tf.unstack(tf.shape(previous)), 0])
        return Scored(self._mean(logits), kept, mean)

    def log_probs(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the log-probability of each target symbol given those before it, float32 [B, T].

        Rows of ids [B, S] and [B, T] have their end of sentence, then padding, which gets 0.
        """
        inputs = {"source": source, "target": target}
        logits = self._mean([model(inputs, training=False) for model in self.models])
        found = -tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        return tf.where(target != PADDING_ID, found, 0.0)

    def covered(self, source: tf.Tensor) -> tf.Tensor:
        """Returns the coverage at the start, float32 [B, S]: 1 where nothing may attend to."""
        hidden = source == PADDING_ID
        if not any(model.config.source_end for model in self.models):
            # As `Transformer.encode` hides it, nothing attends to the end.
            hidden |= tf.pad(source[:, 1:] == EOS_ID, [[0, 0], [1, 0]])
        return tf.cast(hidden, tf.float32)

    def coverage_penalties(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the `coverage_penalty` of targets, float32 [B], as a search computes it."""
        layers = []
        for model in self.models:
            cross = model.attention_weights({"source": source, "target": target})["cross"]
            layers += tf.unstack(tf.reduce_mean(cross, axis=2), axis=1)  # [B, T, S] each
        mean = tf.add_n(layers) / len(layers)
        is_token = tf.cast(target != PADDING_ID, tf.float32)[:, :, None]
        coverage = self.covered(source) + tf.reduce_sum(mean * is_token, axis=1)
        return coverage_penalty(coverage)

    def next_logits(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns unnormalised log-probabilities of what may stand last in targets, [B, V].

        Rows of ids, source [B, S] and target [B, T], have no padding; the last ids of targets do
        not matter.
        """
        inputs = {"source": source, "target": target}
        return self._mean([model(inputs, training=False)[:, -1] for model in self.models])

    def _mean(self, logits: list[tf.Tensor]) -> tf.Tensor:
        """Returns unnormalised log-probabilities of the mean distribution."""
        if len(logits) == 1:
            return logits[0]
        log_probs = tf.stack([tf.nn.log_softmax(each) for each in logits])
        return tf.reduce_logsumexp(log_probs, axis=0)


class Search:
    """Searches for outputs of source ids, by one TensorFlow function, `graph`, for all shapes.

    It can be called in a graph as well.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        config: DecodeConfig,
        constraints: Constraints,
    ):
        self._ensemble, self._config, self._constraints = ensemble, config, constraints
        scalar, numbers = tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.int32)
        # There is nothing to convert for autograph, and looking for it took most of the start.
        self.graph = tf.function(
            self._decode, input_signature=[_IDS, _IDS, numbers, scalar], autograph=False
        )

    def __call__(
        self,
        source: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        numbers: tf.Tensor | None = None,
        alpha: float | tf.Tensor | None = None,
    ) -> Hypotheses:
        """Searches, or draws.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.
          prefixes: int32 [B, P], how each output begins, then padding; default: no prefixes.
          numbers: int32 [B], which tell lines apart in sampling; default: 0 to B - 1.
          alpha: exponent of the length penalty, >= 0; default: the setting.

        Returns:
          The requested hypotheses: ids int32 [B, N, L], scores float32 [B, N].

        Raises:
          UserError: an id is not in the vocabulary. In a graph, nothing is checked.
        """
        if tf.executing_eagerly():
            begins = None if prefixes is None else np.asarray(prefixes)
            self._ensemble.check_ids(np.asarray(source), begins)
        source = tf.convert_to_tensor(source)
        return self.graph(
            source,
            tf.zeros_like(source[:, :0]) if prefixes is None else prefixes,
            tf.range(tf.shape(source)[0]) if numbers is None else numbers,
            self._config.alpha if alpha is None else alpha,
        )

    def _decode(
        self, source: tf.Tensor, prefixes: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor
    ) -> Hypotheses:
        config = self._config
        lengths = tf.math.count_nonzero(source != PADDING_ID, axis=1, dtype=tf.int32)
        max_lengths = tf.minimum(lengths + config.extra_length, config.max_length or tf.int32.max)
        # A row of nothing but padding is there for its shape only, and ends at once.
        max_lengths = tf.where(lengths == 0, 1, max_lengths)
        if config.coverage_penalty:
            covered = self._ensemble.covered(source)
        else:
            covered = tf.zeros([tf.shape(source)[0], 0])
        scoring = dict(
            num_hypotheses=config.num_hypotheses, alpha=alpha, constraints=self._constraints
        )
        if config.samples:
            rule = Sampling(**scoring, **{name: getattr(config, name) for name in OF_SAMPLING})
        else:
            rule = BeamSearch(config.beam_size, beta=config.coverage_penalty, **scoring)
        window = self._ensemble.models[0].config.self_attention_radius  # All have the same.
        loop = SearchLoop(self._ensemble.step, rule, _BLOCK_SIZE, window, config.xla)
        cache = self._ensemble.start(source, _BLOCK_SIZE, rule.beam_size)
        return loop.run(cache, Limits(max_lengths, prefixes, numbers, covered))
