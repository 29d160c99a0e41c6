"""The search for outputs: ids in, hypotheses out.

`Constraints` restrict all outputs; `Limits` restrict those of one sentence.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from keras import ops, tree

from t2t_keras.decoding import tensors
from t2t_keras.decoding.tensors import Tensor, gather
from t2t_keras.special_ids import EOS_ID, PADDING_ID

# Number of positions in a block, inside which the shapes of tensors are fixed.
BLOCK_SIZE = 8
IMPOSSIBLE = -float("inf")
# As the first symbol of a forbidden sequence, this stands for any of `Constraints.boundaries`.
BOUNDARY = -2
_ANY = -1  # Any symbol.

# XLA compiles for each shape, so there should be few shapes.
_MIN_XLA_SLOTS = 128  # Slots of the past: this number, doubled as often as needed.
_MIN_XLA_LENGTH = 64  # Maximum output length, doubled likewise.
_XLA_SHRINK_FACTOR = 4  # Finished sentences are dropped when at most one in four is unfinished.


class Limits(NamedTuple):
    """Constraints of each sentence."""

    max_lengths: Tensor  # int32 [B], maximum symbols of an output, EOS included; >= 1
    prefixes: Tensor  # int32 [B, P], the beginning of an output, then padding
    line_ids: Tensor  # int32 [B], which the draws of sampling depend on
    # float32 [B, S], coverage before the first symbol: 1 at masked positions, else 0; S = 0 without
    # a coverage penalty.
    initial_coverage: Tensor
    grammar_data: tuple = ()  # `Grammar.start` of each grammar


class Grammar(Protocol):
    """Restricts outputs to those of a grammar.

    After every beginning that it allows, it allows at least one symbol.
    """

    def start(self, source: Tensor) -> Any:
        """Returns data for `mask`, nested tensors [B, ...], from sources int32 [B, S]."""

    def mask(
        self, logits: Tensor, live_ids: Tensor, index: Tensor, limits: Limits, data: Any
    ) -> Tensor:
        """Returns logits [B, K, V] with -inf for symbols that are not allowed at `index`.

        `live_ids`, int32 [B, K, L], has the symbols before `index`, int32 [], then padding; `data`
        is the result of `start`, without the rows of finished sentences.
        """


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Constraints of all sentences."""

    # Minimum symbols of an output, EOS included; a lower maximum in `Limits` overrides it.
    min_length: int = 1
    # Sequences of symbols that no output may contain. A sequence that begins with `BOUNDARY` is
    # forbidden only after one of `boundaries`.
    forbidden: tuple[tuple[int, ...], ...] = ()
    boundaries: tuple[int, ...] = ()  # Symbols; padding stands for the start of the output.
    grammars: tuple[Grammar, ...] = ()

    def forced_ids(self, index: Tensor, limits: Limits) -> Tensor:
        """Returns the only symbol that is allowed at `index`, int32 [B]; -1 = any."""
        # Add a column, for all positions after the longest prefix.
        prefixes = ops.pad(limits.prefixes, [[0, 0], [0, 1]], constant_values=PADDING_ID)
        column = ops.minimum(index, ops.shape(limits.prefixes)[1])
        prefix_ids = gather(prefixes, column, axis=1)
        prefix_ids = ops.where(prefix_ids == PADDING_ID, _ANY, prefix_ids)
        return ops.where(index >= limits.max_lengths - 1, EOS_ID, prefix_ids)

    def is_excluded(self, ids: Tensor, index: Tensor) -> Tensor:
        """Returns whether ids are padding, or an end of sentence that is too early at `index`."""
        too_early = index < self.min_length - 1
        return (ids == PADDING_ID) | ((ids == EOS_ID) & too_early)

    def mask(self, logits: Tensor, live_ids: Tensor, index: Tensor, limits: Limits) -> Tensor:
        """Returns the logits of `mask_forbidden`, with -inf also for what a grammar excludes."""
        logits = self.mask_forbidden(logits, live_ids, index)
        for grammar, data in zip(self.grammars, limits.grammar_data, strict=True):
            logits = grammar.mask(logits, live_ids, index, limits, data)
        return logits

    def mask_forbidden(self, logits: Tensor, live_ids: Tensor, index: Tensor) -> Tensor:
        """Returns logits [B, K, V] with -inf for symbols that would complete a forbidden sequence.

        `live_ids`, int32 [B, K, L], has the symbols before `index`, int32 [].
        """
        if not self.forbidden:
            return logits
        longest = max(map(len, self.forbidden))
        # [sequences, longest - 1], the symbols before the last one, padded in front with _ANY.
        earlier_symbols = ops.convert_to_tensor(
            [[_ANY] * (longest - len(ids)) + list(ids[:-1]) for ids in self.forbidden], "int32"
        )
        last_symbols = ops.convert_to_tensor([ids[-1] for ids in self.forbidden], "int32")
        # Padding precedes the first symbol.
        padding = [[0, 0], [0, 0], [longest - 1, 0]]
        padded_ids = ops.pad(live_ids, padding, constant_values=PADDING_ID)
        window = gather(padded_ids, index + ops.arange(longest - 1), axis=2)
        is_boundary = np.isin(np.arange(logits.shape[-1]), self.boundaries)
        at_boundary = gather(is_boundary, window)[:, :, None] & (earlier_symbols == BOUNDARY)
        matches = (earlier_symbols == _ANY) | (window[:, :, None] == earlier_symbols) | at_boundary
        completes = ops.all(matches, axis=3)  # [B, K, sequences]
        batch_size, beam_size, num_sequences = ops.shape(completes)
        count = batch_size * beam_size
        rows = ops.repeat(ops.arange(count), num_sequences)
        columns = ops.reshape(ops.broadcast_to(last_symbols, (count, num_sequences)), [-1])
        bounds = ops.reshape(ops.where(completes, IMPOSSIBLE, -IMPOSSIBLE), [-1])
        flat, indices = ops.reshape(logits, [-1, logits.shape[-1]]), ops.stack([rows, columns], 1)
        return ops.reshape(
            ops.scatter_update(flat, indices, bounds, reduction="min"), ops.shape(logits)
        )


