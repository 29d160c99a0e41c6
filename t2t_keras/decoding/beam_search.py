"""Beam search with a length penalty, generic in the function that scores the next symbol.

The paper's inference (section 6.1): beam 4, length penalty alpha 0.6, an output of at most the
input's length + 50, ending early when possible. The penalty is that of Wu et al. (2016).

What a hypothesis has computed for a position, its keys and values, stays where it was written: in
a slot that belongs to the position and the place in the beam. When hypotheses change places, only
a table of who goes back to which slots changes. Every few positions the slots that no live
hypothesis goes back to are left behind, and so are the sentences that are done.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding.candidates import Candidates, best_candidates

_IMPOSSIBLE = -float("inf")
# XLA compiles for each shape. Slots of the past come in this number, doubled as often as needed...
_XLA_SLOTS = 128
# ... and sentences are left behind when only one in so many still goes on.
_XLA_SHRINKS = 4


class Cache(NamedTuple):
    """What a search keeps: nested structures of tensors [B, ...], one row for each sentence.

    Attributes:
      sentence: what was computed once for a sentence, such as keys and values of its source.
      past: tensors [B, ?, slots, ...] of earlier positions; given without any slot.
      recent: the same structure, with room for R positions of K slots each.
    """

    sentence: Any
    past: Any
    recent: Any


# step(previous, index, place, legal, cache) -> (logits, recent), for B sentences of K hypotheses:
#   previous  int32 [B, K], the symbols chosen last; padding at index 0, where there are none
#   index     int32 [], the position in the output that is scored
#   place     int32 [], the position's place in `cache.recent`: its slots are place · K + 0 .. K - 1
#   legal     bool [B, K, slots of past + slots of recent], which slots each hypothesis goes back
#             to, the new ones included
#   cache     a `Cache`; `recent` is returned with the new position
#   logits    float32 [B, K, V], unnormalised log-probabilities of the symbol at `index`
Step = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, Cache], tuple[tf.Tensor, Any]]


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
    """What the loop carries; L is the longest output allowed to any sentence."""

    live_ids: tf.Tensor  # int32 [B, K, L], padding from the position that comes next
    previous_ids: tf.Tensor  # int32 [B, K], the last of live_ids
    live_log_probs: tf.Tensor  # float32 [B, K], best first; -inf: this place is vacant
    legal: tf.Tensor  # bool [B, K, slots], the slots that each live hypothesis goes back to
    finished_ids: tf.Tensor  # int32 [B, N, L]
    finished_scores: tf.Tensor  # float32 [B, N], best first; -inf: this place is vacant


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha; the length counts the end of sentence."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def beam_search(
    step: Step,
    cache: Cache,
    max_lengths: tf.Tensor,
    *,
    beam_size: int,
    alpha: float,
    room: int,
    num_hypotheses: int = 1,
    reach: int = 0,
    min_length: int = 1,
    eos_id: int = 1,
    padding_id: int = 0,
    xla: bool = False,
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
      step: scores the next symbol, see `Step`.
      cache: what `step` keeps, see `Cache`.
      max_lengths: int32 [B], the most symbols of each sentence's output, the end counted; >= 1.
      beam_size: K, the width of the search.
      alpha: exponent of the length penalty, >= 0; 0 compares plain log-probabilities.
      room: R, for how many positions `cache.recent` has room.
      num_hypotheses: N <= K, how many hypotheses to return for a sentence.
      reach: how many positions before its own a step goes back to; 0 = all.
      min_length: the fewest symbols of an output, the end counted, where `max_lengths` allows them.
      eos_id: the end of sentence.
      padding_id: fills up the results, therefore never chosen as a symbol.
      xla: whether the steps are compiled by XLA, anew for each number of sentences, length of the
        source, longest output, and doubled number of slots.

    Returns:
      `Hypotheses` with ids [B, N, L] and scores [B, N].

    Raises:
      ValueError: N is not in 1 .. K, or alpha is negative.
    """
    if not 1 <= num_hypotheses <= beam_size:
        raise ValueError(f"num_hypotheses={num_hypotheses} is not in 1 .. beam_size={beam_size}.")
    if not alpha >= 0:
        raise ValueError(f"alpha={alpha}: without alpha >= 0 the search cannot know when to stop.")

    search = _Search(step, beam_size, alpha, room, reach, min_length, eos_id, padding_id, xla)
    return search.run(cache, max_lengths, num_hypotheses)


class _Sentences(NamedTuple):
    """The sentences that are not done, b of B."""

    rows: tf.Tensor  # int32 [b], their places in the batch
    max_lengths: tf.Tensor  # int32 [b]
    fixed: Any  # `Cache.sentence`
    past: Any  # `Cache.past`
    positions: tf.Tensor  # int32 [b, 1, slots], to which position of the output a slot belongs
    state: _State


