"""Beam search with the length penalty of Wu et al. (2016), the paper's inference (section 6.1)."""

import dataclasses

import tensorflow as tf

from t2t_keras.decoding.config import length_penalty
from t2t_keras.decoding.search.loop import IMPOSSIBLE, Constraints, Limits, State, written
from t2t_keras.special_ids import EOS_ID

# A vocabulary is searched in groups of at most so many symbols.
_LARGEST_GROUP = 128


def top_symbols(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k` of logits [..., V], in less time where the vocabulary is large.

    The `count` best symbols lie in the `count` groups of symbols whose best ones are best, and the
    best of each group is found faster than any order. Returns logits and ids int32, both
    [..., count], best first; of equal logits, the smaller id goes first.
    """
    vocab_size = logits.shape[-1]
    group = max(size for size in range(1, _LARGEST_GROUP + 1) if vocab_size % size == 0)
    if vocab_size < count * group * 4 or group < _LARGEST_GROUP // 8:
        return tf.math.top_k(logits, count)
    lead = tf.shape(logits)[:-1]
    rows = tf.reshape(logits, [-1, vocab_size // group, group])
    _, groups = tf.math.top_k(tf.reduce_max(rows, axis=-1), count)
    groups = tf.sort(groups)  # In the order of their ids, for equal logits.
    members = tf.reshape(tf.gather(rows, groups, batch_dims=1), [-1, count * group])
    best, chosen = tf.math.top_k(members, count)
    ids = tf.gather(groups, chosen // group, batch_dims=1) * group + chosen % group
    shape = tf.concat([lead, [count]], axis=0)
    return tf.reshape(best, shape), tf.reshape(ids, shape)


def coverage_penalty(coverage: tf.Tensor) -> tf.Tensor:
    """Returns Σ_i log(min(Σ_j p_ij, 1)), float32 [...] (Wu et al., 2016, equation 14).

    The coverage, float32 [..., S], is the attention to each position i, summed over the output.
    """
    return tf.reduce_sum(tf.math.log(tf.clip_by_value(coverage, 1e-9, 1.0)), axis=-1)


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Searches for the symbol sequences with the highest score.

    The score is log-probability / length penalty + beta · coverage penalty (Wu et al., 2016,
    equation 14); the paper has no coverage penalty.

    In every step each sentence keeps its `beam_size` best unfinished hypotheses. An end of
    sentence finishes a hypothesis if it is among the `beam_size` best continuations of all; the
    `num_hypotheses` best finished ones are kept. A sentence is done when no unfinished hypothesis
    can still enter these: log-probabilities only fall, and no penalty exceeds that of the longest
    allowed output, so log-probability / penalty(max_length) bounds the score of a hypothesis; its
    coverage penalty, at most 0, may yet become 0. With `beam_size` 1 the first end of sentence is
    final, which makes the search greedy.

    At the last allowed position only the end of sentence may follow, so all that is returned is
    finished. Of equal scores, the one from the better hypothesis, then the smaller id, goes first.

    Attributes:
      beam_size: K, the width of the search.
      alpha: exponent of the length penalty, >= 0, a number or float32 []; 0 compares plain
        log-probabilities.
      num_hypotheses: N <= K, number of hypotheses to return for a sentence.
      beta: weight of the coverage penalty, >= 0.
      constraints: which symbols may follow.
    """

    beam_size: int
    alpha: float | tf.Tensor
    num_hypotheses: int = 1
    beta: float = 0.0
    constraints: Constraints = dataclasses.field(default_factory=Constraints)

    def initial_log_probs(self) -> list[float]:
        """One hypothesis; the others would be the same."""
        return [0.0, *[IMPOSSIBLE] * (self.beam_size - 1)]

    def extend(self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        log_probs, parents, ids = self._best_candidates(state, logits, index, limits)
        ends = ids == EOS_ID
        end_log_probs = tf.where(ends, log_probs, IMPOSSIBLE)
        finished_ids, finished_scores = self._finished(state, end_log_probs, parents, index)

        # At most K of the 2K candidates are ends, so K others are left to live on.
        live_log_probs, chosen = tf.math.top_k(
            tf.where(ends, IMPOSSIBLE, log_probs), self.beam_size
        )
        parents, ids = (tf.gather(each, chosen, batch_dims=1) for each in (parents, ids))
        done = self._is_done(live_log_probs, finished_scores, limits.max_lengths)
        return State(
            live_ids=written(tf.gather(state.live_ids, parents, batch_dims=1), index, ids),
            previous_ids=ids,
            # For good: while the batch goes on, a done sentence no longer changes.
            live_log_probs=tf.where(done[:, None], IMPOSSIBLE, live_log_probs),
            valid_slots=tf.gather(state.valid_slots, parents, batch_dims=1),
            coverage=tf.gather(state.coverage, parents, batch_dims=1),
            finished_ids=finished_ids,
            finished_scores=finished_scores,
        )

    def _best_candidates(
        self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns log-probabilities, parents and ids of the best continuations, each [B, 2K]."""
        beam_size, vocab_size = self.beam_size, logits.shape[-1]
        # What is excluded keeps its share of the probability.
        normaliser = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)  # [B, K, 1]
        allowed = self.constraints.without_forbidden(logits, state.live_ids, index)
        # A hypothesis's best 2K symbols besides padding and the end hold all it can contribute.
        width = min(2 * beam_size + 2, vocab_size)
        best_logits, ids = top_symbols(allowed, width)  # [B, K, width]
        excluded = self.constraints.excluded(ids, index)
        log_probs = tf.where(excluded, IMPOSSIBLE, best_logits - normaliser)

        forced = self.constraints.forced_ids(index, limits)[:, None]  # [B, 1]
        chosen = tf.tile(tf.maximum(forced, 0), [1, beam_size])[:, :, None]
        forced_log_probs = tf.gather(logits, chosen, batch_dims=2) - normaliser  # [B, K, 1]
        forced = forced[:, :, None]
        first = tf.range(width) == 0
        log_probs = tf.where(forced >= 0, tf.where(first, forced_log_probs, IMPOSSIBLE), log_probs)
        ids = tf.where(forced >= 0, forced, ids)

        log_probs += state.live_log_probs[:, :, None]
        flat = [-1, beam_size * width]
        log_probs, chosen = tf.math.top_k(tf.reshape(log_probs, flat), 2 * beam_size)
        return log_probs, chosen // width, tf.gather(tf.reshape(ids, flat), chosen, batch_dims=1)

    def _finished(
        self, state: State, end_log_probs: tf.Tensor, parents: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [B, N, L] and scores [B, N] of the best finished hypotheses so far."""
        parents = parents[:, : self.beam_size]
        penalty = length_penalty(tf.cast(index + 1, tf.float32), self.alpha)
        new_scores = end_log_probs[:, : self.beam_size] / penalty
        if self.beta:
            penalties = self.beta * coverage_penalty(state.coverage)  # [B, K]
            new_scores += tf.gather(penalties, parents, batch_dims=1)
        new_ids = tf.gather(state.live_ids, parents, batch_dims=1)
        new_ids = written(new_ids, index, tf.fill(tf.shape(parents), EOS_ID))
        # The earlier ones first: of equals they win.
        scores, chosen = tf.math.top_k(
            tf.concat([state.finished_scores, new_scores], axis=1), self.num_hypotheses
        )
        ids = tf.concat([state.finished_ids, new_ids], axis=1)
        return tf.gather(ids, chosen, batch_dims=1), scores

    def _is_done(
        self, live_log_probs: tf.Tensor, finished_scores: tf.Tensor, max_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Returns bool [B]: no live hypothesis can become better than the worst finished one."""
        if self.beam_size == 1:
            return finished_scores[:, 0] > IMPOSSIBLE
        bound = live_log_probs[:, 0] / length_penalty(tf.cast(max_lengths, tf.float32), self.alpha)
        return finished_scores[:, -1] >= bound
