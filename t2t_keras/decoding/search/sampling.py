"""Sampling of outputs from the model's distribution."""

import dataclasses

import tensorflow as tf

from t2t_keras.decoding.config import length_penalty
from t2t_keras.decoding.search.beam import top_symbols
from t2t_keras.decoding.search.loop import IMPOSSIBLE, Constraints, Limits, State, written
from t2t_keras.special_ids import EOS_ID

# By default TensorFlow takes another one under XLA, and on other devices.
_ALGORITHM = "philox"
# Bits of a random integer that become a number from [0, 1): as many as float32 holds there.
_RANDOM_BITS = 23


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs symbol by symbol, each on its own.

    Scores are log-probabilities of the model, divided by the length penalty; how an output was
    drawn does not affect them. The draws for a sentence depend on the seed and the sentence's
    number only, not on the rest of the batch, nor on XLA.

    Attributes:
      num_hypotheses: N, number of outputs to draw for a sentence.
      alpha: exponent of the length penalty, >= 0, a number or float32 [].
      temperature: above 0; logits are divided by it before a symbol is drawn.
      top_k: number of the likeliest symbols to draw from; 0 = all.
      top_p: symbols are drawn from the fewest likeliest ones whose probabilities add up to this
        (nucleus sampling, Holtzman et al., 2020); 1 = all. Without `top_k`, less than 1 sorts the
        vocabulary at every symbol.
      seed: of all draws.
      constraints: which symbols may follow.
    """

    num_hypotheses: int
    alpha: float | tf.Tensor = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    constraints: Constraints = dataclasses.field(default_factory=Constraints)

    @property
    def beam_size(self) -> int:
        """One live hypothesis for each output."""
        return self.num_hypotheses

    def initial_log_probs(self) -> list[float]:
        """All are live."""
        return [0.0] * self.num_hypotheses

    def extend(self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        ids = self._drawn(state, logits, index, limits)
        log_probs = tf.gather(tf.nn.log_softmax(logits), ids, batch_dims=2)
        live_log_probs = state.live_log_probs + log_probs
        live_ids = written(state.live_ids, index, ids)
        ends = (ids == EOS_ID) & (state.live_log_probs > IMPOSSIBLE)
        scores = live_log_probs / length_penalty(tf.cast(index + 1, tf.float32), self.alpha)
        return state._replace(
            live_ids=live_ids,
            previous_ids=ids,
            live_log_probs=tf.where(ends, IMPOSSIBLE, live_log_probs),
            finished_ids=tf.where(ends[:, :, None], live_ids, state.finished_ids),
            finished_scores=tf.where(ends, scores, state.finished_scores),
        )

    def _drawn(
        self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits
    ) -> tf.Tensor:
        """Returns a symbol for each hypothesis, int32 [B, K]."""
        vocab_size = logits.shape[-1]
        allowed = self.constraints.without_forbidden(logits, state.live_ids, index)
        excluded = self.constraints.excluded(tf.range(vocab_size), index)
        allowed = tf.where(excluded, IMPOSSIBLE, allowed)
        share = self._uniform(limits.numbers, index)[:, :, None]
        if not self.top_k and self.top_p == 1:
            # In the order of their ids: to sort a vocabulary takes longer than all else here.
            drawn = _quantile(tf.nn.softmax(allowed / self.temperature), share)
        else:
            best, ids = top_symbols(allowed, min(self.top_k or vocab_size, vocab_size))
            probabilities = tf.nn.softmax(best / self.temperature)
            before = tf.cumsum(probabilities, axis=2, exclusive=True)
            rank = _quantile(tf.where(before < self.top_p, probabilities, 0.0), share)
            drawn = tf.gather(ids, rank, batch_dims=2)
        forced = self.constraints.forced_ids(index, limits)[:, None]
        return tf.where(forced >= 0, forced, drawn)

    def _uniform(self, numbers: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns a number from [0, 1) for each hypothesis of each sentence, float32 [B, K]."""
        random = tf.random.experimental

        def of_sentence(number: tf.Tensor) -> tf.Tensor:
            seed = random.stateless_fold_in([self.seed, 0], number, _ALGORITHM)
            seed = random.stateless_fold_in(seed, index, _ALGORITHM)
            shape, integers = [self.num_hypotheses], dict(minval=None, maxval=None, dtype=tf.int32)
            # Integers, as XLA makes other fractions of the same bits than TensorFlow's kernel.
            return tf.random.stateless_uniform(shape, seed, **integers, alg=_ALGORITHM)

        bits = tf.map_fn(of_sentence, numbers, fn_output_signature=tf.int32)
        bits = tf.bitwise.bitwise_and(bits, 2**_RANDOM_BITS - 1)
        return tf.cast(bits, tf.float32) / 2**_RANDOM_BITS


def _quantile(probabilities: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Returns where the sum of probabilities [B, K, C] passes a share [B, K, 1]; never at a 0."""
    possible = probabilities > 0
    up_to = tf.cumsum(probabilities, axis=2)
    passed = possible & (up_to > share * up_to[:, :, -1:])
    indices = tf.range(probabilities.shape[-1])
    first = tf.reduce_min(tf.where(passed, indices, indices[-1]), axis=2)
    # Rounding may lead past the last one.
    return tf.minimum(first, tf.reduce_max(tf.where(possible, indices, 0), axis=2))
