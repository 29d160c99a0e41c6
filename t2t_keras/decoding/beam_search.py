"""Beam search with a length penalty, generic in the function that scores the next symbol.

The paper's inference (section 6.1): beam 4, length penalty alpha 0.6, an output of at most the
input's length + 50, ending early when possible. The penalty is that of Wu et al. (2016).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

# step(previous_ids, index, cache) -> (logits, cache), for B sentences with K = beam_size rows each:
#   previous_ids  int32 [B * K], the symbols chosen last; padding at index 0, where there are none
#   index         int32 [], the position in the output that is scored
#   cache         what each row remembers, as given to `beam_search`
#   logits        float32 [B * K, V], unnormalised log-probabilities of the symbol at `index`
Step = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]

_IMPOSSIBLE = -float("inf")


class Hypotheses(NamedTuple):
    """The results of a search, best first.

    Attributes:
      ids: int32 [B, N, L], each hypothesis with its end of sentence, then padding; L is the number
        of steps that were needed.
      scores: float32 [B, N], log-probability / length penalty; -inf, and only padding in `ids`,
        where fewer than N hypotheses exist.
    """

    ids: tf.Tensor
    scores: tf.Tensor


class _State(NamedTuple):
    """What the loop carries after t symbols."""

    index: tf.Tensor  # int32 [], equals t
    previous_ids: tf.Tensor  # int32 [B, K], the last of live_ids
    live_ids: tf.Tensor  # int32 [B, K, t]
    live_log_probs: tf.Tensor  # float32 [B, K], best first; -inf: this place is vacant
    cache: Any  # leading axis B * K
    finished_ids: tf.Tensor  # int32 [B, N, t]
    finished_scores: tf.Tensor  # float32 [B, N], best first; -inf: this place is vacant


class _Candidates(NamedTuple):
    """Continuations of each sentence's live hypotheses, best first."""

    log_probs: tf.Tensor  # float32 [B, C]
    parents: tf.Tensor  # int32 [B, C], 0 .. K - 1
    ids: tf.Tensor  # int32 [B, C]


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha; the length counts the end of sentence."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def beam_search(
    step: Step,
    cache: Any,
    max_lengths: tf.Tensor,
    *,
    beam_size: int,
    alpha: float,
    num_hypotheses: int = 1,
    eos_id: int = 1,
    padding_id: int = 0,
) -> Hypotheses:
    """Searches for the symbol sequences with the highest log-probability / length penalty.

    In every step each sentence keeps its `beam_size` best unfinished hypotheses. An end of
    sentence finishes a hypothesis if it is among the `beam_size` best continuations of all; the
    `num_hypotheses` best finished ones are kept. A sentence is done when no unfinished hypothesis
    can still enter these: log-probabilities only fall, and no penalty exceeds that of the longest
    allowed output, so log-probability / penalty(max_length) bounds what a hypothesis can reach.
    With `beam_size` 1 the first end of sentence is final, which makes the search greedy.

    At the last allowed position only the end of sentence may follow, so all that is returned is
    finished. Of equal scores, the one from the better hypothesis, then the smaller id, goes first.

    Args:
      step: scores the next symbol, see `Step`. It closes over what is the same for all hypotheses
        of a sentence, such as the encoder's output, which therefore is never moved.
      cache: nested structure of tensors [B * K, time, ...] that belong to a single hypothesis and
        move with it. `step` may make them longer along axis 1.
      max_lengths: int32 [B], the most symbols of each sentence's output, the end counted; >= 1.
      beam_size: K, the width of the search.
      alpha: exponent of the length penalty, >= 0; 0 compares plain log-probabilities.
      num_hypotheses: N <= K, how many hypotheses to return for a sentence.
      eos_id: the end of sentence.
      padding_id: fills up the results, therefore never chosen as a symbol.

    Returns:
      `Hypotheses` with ids [B, N, L] and scores [B, N].

    Raises:
      ValueError: N is not in 1 .. K, or alpha is negative.
    """
    if not 1 <= num_hypotheses <= beam_size:
        raise ValueError(f"num_hypotheses={num_hypotheses} is not in 1 .. beam_size={beam_size}.")
    if not alpha >= 0:
        raise ValueError(f"alpha={alpha}: without alpha >= 0 the search cannot know when to stop.")

    def some_live(state: _State) -> tf.Tensor:
        return tf.reduce_any(state.live_log_probs > _IMPOSSIBLE)

    def extend(state: _State) -> tuple[_State]:
        logits, cache = step(tf.reshape(state.previous_ids, [-1]), state.index, state.cache)
        only_end = state.index >= max_lengths - 1
        candidates = _best_candidates(logits, state, only_end, eos_id, padding_id)
        ends = candidates.ids == eos_id
        finished_ids, finished_scores = _finish(state, candidates, ends, alpha, padding_id)

        # At most K of the 2K candidates are ends, so K others are left to live on.
        live_log_probs, chosen = tf.math.top_k(
            tf.where(ends, _IMPOSSIBLE, candidates.log_probs), beam_size
        )
        parents = tf.gather(candidates.parents, chosen, batch_dims=1)
        ids = tf.gather(candidates.ids, chosen, batch_dims=1)
        done = _is_done(live_log_probs, finished_scores, max_lengths, alpha)
        extended = _State(
            index=state.index + 1,
            previous_ids=ids,
            live_ids=_append(tf.gather(state.live_ids, parents, batch_dims=1), ids),
            # Vacant for good: while the batch goes on, a done sentence no longer changes.
            live_log_probs=tf.where(done[:, None], _IMPOSSIBLE, live_log_probs),
            cache=_reorder(cache, parents),
            finished_ids=finished_ids,
            finished_scores=finished_scores,
        )
        return (extended,)

    start = _start(cache, tf.shape(max_lengths)[0], beam_size, num_hypotheses, padding_id)
    (end,) = tf.while_loop(
        some_live, extend, loop_vars=(start,), shape_invariants=(_shape_invariants(start),)
    )
    return Hypotheses(end.finished_ids, end.finished_scores)


