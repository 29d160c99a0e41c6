"""One or several models as one: the mean of their probabilities."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.loop import Cache, Scored
from t2t_keras.errors import UserError
from t2t_keras.layers.attention_record import recorded_attention


class Ensemble:
    """Models of one vocabulary that choose each symbol together.

    The probability of a symbol is the arithmetic mean of what the models give it, so the scores of
    an ensemble are log-probabilities as well.

    Args:
      models: each a `Transformer`, or what has its `encode`, `start_cache` and `decode_step`.
      with_coverage: whether a step also tells where the models look in the source.

    Raises:
      UserError: there is no model, or they have different vocabularies or radii of self-attention.
    """

    def __init__(self, models: Sequence, with_coverage: bool = False):
        self.models = tuple(models)
        self._with_coverage = with_coverage
        if not self.models:
            raise UserError("An ensemble needs at least one model; none came.")
        for name in ("vocab_size", "self_attention_radius"):
            came = {model.config.get(name, 0) for model in self.models}
            if len(came) > 1:
                raise UserError(
                    f"The models of an ensemble must have the same {name}; "
                    f"{', '.join(map(str, sorted(came)))} came."
                )

    @property
    def reach(self) -> int:
        """How many positions back a step looks; 0 = all."""
        return self.models[0].config.get("self_attention_radius", 0)

    def check_ids(self, ids: np.ndarray) -> None:
        """Raises `UserError` where ids, of any shape, are not in the vocabulary."""
        size = self.models[0].config["vocab_size"]
        if ids.size and not (ids.min() >= 0 and ids.max() < size):
            raise UserError(
                f"The vocabulary has the ids 0 to {size - 1}; {ids.min()} to {ids.max()} came. Was "
                f"this made with another vocabulary?"
            )

    def start(self, source: tf.Tensor, room: int, hypotheses: int) -> Cache:
        """Encodes source ids [B, S] and returns what a search keeps."""
        parts = []
        for model in self.models:
            memory, memory_mask = model.encode(source, training=False)
            kept = model.start_cache(memory, memory_mask, room, hypotheses)
            past, recent, projection = kept.pop("past"), kept.pop("recent"), kept.pop("projection")
            parts.append(Cache(kept, past, recent, projection))
        return Cache(*map(list, zip(*parts, strict=True)))

    def step(
        self,
        previous: tf.Tensor,
        index: tf.Tensor,
        place: tf.Tensor,
        legal: tf.Tensor,
        cache: Cache,
    ) -> Scored:
        """Scores the next symbol; see `loop.Step`."""
        logits, kept, attention = [], [], []
        for model, sentence, past, recent, projection in zip(self.models, *cache, strict=True):
            parts = {**sentence, "past": past, "recent": recent, "projection": projection}
            with recorded_attention() as weights:
                scores, extended = model.decode_step(previous, index, parts, place, legal)
            logits.append(scores)
            kept.append(extended["recent"])
            if self._with_coverage:
                attention += [weights[layer.memory_attention] for layer in model.decoder]
        if self._with_coverage:
            # The mean over models, layers and heads, [B, K, S].
            looked = tf.add_n([tf.reduce_mean(each, axis=1) for each in attention]) / len(attention)
        else:
            looked = tf.zeros([*tf.unstack(tf.shape(previous)), 0])
        return Scored(self._together(logits), kept, looked)

    def log_probs(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the log-probability of each target symbol given those before it.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.
          target: int32 [B, T], the same.

        Returns:
          float32 [B, T], 0 at padding.
        """
        inputs = {"source": source, "target": target}
        logits = self._together([model(inputs, training=False) for model in self.models])
        found = -tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        return tf.where(target != 0, found, 0.0)

    def _together(self, logits: list[tf.Tensor]) -> tf.Tensor:
        if len(logits) == 1:
            return logits[0]
        log_probs = tf.stack([tf.nn.log_softmax(each) for each in logits])
        return tf.reduce_logsumexp(log_probs, axis=0)