class Cache(NamedTuple):
    """The cache of a search: nested structures of tensors [B, ...], one row for each sentence."""

    sentence: Any  # computed once for a sentence, such as keys and values of its source
    past: Any  # tensors [B, ?, slots, ...] of earlier positions; no slots at the start
    recent: Any  # the same structure, with K slots for each position of a block
    shared: Any = ()  # computed once for all sentences


class StepResult(NamedTuple):
    """The result of a step."""

    logits: Tensor  # float32 [B, K, V], unnormalised log-probabilities of the symbol at `index`
    recent: Any  # `Cache.recent` with the new position
    attention: Tensor  # float32 [B, K, S], over the source; S = 0 where no rule needs it


# step(previous, index, position, valid_slots, cache) -> StepResult; B sentences, K hypotheses:
#   previous     int32 [B, K], the last symbols; padding at index 0
#   index        int32 [], position in the output to score
#   position     int32 [], position in `cache.recent`: its K slots begin at position · K
#   valid_slots  bool [B, K, slots of past + slots of recent], the slots of each hypothesis's own
#                positions, the new one included
#   cache        a `Cache`
Step = Callable[[Tensor, Tensor, Tensor, Tensor, Cache], StepResult]


class Hypotheses(NamedTuple):
    """The results: best first for beam search, in the order of the draws for sampling.

    If there are fewer than N, the missing ones have scores of -inf and only padding as ids.
    """

    # int32 [B, N, L], with the end of sentence, then padding; L = number of steps, or on JAX the
    # maximum output length.
    ids: Tensor
    scores: Tensor  # float32 [B, N], log-probability / length penalty - coverage penalty