def _start(
    cache: Any, batch_size: tf.Tensor, beam_size: int, num_hypotheses: int, padding_id: int
) -> _State:
    """One empty hypothesis a sentence; the other places of the beam are vacant."""
    live_log_probs = tf.one_hot(0, beam_size, on_value=0.0, off_value=_IMPOSSIBLE)
    return _State(
        index=tf.constant(0),
        previous_ids=tf.fill([batch_size, beam_size], padding_id),
        live_ids=tf.zeros([batch_size, beam_size, 0], tf.int32),
        live_log_probs=tf.tile(live_log_probs[None], [batch_size, 1]),
        cache=cache,
        finished_ids=tf.zeros([batch_size, num_hypotheses, 0], tf.int32),
        finished_scores=tf.fill([batch_size, num_hypotheses], _IMPOSSIBLE),
    )


def _shape_invariants(start: _State) -> _State:
    """The batch and the time are free, everything else is as at the start."""

    def growing(tensor: tf.Tensor) -> tf.TensorShape:
        return tf.TensorShape([None, None, *tensor.shape[2:]])

    places, finished_places = start.live_log_probs.shape[1], start.finished_scores.shape[1]
    return _State(
        index=tf.TensorShape([]),
        previous_ids=tf.TensorShape([None, places]),
        live_ids=tf.TensorShape([None, places, None]),
        live_log_probs=tf.TensorShape([None, places]),
        cache=tf.nest.map_structure(growing, start.cache),
        finished_ids=tf.TensorShape([None, finished_places, None]),
        finished_scores=tf.TensorShape([None, finished_places]),
    )


def _best_candidates(
    logits: tf.Tensor, state: _State, only_end: tf.Tensor, eos_id: int, padding_id: int
) -> _Candidates:
    """Returns the 2K best continuations of each sentence; only the end where `only_end` [B]."""
    beam_size = state.live_log_probs.shape[1]
    # A row's best 2K symbols besides padding hold all that it can contribute.
    width = min(2 * beam_size + 1, logits.shape[-1])
    best_logits, ids = tf.math.top_k(logits, width)  # [B * K, width]
    normaliser = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)  # [B * K, 1]
    log_probs = tf.where(ids == padding_id, _IMPOSSIBLE, best_logits - normaliser)

    only_end = tf.repeat(only_end, beam_size)[:, None]  # [B * K, 1]
    end_log_probs = logits[:, eos_id, None] - normaliser  # [B * K, 1]
    first = tf.range(width) == 0
    log_probs = tf.where(only_end, tf.where(first, end_log_probs, _IMPOSSIBLE), log_probs)
    ids = tf.where(only_end, eos_id, ids)

    log_probs += tf.reshape(state.live_log_probs, [-1, 1])
    log_probs, chosen = tf.math.top_k(
        tf.reshape(log_probs, [-1, beam_size * width]), 2 * beam_size
    )  # [B, 2K]
    ids = tf.gather(tf.reshape(ids, [-1, beam_size * width]), chosen, batch_dims=1)
    return _Candidates(log_probs, parents=chosen // width, ids=ids)


def _finish(
    state: _State, candidates: _Candidates, ends: tf.Tensor, alpha: float, padding_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids [B, N, t + 1] and scores [B, N] of the best finished hypotheses so far.

    `ends`, bool [B, 2K], tells which candidates are an end of sentence.
    """
    beam_size = state.live_log_probs.shape[1]
    num_hypotheses = state.finished_scores.shape[1]
    new_scores = tf.where(ends, candidates.log_probs, _IMPOSSIBLE)[:, :beam_size]
    new_scores /= length_penalty(state.index + 1, alpha)
    new_ids = _append(
        tf.gather(state.live_ids, candidates.parents[:, :beam_size], batch_dims=1),
        candidates.ids[:, :beam_size],
    )
    old_ids = tf.pad(state.finished_ids, [[0, 0], [0, 0], [0, 1]], constant_values=padding_id)
    # The earlier ones first: of equals they win, and vacant places stay empty.
    scores, chosen = tf.math.top_k(
        tf.concat([state.finished_scores, new_scores], axis=1), num_hypotheses
    )
    ids = tf.gather(tf.concat([old_ids, new_ids], axis=1), chosen, batch_dims=1)
    return ids, scores


def _is_done(
    live_log_probs: tf.Tensor, finished_scores: tf.Tensor, max_lengths: tf.Tensor, alpha: float
) -> tf.Tensor:
    """Returns bool [B]: no live hypothesis can score better than the worst kept finished one."""
    beam_size = live_log_probs.shape[1]
    if beam_size == 1:
        return finished_scores[:, 0] > _IMPOSSIBLE
    best_reachable = live_log_probs[:, 0] / length_penalty(max_lengths, alpha)
    return finished_scores[:, -1] >= best_reachable


def _append(sequences: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """[B, K, t] and [B, K] -> [B, K, t + 1]."""
    return tf.concat([sequences, ids[:, :, None]], axis=2)


def _reorder(cache: Any, parents: tf.Tensor) -> Any:
    """Gives each place [B, K] of the beam the cache rows of the hypothesis that it continues."""
    batch_size, beam_size = tf.shape(parents)[0], parents.shape[1]
    rows = tf.reshape(parents + beam_size * tf.range(batch_size)[:, None], [-1])
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), cache)
