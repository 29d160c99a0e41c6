"""Sampling of outputs from the model's distribution."""

import dataclasses

import tensorflow as tf

from t2t_keras.decoding.beam_search import length_penalty
from t2t_keras.decoding.candidates import top_symbols
from t2t_keras.decoding.constraints import IMPOSSIBLE, Constraints, Limits
from t2t_keras.decoding.loop import State, written

# Left to itself, TensorFlow takes another one under XLA, and on other devices.
_ALGORITHM = "philox"
# A random integer's bits that become a number from [0, 1): as many as float32 holds there.
_RANDOM_BITS = 23


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs symbol by symbol, each on its own.

    Scores are log-probabilities of the model, divided by the length penalty; how an output was
    drawn does not enter them. The draws for a sentence depend on the seed and the sentence's number
    only, not on what else is in the batch, nor on whether XLA compiles the search.

    Attributes:
      num_hypotheses: N, how many outputs to draw for a sentence.
      alpha: exponent of the length penalty, >= 0, a number or float32 [].
      temperature: above 0; what logits are divided by before a symbol is drawn.
      top_k: a symbol is drawn from so many of the likeliest; 0 = all.
      top_p: a symbol is drawn from the fewest likeliest ones whose probabilities sum up to this
        (nucleus sampling, Holtzman et al., 2020); 1 = all. Without `top_k`, less than 1 sorts the
        vocabulary at every symbol.
      seed: of all draws.
      constraints: which symbols may follow.

    Raises:
      ValueError: an attribute is out of range.
    """

    num_hypotheses: int
    alpha: float | tf.Tensor = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    constraints: Constraints = dataclasses.field(default_factory=Constraints)

    def __post_init__(self):
        negative = not tf.is_tensor(self.alpha) and not self.alpha >= 0
        if self.num_hypotheses < 1 or negative:
            raise ValueError(f"num_hypotheses={self.num_hypotheses} or alpha={self.alpha}.")
        if not (self.temperature > 0 and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise ValueError(
                f"temperature={self.temperature} must be above 0, top_k={self.top_k} at least 0, "
                f"and top_p={self.top_p} above 0 and at most 1."
            )

    @property
    def places(self) -> int:
        """One for each output."""
        return self.num_hypotheses

    def first(self) -> list[float]:
        """All are live."""
        return [0.0] * self.num_hypotheses

    def extended(self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        ids = self._drawn(state, logits, index, limits)
        log_probs = tf.gather(tf.nn.log_softmax(logits), ids, batch_dims=2)
        # A hypothesis that is over keeps its place, which is vacant.
        live_log_probs = state.live_log_probs + log_probs
        live_ids = written(state.live_ids, index, ids)
        ends = (ids == self.constraints.eos_id) & (state.live_log_probs > IMPOSSIBLE)
        return State(
            live_ids=live_ids,
            previous_ids=ids,
            live_log_probs=tf.where(ends, IMPOSSIBLE, live_log_probs),
            legal=state.legal,
            coverage=state.coverage,
            finished_ids=tf.where(ends[:, :, None], live_ids, state.finished_ids),
            finished_scores=tf.where(
                ends, live_log_probs / length_penalty(index + 1, self.alpha), state.finished_scores
            ),
        )

    def _drawn(
        self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits
    ) -> tf.Tensor:
        """Returns a symbol for each hypothesis, int32 [B, K]."""
        allowed = self.constraints.without_forbidden(logits, state.live_ids, index)
        excluded = self.constraints.excluded(tf.range(logits.shape[-1]), index)
        allowed = tf.where(excluded, IMPOSSIBLE, allowed)
        share = self._uniform(limits.numbers, index)[:, :, None]
        if not self.top_k and self.top_p == 1:
            # In the order of their ids: to sort a vocabulary takes longer than all else here.
            drawn = _place_at(tf.nn.softmax(allowed / self.temperature), share)
        else:
            best, ids = top_symbols(allowed, min(self.top_k or logits.shape[-1], logits.shape[-1]))
            probabilities = tf.nn.softmax(best / self.temperature)
            before = tf.cumsum(probabilities, axis=2, exclusive=True)
            place = _place_at(tf.where(before < self.top_p, probabilities, 0.0), share)
            drawn = tf.gather(ids, place, batch_dims=2)
        forced = self.constraints.forced_ids(index, limits)[:, None]
        return tf.where(forced >= 0, forced, drawn)

    def _uniform(self, numbers: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns a number from [0, 1) for each hypothesis of each sentence, float32 [B, K]."""

        def of_sentence(number: tf.Tensor) -> tf.Tensor:
            seed = tf.random.experimental.stateless_fold_in([self.seed, 0], number, _ALGORITHM)
            seed = tf.random.experimental.stateless_fold_in(seed, index, _ALGORITHM)
            # Integers, as XLA makes other fractions of the same bits than TensorFlow's kernel.
            return tf.random.stateless_uniform(
                [self.num_hypotheses],
                seed,
                minval=None,
                maxval=None,
                dtype=tf.int32,
                alg=_ALGORITHM,
            )

        bits = tf.map_fn(of_sentence, numbers, fn_output_signature=tf.int32)
        bits = tf.bitwise.bitwise_and(bits, 2**_RANDOM_BITS - 1)
        return tf.cast(bits, tf.float32) / 2**_RANDOM_BITS


def _place_at(probabilities: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Returns where the running sum passes a share of the whole.

    Args:
      probabilities: float32 [B, K, C], which need not sum up to 1.
      share: float32 [B, K, 1], below 1.

    Returns:
      int32 [B, K]; never the place of a 0, wherever these are.
    """
    possible = probabilities > 0
    up_to = tf.cumsum(probabilities, axis=2)
    passed = possible & (up_to > share * up_to[:, :, -1:])
    places = tf.range(probabilities.shape[-1])
    first = tf.reduce_min(tf.where(passed, places, places[-1]), axis=2)
    # Rounding may lead past the last one.
    return tf.minimum(first, tf.reduce_max(tf.where(possible, places, 0), axis=2))
