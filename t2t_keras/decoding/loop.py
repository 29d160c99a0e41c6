"""The loop of every search: one position after the other, for many sentences at once.

It is generic in the function that scores the next symbol and in the rule that chooses among
continuations (`beam_search`, `sampling`).

What a hypothesis has computed for a position, its keys and values, stays where it was written: in
a slot that belongs to the position and the place in the beam. When hypotheses change places, only
a table of who goes back to which slots changes. Every few positions the slots that no live
hypothesis goes back to are left behind, and so are the sentences that are done.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from t2t_keras.decoding.constraints import IMPOSSIBLE, Limits

# XLA compiles for each shape. Slots of the past come in this number, doubled as often as needed ...
_XLA_SLOTS = 128
# ... the longest output is this, doubled as often as needed ...
_XLA_LENGTH = 64
# ... and sentences are left behind when only one in so many still goes on.
_XLA_SHRINKS = 4


class Cache(NamedTuple):
    """What a search keeps: nested structures of tensors [B, ...], one row for each sentence.

    Attributes:
      sentence: what was computed once for a sentence, such as keys and values of its source.
      past: tensors [B, ?, slots, ...] of earlier positions; given without any slot.
      recent: the same structure, with room for R positions of K slots each.
      shared: what was computed once for all sentences.
    """

    sentence: Any
    past: Any
    recent: Any
    shared: Any = ()


class Scored(NamedTuple):
    """What a step returns.

    Attributes:
      logits: float32 [B, K, V], unnormalised log-probabilities of the symbol at `index`.
      recent: `Cache.recent` with the new position.
      attention: float32 [B, K, S], how the step's attention is distributed over the source, for
        rules that want it; else S = 0.
    """

    logits: tf.Tensor
    recent: Any
    attention: tf.Tensor


# step(previous, index, place, legal, cache) -> Scored, for B sentences of K hypotheses:
#   previous  int32 [B, K], the symbols chosen last; padding at index 0, where there are none
#   index     int32 [], the position in the output that is scored
#   place     int32 [], the position's place in `cache.recent`: its slots are place · K + 0 .. K - 1
#   legal     bool [B, K, slots of past + slots of recent], which slots each hypothesis goes back
#             to, the new ones included
#   cache     a `Cache`
Step = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, Cache], Scored]


class Hypotheses(NamedTuple):
    """The results: of a beam search best first, of sampling in the order of the draws.

    Attributes:
      ids: int32 [B, N, L], each hypothesis with its end of sentence, then padding; L is the number
        of steps that were needed.
      scores: float32 [B, N], log-probability / length penalty; -inf, and only padding in `ids`,
        where fewer than N hypotheses exist.
    """

    ids: tf.Tensor
    scores: tf.Tensor


class State(NamedTuple):
    """What the loop carries; L is the longest output allowed to any sentence."""

    live_ids: tf.Tensor  # int32 [B, K, L], padding from the position that comes next
    previous_ids: tf.Tensor  # int32 [B, K], the last of live_ids
    live_log_probs: tf.Tensor  # float32 [B, K], best first; -inf: this place is vacant
    legal: tf.Tensor  # bool [B, K, slots], the slots that each live hypothesis goes back to
    coverage: tf.Tensor  # float32 [B, K, S], each live hypothesis's sum of `Scored.attention`
    finished_ids: tf.Tensor  # int32 [B, N, L]
    finished_scores: tf.Tensor  # float32 [B, N], best first; -inf: this place is vacant


class Rule(Protocol):
    """How the continuations of hypotheses are chosen.

    Attributes:
      places: K, how many hypotheses of a sentence are live at once.
      num_hypotheses: N, how many finished ones are kept.
    """

    places: int
    num_hypotheses: int

    def first(self) -> list[float]:
        """Returns the log-probabilities [K] of the places at the start: 0, or -inf for vacant."""

    def extended(self, state: State, logits: tf.Tensor, index: tf.Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`, scored by logits [B, K, V]."""


class _Sentences(NamedTuple):
    """The sentences that are not done, b of B."""

    rows: tf.Tensor  # int32 [b], their places in the batch
    limits: Limits
    fixed: Any  # `Cache.sentence`
    past: Any  # `Cache.past`
    positions: tf.Tensor  # int32 [b, 1, slots], to which position of the output a slot belongs
    state: State


def decode(
    step: Step,
    cache: Cache,
    limits: Limits,
    rule: Rule,
    *,
    room: int,
    reach: int = 0,
    padding_id: int = 0,
    xla: bool = False,
) -> Hypotheses:
    """Decodes sentences until each is done.

    Args:
      step: scores the next symbol, see `Step`.
      cache: what `step` keeps, see `Cache`.
      limits: what holds for each sentence.
      rule: chooses among the continuations of hypotheses.
      room: R, for how many positions `cache.recent` has room.
      reach: how many positions before its own a step goes back to; 0 = all.
      padding_id: fills up the results.
      xla: whether the steps are compiled by XLA, anew for each number of sentences, length of the
        source, and doubling of the longest output and of the number of slots.

    Returns:
      `Hypotheses` with ids [B, N, L] and scores [B, N].
    """
    return _Loop(step, rule, cache.shared, room, reach, padding_id, xla).run(cache, limits)


