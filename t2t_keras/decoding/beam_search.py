"""Beam search with a length penalty.

The paper's inference (section 6.1): beam 4, length penalty alpha 0.6, an output of at most the
input's length + 50, ending early when possible. The penalty is that of Wu et al. (2016).
"""

import dataclasses

import tensorflow as tf

from t2t_keras.decoding.candidates import Candidates, best_candidates
from t2t_keras.decoding.constraints import IMPOSSIBLE, Constraints, Limits
from t2t_keras.decoding.loop import State, written


def length_penalty(length: tf.Tensor, alpha: float | tf.Tensor) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha; the length counts the end of sentence."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def coverage_penalty(coverage: tf.Tensor) -> tf.Tensor:
    """Returns Σ_i log(min(Σ_j p_ij, 1)) over source positions i (Wu et al., 2016, equation 14).

    Args:
      coverage: float32 [..., S], the attention p_ij to each position, summed up over the output.

    Returns:
      float32 [...], at most 0.
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
    allowed output, so log-probability / penalty(max_length) bounds what a hypothesis can reach. The
    coverage penalty, at most 0, only lowers a score. What it would take from an unfinished
    hypothesis is not counted: more attention may yet make it 0, so the bound can be no lower.
    With `beam_size` 1 the first end of sentence is final, which makes the search greedy.

    At the last allowed position only the end of sentence may follow, so all that is returned is
    finished. Of equal scores, the one from the better hypothesis, then the smaller id, goes first.

    Attributes:
      beam_size: K, the width of the search.
      alpha: exponent of the length penalty, >= 0, a number or float32 []; 0 compares plain
        log-probabilities.
      num_hypotheses: N <= K, how many hypotheses to return for a sentence.
      beta: weight of the coverage penalty, >= 0.
      constraints: which symbols may follow.

    Raises:
      ValueError: N is not in 1 .. K, or alpha or beta is negative.
    """

    beam_size: int
    alpha: float | tf.Tensor
    num_hypotheses: int = 1
    beta: float = 0.0
    constraints: Constraints = dataclasses.field(default_factory=Constraints)

    def __post_init__(self):
        if not 1 <= self.num_hypotheses <= self.beam_size:
            raise ValueError(
                f"num_hypotheses={self.num_hypotheses} is not in 1 .. beam_size={self.beam_size}."
            )
        negative = not tf.is_tensor(self.alpha) and not self.alpha >= 0
        if negative or not self.beta >= 0:
            raise ValueError(
                f"alpha={self.alpha}, beta={self.beta}: unless both are >= 0, the search cannot "
                f"know when to stop."
            )

    @property
    def places(self) -> int:
        """As many as the beam is wide."""
        return self.beam_size

    def first(self) -> list[float]:
        """One hypothesis; the others would be the same."""
        return [0.0, *[IMPOSSIBLE] * (self.beam_size - 1)]

    def extended(self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        candidates = best_candidates(
            logits, state.live_log_probs, state.live_ids, index, limits, self.constraints
        )
        ends = candidates.ids == self.constraints.eos_id
        finished_ids, finished_scores = self._finished(state, candidates, ends, index)

        # At most K of the 2K candidates are ends, so K others are left to live on.
        live_log_probs, chosen = tf.math.top_k(
            tf.where(ends, IMPOSSIBLE, candidates.log_probs), self.beam_size
        )
        parents = tf.gather(candidates.parents, chosen, batch_dims=1)
        ids = tf.gather(candidates.ids, chosen, batch_dims=1)
        done = self._is_done(live_log_probs, finished_scores, limits.max_lengths)
        return State(
            live_ids=written(tf.gather(state.live_ids, parents, batch_dims=1), index, ids),
            previous_ids=ids,
            # Vacant for good: while the batch goes on, a done sentence no longer changes.
            live_log_probs=tf.where(done[:, None], IMPOSSIBLE, live_log_probs),
            legal=tf.gather(state.legal, parents, batch_dims=1),
            coverage=tf.gather(state.coverage, parents, batch_dims=1),
            finished_ids=finished_ids,
            finished_scores=finished_scores,
        )

    def _finished(
        self, state: State, candidates: Candidates, ends: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [B, N, L] and scores [B, N] of the best finished hypotheses so far.

        `ends`, bool [B, 2K], tells which candidates are an end of sentence.
        """
        best = slice(None, self.beam_size)
        new_scores = tf.where(ends, candidates.log_probs, IMPOSSIBLE)[:, best]
        new_scores /= length_penalty(index + 1, self.alpha)
        if self.beta:
            penalties = self.beta * coverage_penalty(state.coverage)  # [B, K]
            new_scores += tf.gather(penalties, candidates.parents[:, best], batch_dims=1)
        new_ids = written(
            tf.gather(state.live_ids, candidates.parents[:, best], batch_dims=1),
            index,
            candidates.ids[:, best],
        )
        # The earlier ones first: of equals they win, and vacant places stay empty.
        scores, chosen = tf.math.top_k(
            tf.concat([state.finished_scores, new_scores], axis=1), state.finished_scores.shape[1]
        )
        ids = tf.concat([state.finished_ids, new_ids], axis=1)
        return tf.gather(ids, chosen, batch_dims=1), scores

    def _is_done(
        self, live_log_probs: tf.Tensor, finished_scores: tf.Tensor, max_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Returns bool [B]: no live hypothesis can become better than the worst finished one."""
        if self.beam_size == 1:
            return finished_scores[:, 0] > IMPOSSIBLE
        best_reachable = live_log_probs[:, 0] / length_penalty(max_lengths, self.alpha)
        return finished_scores[:, -1] >= best_reachable