@dataclasses.dataclass(frozen=True)
class _Search:
    """The arguments of `beam_search` that are the same for all sentences."""

    step: Step
    beam_size: int
    alpha: float
    room: int
    reach: int
    min_length: int
    eos_id: int
    padding_id: int
    xla: bool

    def run(self, cache: Cache, max_lengths: tf.Tensor, num_hypotheses: int) -> Hypotheses:
        """Searches room after room: what is inside a room has a fixed shape."""
        fill = (
            tf.function(self._fill, jit_compile=True, autograph=False) if self.xla else self._fill
        )
        sentences = self._without_unused(
            tf.constant(0), self._start(cache, max_lengths, num_hypotheses)
        )
        results = Hypotheses(sentences.state.finished_ids, sentences.state.finished_scores)

        def some_left(_, sentences: _Sentences, __) -> tf.Tensor:
            return tf.size(sentences.rows) > 0

        def search_on(index: tf.Tensor, sentences: _Sentences, results: Hypotheses):
            recent = tf.nest.map_structure(lambda x: x[: tf.size(sentences.rows)], cache.recent)
            index, sentences = fill(index, sentences, recent)
            rows, state = sentences.rows[:, None], sentences.state
            results = Hypotheses(
                tf.tensor_scatter_nd_update(results.ids, rows, state.finished_ids),
                tf.tensor_scatter_nd_update(results.scores, rows, state.finished_scores),
            )
            return index, self._without_unused(index, self._without_done(sentences)), results

        start = (tf.constant(0), sentences, results)
        free = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), sentences)
        free = free._replace(
            past=tf.nest.map_structure(_free_slots, sentences.past),
            positions=_free_slots(sentences.positions),
            state=free.state._replace(legal=_free_slots(sentences.state.legal)),
        )
        fixed = tf.nest.map_structure(lambda x: x.shape, results)
        index, _, results = tf.while_loop(
            some_left, search_on, start, shape_invariants=(tf.TensorShape([]), free, fixed)
        )
        return Hypotheses(results.ids[:, :, :index], results.scores)

    def _start(self, cache: Cache, max_lengths: tf.Tensor, num_hypotheses: int) -> _Sentences:
        """One empty hypothesis a sentence; the other places of the beam are vacant."""
        batch_size, beam_size = tf.shape(max_lengths)[0], self.beam_size
        # An empty batch has no longest output.
        longest = tf.maximum(tf.reduce_max(max_lengths), 1)
        live_log_probs = tf.one_hot(0, beam_size, on_value=0.0, off_value=_IMPOSSIBLE)
        return _Sentences(
            rows=tf.range(batch_size),
            max_lengths=max_lengths,
            fixed=cache.sentence,
            past=cache.past,
            positions=tf.zeros([batch_size, 1, 0], tf.int32),
            state=_State(
                live_ids=tf.fill([batch_size, beam_size, longest], self.padding_id),
                previous_ids=tf.fill([batch_size, beam_size], self.padding_id),
                live_log_probs=tf.tile(live_log_probs[None], [batch_size, 1]),
                legal=tf.zeros([batch_size, beam_size, 0], tf.bool),
                finished_ids=tf.fill([batch_size, num_hypotheses, longest], self.padding_id),
                finished_scores=tf.fill([batch_size, num_hypotheses], _IMPOSSIBLE),
            ),
        )

    def _fill(
        self, index: tf.Tensor, sentences: _Sentences, recent: Any
    ) -> tuple[tf.Tensor, _Sentences]:
        """Searches until `recent` is full or nothing is live; then it belongs to the past."""
        slots = self.room * self.beam_size
        positions = index + tf.range(slots) // self.beam_size
        positions = tf.tile(positions[None, None], [tf.size(sentences.rows), 1, 1])
        positions = tf.concat([sentences.positions, positions], axis=2)
        legal = tf.pad(sentences.state.legal, [[0, 0], [0, 0], [0, slots]])

        def unfinished(place: tf.Tensor, state: _State, _) -> tf.Tensor:
            return (place < self.room) & tf.reduce_any(state.live_log_probs > _IMPOSSIBLE)

        def extend(place: tf.Tensor, state: _State, recent: Any) -> tuple[tf.Tensor, _State, Any]:
            now = index + place
            new_slots = tf.shape(positions)[2] - slots + place * self.beam_size
            own = tf.range(tf.shape(positions)[2]) == new_slots + tf.range(self.beam_size)[:, None]
            state = state._replace(legal=state.legal | own)
            seen = state.legal
            if self.reach:
                seen &= positions >= now - self.reach
            logits, recent = self.step(
                state.previous_ids,
                now,
                place,
                seen,
                Cache(sentences.fixed, sentences.past, recent),
            )
            return place + 1, self._extended(state, logits, now, sentences.max_lengths), recent

        place, state, recent = tf.while_loop(
            unfinished, extend, (tf.constant(0), sentences.state._replace(legal=legal), recent)
        )
        past = tf.nest.map_structure(
            lambda old, new: tf.concat([old, new], axis=2), sentences.past, recent
        )
        sentences = sentences._replace(past=past, positions=positions, state=state)
        return index + place, sentences

    def _extended(
        self, state: _State, logits: tf.Tensor, index: tf.Tensor, max_lengths: tf.Tensor
    ) -> _State:
        """Returns the state after the symbol at `index`."""
        candidates = best_candidates(
            logits,
            state.live_log_probs,
            may_end=index >= self.min_length - 1,
            must_end=index >= max_lengths - 1,
            eos_id=self.eos_id,
            padding_id=self.padding_id,
        )
        ends = candidates.ids == self.eos_id
        finished_ids, finished_scores = self._finished(state, candidates, ends, index)

        # At most K of the 2K candidates are ends, so K others are left to live on.
        live_log_probs, chosen = tf.math.top_k(
            tf.where(ends, _IMPOSSIBLE, candidates.log_probs), self.beam_size
        )
        parents = tf.gather(candidates.parents, chosen, batch_dims=1)
        ids = tf.gather(candidates.ids, chosen, batch_dims=1)
        done = self._is_done(live_log_probs, finished_scores, max_lengths)
        return _State(
            live_ids=_written(tf.gather(state.live_ids, parents, batch_dims=1), index, ids),
            previous_ids=ids,
            # Vacant for good: while the batch goes on, a done sentence no longer changes.
            live_log_probs=tf.where(done[:, None], _IMPOSSIBLE, live_log_probs),
            legal=tf.gather(state.legal, parents, batch_dims=1),
            finished_ids=finished_ids,
            finished_scores=finished_scores,
        )

    def _finished(
        self, state: _State, candidates: Candidates, ends: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [B, N, L] and scores [B, N] of the best finished hypotheses so far.

        `ends`, bool [B, 2K], tells which candidates are an end of sentence.
        """
        best = slice(None, self.beam_size)
        new_scores = tf.where(ends, candidates.log_probs, _IMPOSSIBLE)[:, best]
        new_scores /= length_penalty(index + 1, self.alpha)
        new_ids = _written(
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
            return finished_scores[:, 0] > _IMPOSSIBLE
        best_reachable = live_log_probs[:, 0] / length_penalty(max_lengths, self.alpha)
        return finished_scores[:, -1] >= best_reachable

    def _without_done(self, sentences: _Sentences) -> _Sentences:
        """Leaves behind sentences without a live hypothesis; under XLA, when they are many."""
        live = tf.reduce_any(sentences.state.live_log_probs > _IMPOSSIBLE, axis=1)
        count = tf.math.count_nonzero(live, dtype=tf.int32)
        size = tf.size(sentences.rows)
        if self.xla:
            count = tf.where(
                count > size // _XLA_SHRINKS, size, tf.minimum(count, 1) * (size // _XLA_SHRINKS)
            )

        def leave() -> _Sentences:
            rows = tf.argsort(tf.where(live, 0, 1), stable=True)[:count]
            return tf.nest.map_structure(lambda x: tf.gather(x, rows), sentences)

        return tf.cond(count == size, lambda: sentences, leave)

    def _without_unused(self, index: tf.Tensor, sentences: _Sentences) -> _Sentences:
        """Leaves behind the slots that no live hypothesis goes back to from `index` on."""
        state = sentences.state
        used = state.legal & (state.live_log_probs > _IMPOSSIBLE)[:, :, None]
        used = tf.reduce_any(used, axis=1)
        if self.reach:
            used &= sentences.positions[:, 0] >= index - self.reach
        count = tf.reduce_max(tf.math.count_nonzero(used, axis=1, dtype=tf.int32))
        # The used ones first; both kinds in their order.
        kept = tf.argsort(tf.where(used, 0, 1), stable=True)
        unused = tf.constant(0)
        if self.xla:
            count = _rounded_up(count, _XLA_SLOTS)
            unused = tf.maximum(count - tf.shape(used)[1], 0)
        kept = kept[:, :count]

        def keep(x: tf.Tensor) -> tf.Tensor:
            x = tf.gather(x, kept, axis=2, batch_dims=1)
            return tf.pad(x, [[0, 0], [0, 0], [0, unused]] + [[0, 0]] * (len(x.shape) - 3))

        return sentences._replace(
            past=tf.nest.map_structure(keep, sentences.past),
            positions=keep(sentences.positions),
            state=state._replace(legal=keep(state.legal)),
        )


def _written(sequences: tf.Tensor, index: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Writes ids [B, K] at `index` into [B, K, L]."""
    here = tf.range(tf.shape(sequences)[2]) == index
    return tf.where(here, ids[:, :, None], sequences)


def _rounded_up(count: tf.Tensor, smallest: int) -> tf.Tensor:
    """Returns the first of smallest, 2 · smallest, 4 · smallest, ... that is not below `count`."""
    doublings = tf.range(31 - smallest.bit_length(), dtype=tf.int32)
    sizes = smallest * 2**doublings
    return tf.gather(sizes, tf.searchsorted(sizes, count[None])[0])


def _free_slots(x: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None, x.shape[1], None, *x.shape[3:]])
