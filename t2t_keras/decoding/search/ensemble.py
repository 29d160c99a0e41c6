"""One or several models as one: the mean of their probabilities."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search.beam import coverage_penalty
from t2t_keras.decoding.search.loop import Cache, Scored
from t2t_keras.errors import UserError
from t2t_keras.layers.base import layout_of
from t2t_keras.special_ids import EOS_ID, PADDING_ID


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
        matmul: Callable[..., tf.Tensor] | None = None,
    ) -> Scored:
        """Scores the next symbol; see `loop.Step`, and for `matmul`, `layers.base.project`."""
        logits, kept, attention = [], [], []
        for model, sentence, past, recent, projection in zip(self.models, *cache, strict=True):
            parts = {**sentence, "past": past, "recent": recent, "projection": projection}
            scores, extended, *weights = model.decode_step(
                previous, index, parts, position, valid_slots, self._with_coverage, matmul
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