@dataclasses.dataclass(frozen=True)
class _Loop:
    """The arguments of `decode` that are the same for all sentences."""

    step: Step
    rule: Rule
    shared: Any  # `Cache.shared`
    room: int
    reach: int
    padding_id: int
    xla: bool

    def run(self, cache: Cache, limits: Limits) -> Hypotheses:
        """Searches room after room: what is inside a room has a fixed shape."""
        fill = self._fill
        if self.xla:
            fill = tf.function(fill, jit_compile=True, autograph=False)
        sentences = self._without_unused(tf.constant(0), self._start(cache, limits))
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

    def _start(self, cache: Cache, limits: Limits) -> _Sentences:
        """Empty hypotheses in the places that the rule does not leave vacant."""
        batch_size, places = tf.shape(limits.max_lengths)[0], self.rule.places
        num_hypotheses = self.rule.num_hypotheses
        # An empty batch has no longest output.
        longest = tf.maximum(tf.reduce_max(limits.max_lengths), 1)
        if self.xla:
            longest = _rounded_up(longest, _XLA_LENGTH)
        return _Sentences(
            rows=tf.range(batch_size),
            limits=limits,
            fixed=cache.sentence,
            past=cache.past,
            positions=tf.zeros([batch_size, 1, 0], tf.int32),
            state=State(
                live_ids=tf.fill([batch_size, places, longest], self.padding_id),
                previous_ids=tf.fill([batch_size, places], self.padding_id),
                live_log_probs=tf.tile([self.rule.first()], [batch_size, 1]),
                legal=tf.zeros([batch_size, places, 0], tf.bool),
                coverage=tf.tile(limits.covered[:, None], [1, places, 1]),
                finished_ids=tf.fill([batch_size, num_hypotheses, longest], self.padding_id),
                finished_scores=tf.fill([batch_size, num_hypotheses], IMPOSSIBLE),
            ),
        )

    def _fill(
        self, index: tf.Tensor, sentences: _Sentences, recent: Any
    ) -> tuple[tf.Tensor, _Sentences]:
        """Searches until `recent` is full or nothing is live; then it belongs to the past."""
        slots = self.room * self.rule.places
        positions = index + tf.range(slots) // self.rule.places
        positions = tf.tile(positions[None, None], [tf.size(sentences.rows), 1, 1])
        positions = tf.concat([sentences.positions, positions], axis=2)
        legal = tf.pad(sentences.state.legal, [[0, 0], [0, 0], [0, slots]])

        def unfinished(place: tf.Tensor, state: State, _) -> tf.Tensor:
            return (place < self.room) & tf.reduce_any(state.live_log_probs > IMPOSSIBLE)

        def extend(place: tf.Tensor, state: State, recent: Any) -> tuple[tf.Tensor, State, Any]:
            now = index + place
            new_slots = tf.shape(positions)[2] - slots + place * self.rule.places
            own = (
                tf.range(tf.shape(positions)[2]) == new_slots + tf.range(self.rule.places)[:, None]
            )
            state = state._replace(legal=state.legal | own)
            seen = state.legal
            if self.reach:
                seen &= positions >= now - self.reach
            scored = self.step(
                state.previous_ids,
                now,
                place,
                seen,
                Cache(sentences.fixed, sentences.past, recent, self.shared),
            )
            state = state._replace(coverage=state.coverage + scored.attention)
            state = self.rule.extended(state, scored.logits, now, sentences.limits)
            return place + 1, state, scored.recent

        place, state, recent = tf.while_loop(
            unfinished, extend, (tf.constant(0), sentences.state._replace(legal=legal), recent)
        )
        past = tf.nest.map_structure(
            lambda old, new: tf.concat([old, new], axis=2), sentences.past, recent
        )
        sentences = sentences._replace(past=past, positions=positions, state=state)
        return index + place, sentences

    def _without_done(self, sentences: _Sentences) -> _Sentences:
        """Leaves behind sentences without a live hypothesis; under XLA, when they are many."""
        live = tf.reduce_any(sentences.state.live_log_probs > IMPOSSIBLE, axis=1)
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
        used = state.legal & (state.live_log_probs > IMPOSSIBLE)[:, :, None]
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


def written(sequences: tf.Tensor, index: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Writes ids [B, K] at `index` into sequences [B, K, L]."""
    here = tf.range(tf.shape(sequences)[2]) == index
    return tf.where(here, ids[:, :, None], sequences)


def _rounded_up(count: tf.Tensor, smallest: int) -> tf.Tensor:
    """Returns the first of smallest, 2 · smallest, 4 · smallest, ... that is not below `count`."""
    doublings = tf.range(31 - smallest.bit_length(), dtype=tf.int32)
    sizes = smallest * 2**doublings
    return tf.gather(sizes, tf.searchsorted(sizes, count[None])[0])


def _free_slots(x: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None, x.shape[1], None, *x.shape[3:]])