class State(NamedTuple):
    """The state of the loop; L is the maximum output length of any sentence."""

    live_ids: Tensor  # int32 [B, K, L], padding from the next position on
    previous_ids: Tensor  # int32 [B, K], the last of live_ids
    live_log_probs: Tensor  # float32 [B, K], ordered as `Hypotheses`; -inf = no hypothesis
    valid_slots: Tensor  # bool [B, K, slots], the slots of each live hypothesis's positions
    coverage: Tensor  # float32 [B, K, S], each live hypothesis's sum of `StepResult.attention`
    finished_ids: Tensor  # int32 [B, N, L]
    finished_scores: Tensor  # float32 [B, N], ordered as `Hypotheses`; -inf = no hypothesis


class Rule(Protocol):
    """Chooses the continuations of hypotheses: a `BeamSearch` or a `Sampling`."""

    @property
    def beam_size(self) -> int:
        """K, number of live hypotheses of a sentence."""

    @property
    def num_hypotheses(self) -> int:
        """N, number of finished hypotheses to keep."""

    def initial_log_probs(self) -> list[float]:
        """Returns K log-probabilities at the start: 0, or -inf = no hypothesis."""

    def extend(self, state: State, logits: Tensor, index: Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`, from logits [B, K, V]."""


class _Sentences(NamedTuple):
    """The sentences of a batch that are not done, b of B."""

    rows: Tensor  # int32 [b], their rows in the batch
    limits: Limits
    source_cache: Any  # `Cache.sentence`
    past: Any  # `Cache.past`
    positions: Tensor  # int32 [b, 1, slots], the position in the output that a slot belongs to
    state: State


@dataclasses.dataclass(frozen=True)
class SearchLoop:
    """Decodes sentences until each is done.

    Keys and values of a position are written once, to the slot for the position and for the rank of
    the hypothesis in the beam, and are never moved. When hypotheses change ranks, only the table of
    valid slots changes. After every block of positions, slots that no live hypothesis needs are
    dropped, and so are finished sentences.

    Attributes:
      step: scores the next symbol, see `Step`.
      rule: chooses among the continuations of hypotheses.
      block_size: number of positions that `Cache.recent` has slots for.
      attention_window: number of earlier positions that a step attends to; 0 = all.
      xla: whether to compile blocks with XLA: once for each number of sentences, length of the
        source, and doubling of the longest output or of the number of slots.
      max_length: maximum output length of any sentence, if all blocks must have the same shapes, as
        on JAX: there are slots for all positions, and nothing is dropped; 0 = shapes may change.
    """

    step: Step
    rule: Rule
    block_size: int
    attention_window: int = 0
    xla: bool = False
    max_length: int = 0

    def run(self, cache: Cache, limits: Limits) -> Hypotheses:
        """Searches in blocks of positions; within a block, the shapes of tensors are fixed."""

        def fill_block(index: Tensor, sentences: _Sentences, recent: Any) -> Any:
            # `shared` is captured, so that only the tensors that a step needs are computed.
            return self._fill_block(index, sentences, recent, cache.shared)

        start = ops.convert_to_tensor(0, "int32")
        sentences = self._drop_slots(start, self._start(cache, limits))
        if self.max_length:
            return self._run_with_fixed_shapes(fill_block, start, sentences, cache.recent)
        if self.xla:
            fill_block = tensors.compiled_with_xla(fill_block)
        results = Hypotheses(sentences.state.finished_ids, sentences.state.finished_scores)

        def search_block(
            index: Tensor, sentences: _Sentences, results: Hypotheses
        ) -> tuple[Tensor, _Sentences, Hypotheses]:
            count = ops.shape(sentences.rows)[0]
            recent = tree.map_structure(lambda x: x[:count], cache.recent)
            index, sentences = fill_block(index, sentences, recent)
            rows, state = sentences.rows[:, None], sentences.state
            results = Hypotheses(
                ops.scatter_update(results.ids, rows, state.finished_ids),
                ops.scatter_update(results.scores, rows, state.finished_scores),
            )
            return index, self._drop_slots(index, self._drop_done(sentences)), results

        shape = tensors.free_shape
        shapes = tree.map_structure(lambda x: shape(x, 0), sentences)
        shapes = shapes._replace(
            past=tree.map_structure(lambda x: shape(x, 0, 2), sentences.past),
            positions=shape(sentences.positions, 0, 2),
            state=shapes.state._replace(valid_slots=shape(sentences.state.valid_slots, 0, 2)),
        )
        index, _, results = tensors.loop(
            lambda index, sentences, results: ops.shape(sentences.rows)[0] > 0,
            search_block,
            (start, sentences, results),
            (start.shape, shapes, tree.map_structure(shape, results)),
        )
        return Hypotheses(results.ids[:, :, :index], results.scores)

    def _run_with_fixed_shapes(
        self, fill_block: Callable, start: Tensor, sentences: _Sentences, recent: Any
    ) -> Hypotheses:
        """Searches as `run`, with slots for all positions: keeps finished sentences, too."""

        def search_block(index: Tensor, sentences: _Sentences) -> tuple[Tensor, _Sentences]:
            index, sentences = fill_block(index, sentences, recent)
            return index, self._drop_slots(index, sentences)

        def has_work(index: Tensor, sentences: _Sentences) -> Tensor:
            return ops.any(sentences.state.live_log_probs > IMPOSSIBLE)

        _, sentences = ops.while_loop(has_work, search_block, (start, sentences))
        return Hypotheses(sentences.state.finished_ids, sentences.state.finished_scores)

    def _start(self, cache: Cache, limits: Limits) -> _Sentences:
        """Returns all sentences with empty hypotheses, as many as the rule starts with."""
        beams = (batch_size := ops.shape(limits.max_lengths)[0]), self.rule.beam_size
        # An empty batch has no maximum.
        max_length = self.max_length or ops.max(limits.max_lengths, initial=1)
        if self.xla and not self.max_length:
            max_length = _next_size(max_length, _MIN_XLA_LENGTH)
        finished = batch_size, self.rule.num_hypotheses
        coverage = limits.initial_coverage[:, None]
        initial_log_probs = ops.convert_to_tensor(self.rule.initial_log_probs(), "float32")
        return _Sentences(
            rows=ops.arange(batch_size),
            limits=limits,
            source_cache=cache.sentence,
            past=cache.past,
            positions=ops.zeros((batch_size, 1, 0), "int32"),
            state=State(
                live_ids=ops.full((*beams, max_length), PADDING_ID, "int32"),
                previous_ids=ops.full(beams, PADDING_ID, "int32"),
                live_log_probs=ops.broadcast_to(initial_log_probs, beams),
                valid_slots=ops.zeros((*beams, 0), "bool"),
                coverage=ops.broadcast_to(coverage, (*beams, ops.shape(coverage)[2])),
                finished_ids=ops.full((*finished, max_length), PADDING_ID, "int32"),
                finished_scores=ops.full(finished, IMPOSSIBLE, "float32"),
            ),
        )

    def _fill_block(
        self, index: Tensor, sentences: _Sentences, recent: Any, shared: Any
    ) -> tuple[Tensor, _Sentences]:
        """Searches until `recent` is full or no hypothesis is live; then appends it to the past."""
        beam_size = self.rule.beam_size
        slots = self.block_size * beam_size
        positions = index + ops.arange(slots) // beam_size
        positions = ops.broadcast_to(positions, (ops.shape(sentences.rows)[0], 1, slots))
        positions = ops.concatenate([sentences.positions, positions], axis=2)
        valid_slots = ops.pad(sentences.state.valid_slots, [[0, 0], [0, 0], [0, slots]])

        def has_work(position: Tensor, state: State, recent: Any) -> Tensor:
            return (position < self.block_size) & ops.any(state.live_log_probs > IMPOSSIBLE)

        def extend(position: Tensor, state: State, recent: Any) -> tuple[Tensor, State, Any]:
            absolute_position = index + position
            all_slots = ops.shape(positions)[2]
            new_slots = all_slots - slots + position * beam_size
            own_slots = ops.arange(all_slots) == new_slots + ops.arange(beam_size)[:, None]
            state = state._replace(valid_slots=state.valid_slots | own_slots)
            visible_slots = state.valid_slots
            if self.attention_window:
                visible_slots &= positions >= absolute_position - self.attention_window
            cache = Cache(sentences.source_cache, sentences.past, recent, shared)
            result = self.step(
                state.previous_ids, absolute_position, position, visible_slots, cache
            )
            state = state._replace(coverage=state.coverage + result.attention)
            state = self.rule.extend(state, result.logits, absolute_position, sentences.limits)
            return position + 1, state, result.recent

        state = sentences.state._replace(valid_slots=valid_slots)
        start = ops.convert_to_tensor(0, "int32")
        position, state, recent = ops.while_loop(has_work, extend, (start, state, recent))
        past = tree.map_structure(
            lambda old, new: ops.concatenate([old, new], axis=2), sentences.past, recent
        )
        return index + position, sentences._replace(past=past, positions=positions, state=state)

    def _drop_done(self, sentences: _Sentences) -> _Sentences:
        """Drops sentences without a live hypothesis; under XLA, only when there are many."""
        is_live = ops.any(sentences.state.live_log_probs > IMPOSSIBLE, axis=1)
        count = ops.count_nonzero(is_live)
        size = ops.shape(sentences.rows)[0]
        if self.xla:
            shrunk_size = size // _XLA_SHRINK_FACTOR
            count = ops.where(count > shrunk_size, size, ops.minimum(count, 1) * shrunk_size)

        def drop() -> _Sentences:
            rows = ops.argsort(ops.where(is_live, 0, 1))[:count]  # The sort is stable.
            return tree.map_structure(lambda x: gather(x, rows), sentences)

        return ops.cond(count == size, lambda: sentences, drop)

    def _drop_slots(self, index: Tensor, sentences: _Sentences) -> _Sentences:
        """Drops the slots that no live hypothesis needs at `index` or later."""
        state = sentences.state
        is_used = state.valid_slots & (state.live_log_probs > IMPOSSIBLE)[:, :, None]
        is_used = ops.any(is_used, axis=1)
        if self.attention_window:
            is_used &= sentences.positions[:, 0] >= index - self.attention_window
        # Used slots first; the sort is stable.
        slots = ops.argsort(ops.where(is_used, 0, 1))
        num_slots, num_missing = ops.shape(is_used)[1], 0
        if self.max_length:
            count = self.max_length * self.rule.beam_size
            num_missing = max(count - num_slots, 0)
        else:
            count = ops.max(ops.count_nonzero(is_used, axis=1), initial=0)
            if self.xla:
                count = _next_size(count, _MIN_XLA_SLOTS)
                num_missing = ops.maximum(count - num_slots, 0)
        slots = slots[:, :count]

        def keep(x: Tensor) -> Tensor:
            x = gather(x, slots, axis=2, batch_dims=1)
            if not self.xla and not self.max_length:
                return x
            return ops.pad(x, [[0, 0], [0, 0], [0, num_missing]] + [[0, 0]] * (len(x.shape) - 3))

        return sentences._replace(
            past=tree.map_structure(keep, sentences.past),
            positions=keep(sentences.positions),
            state=state._replace(valid_slots=keep(state.valid_slots)),
        )


def write_ids(sequences: Tensor, index: Tensor, ids: Tensor) -> Tensor:
    """Returns sequences [B, K, L] with ids [B, K] at `index`."""
    return ops.where(ops.arange(ops.shape(sequences)[2]) == index, ids[:, :, None], sequences)


def _next_size(count: Tensor, smallest: int) -> Tensor:
    """Returns the first of smallest, 2 · smallest, 4 · smallest ... that is at least `count`."""
    sizes = smallest * 2 ** ops.arange(31 - smallest.bit_length())
    return gather(sizes, ops.searchsorted(sizes, count[None])[0])
