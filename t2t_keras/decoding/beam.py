"""Beam search (section 6.1), sampling, and forbidden words."""

import dataclasses
import heapq
import re
from collections.abc import Sequence

from keras import ops

from t2t_keras.decoding.config import length_penalty
from t2t_keras.decoding.search import BOUNDARY, IMPOSSIBLE, Constraints, Limits, State, write_ids
from t2t_keras.decoding.tensors import Tensor, exclusive_cumsum, gather, random_bits, softmax
from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID, SPACE
from t2t_keras.text.files import normalized
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Searches for the symbol sequences with the highest score.

    The score is log-probability / length penalty + beta · coverage penalty (Wu et al., 2016,
    equation 14); the paper has no coverage penalty.

    In every step each sentence keeps its `beam_size` best unfinished hypotheses. An end of
    sentence finishes a hypothesis if it is among the `beam_size` best continuations of all; the
    `num_hypotheses` best finished hypotheses are kept. A sentence is done when no unfinished
    hypothesis can become one of them: its score can reach at most log-probability /
    penalty(max_length), because log-probabilities only fall, no length penalty exceeds the penalty
    of the maximum length, and the coverage penalty is at most 0. With `beam_size` 1 the first end
    of sentence is final, which makes the search greedy.

    At the last allowed position only the end of sentence may follow, so every returned hypothesis
    is finished. Among equal scores the better parent hypothesis wins, then the smaller id.

    Attributes:
      beam_size: K, the width of the search.
      alpha: exponent of the length penalty, >= 0, a number or float32 []; 0 compares plain
        log-probabilities.
      num_hypotheses: N <= K, number of hypotheses to return for a sentence.
      beta: weight of the coverage penalty, >= 0.
      constraints: which symbols may follow.
    """

    beam_size: int
    alpha: float | Tensor
    num_hypotheses: int = 1
    beta: float = 0.0
    constraints: Constraints = dataclasses.field(default_factory=Constraints)

    def initial_log_probs(self) -> list[float]:
        """See `Rule`: one live hypothesis, as the others would be copies."""
        return [0.0, *[IMPOSSIBLE] * (self.beam_size - 1)]

    def extend(self, state: State, logits: Tensor, index: Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        log_probs, parents, ids = self._best_candidates(state, logits, index, limits)
        ends = ids == EOS_ID
        end_log_probs = ops.where(ends, log_probs, IMPOSSIBLE)
        finished_ids, finished_scores = self._update_finished(state, end_log_probs, parents, index)

        # At most K of the 2K candidates are ends, so K stay live.
        live_log_probs, ranks = ops.top_k(ops.where(ends, IMPOSSIBLE, log_probs), self.beam_size)
        parents, ids = (gather(x, ranks, batch_dims=1) for x in (parents, ids))
        is_done = self._is_done(live_log_probs, finished_scores, limits.max_lengths)
        return State(
            live_ids=write_ids(gather(state.live_ids, parents, batch_dims=1), index, ids),
            previous_ids=ids,
            # A sentence that is done must not change while the rest of the batch continues.
            live_log_probs=ops.where(is_done[:, None], IMPOSSIBLE, live_log_probs),
            valid_slots=gather(state.valid_slots, parents, batch_dims=1),
            coverage=gather(state.coverage, parents, batch_dims=1),
            finished_ids=finished_ids,
            finished_scores=finished_scores,
        )

    def _best_candidates(
        self, state: State, logits: Tensor, index: Tensor, limits: Limits
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns log-probabilities, parents and ids of the best continuations, each [B, 2K]."""
        beam_size, vocab_size = self.beam_size, logits.shape[-1]
        # Excluded symbols keep their share of the probability.
        normaliser = ops.logsumexp(logits, axis=-1, keepdims=True)  # [B, K, 1]
        allowed_logits = self.constraints.mask(logits, state.live_ids, index, limits)
        # A hypothesis contributes at most 2K symbols, besides padding and the end of sentence.
        width = min(2 * beam_size + 2, vocab_size)
        best_logits, ids = top_symbols(allowed_logits, width)  # [B, K, width]
        is_excluded = self.constraints.is_excluded(ids, index)
        log_probs = ops.where(is_excluded, IMPOSSIBLE, best_logits - normaliser)

        forced = self.constraints.forced_ids(index, limits)[:, None]  # [B, 1]
        forced_ids = ops.maximum(forced, 0)[:, :, None]
        forced_ids = ops.broadcast_to(forced_ids, (ops.shape(logits)[0], beam_size, 1))
        forced_log_probs = gather(logits, forced_ids, batch_dims=2) - normaliser  # [B, K, 1]
        forced = forced[:, :, None]
        padded_log_probs = ops.where(ops.arange(width) == 0, forced_log_probs, IMPOSSIBLE)
        log_probs = ops.where(forced >= 0, padded_log_probs, log_probs)
        ids = ops.where(forced >= 0, forced, ids)

        log_probs += state.live_log_probs[:, :, None]
        shape = [-1, beam_size * width]
        log_probs, places = ops.top_k(ops.reshape(log_probs, shape), 2 * beam_size)
        return log_probs, places // width, gather(ops.reshape(ids, shape), places, batch_dims=1)

    def _update_finished(
        self, state: State, end_log_probs: Tensor, parents: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns ids [B, N, L] and scores [B, N] of the best finished hypotheses so far."""
        parents = parents[:, : self.beam_size]
        penalty = length_penalty(ops.cast(index + 1, "float32"), self.alpha)
        new_scores = end_log_probs[:, : self.beam_size] / penalty
        if self.beta:
            penalties = self.beta * coverage_penalty(state.coverage)  # [B, K]
            new_scores += gather(penalties, parents, batch_dims=1)
        new_ids = gather(state.live_ids, parents, batch_dims=1)
        new_ids = write_ids(new_ids, index, ops.full(ops.shape(parents), EOS_ID, "int32"))
        # Earlier hypotheses come first, so that they win ties.
        scores, ranks = ops.top_k(
            ops.concatenate([state.finished_scores, new_scores], axis=1), self.num_hypotheses
        )
        ids = ops.concatenate([state.finished_ids, new_ids], axis=1)
        return gather(ids, ranks, batch_dims=1), scores

    def _is_done(
        self, live_log_probs: Tensor, finished_scores: Tensor, max_lengths: Tensor
    ) -> Tensor:
        """Returns bool [B]: whether no live hypothesis can still beat the worst finished one."""
        if self.beam_size == 1:
            return finished_scores[:, 0] > IMPOSSIBLE
        bound = live_log_probs[:, 0] / length_penalty(ops.cast(max_lengths, "float32"), self.alpha)
        return finished_scores[:, -1] >= bound


def coverage_penalty(coverage: Tensor) -> Tensor:
    """Returns Σ_i log(min(Σ_j p_ij, 1)), float32 [...] (Wu et al., 2016, equation 14).

    The coverage, float32 [..., S], is the attention to each position i, summed over the output.
    """
    return ops.sum(ops.log(ops.clip(coverage, 1e-9, 1.0)), axis=-1)


# Maximum symbols of a group in `top_symbols`.
_MAX_GROUP = 128


def top_symbols(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns `ops.top_k` of logits [..., V], faster for a large vocabulary.

    Divides the symbols into groups: the `count` best symbols are in the `count` groups with the
    best maxima, and maxima are faster than sorting. Returns logits and ids int32, both
    [..., count], best first; among equal logits the smaller id comes first.
    """
    vocab_size = logits.shape[-1]
    group = max(size for size in range(1, _MAX_GROUP + 1) if vocab_size % size == 0)
    if vocab_size < count * group * 4 or group < _MAX_GROUP // 8:
        return ops.top_k(logits, count)
    rows = ops.reshape(logits, [-1, vocab_size // group, group])
    _, groups = ops.top_k(ops.max(rows, axis=-1), count)
    groups = ops.sort(groups)  # Sorted by id, so that the smaller id wins ties.
    members = ops.reshape(gather(rows, groups, batch_dims=1), [-1, count * group])
    best, places = ops.top_k(members, count)
    ids = gather(groups, places // group, batch_dims=1) * group + places % group
    shape = (*ops.shape(logits)[:-1], count)
    return ops.reshape(best, shape), ops.reshape(ids, shape)


# Bits of a random integer that make a number in [0, 1): as many as float32 holds exactly.
_RANDOM_BITS = 23


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws independent outputs, symbol by symbol.

    Scores are the model's log-probabilities divided by the length penalty; temperature, top_k and
    top_p do not affect them. The draws for a sentence depend only on the seed and the sentence's
    number, not on the rest of the batch or on XLA.

    Attributes:
      num_hypotheses: N, number of outputs to draw for a sentence.
      alpha: exponent of the length penalty, >= 0, a number or float32 [].
      temperature: above 0; logits are divided by it before a symbol is drawn.
      top_k: number of the likeliest symbols to draw from; 0 = all.
      top_p: draw from the smallest set of likeliest symbols with this total probability (nucleus
        sampling, Holtzman et al., 2020); 1 = all. Below 1 and without `top_k`, every step sorts
        the vocabulary.
      seed: seed of all draws.
      constraints: which symbols may follow.
    """

    num_hypotheses: int
    alpha: float | Tensor = 0.0
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
        """See `Rule`: all hypotheses are live."""
        return [0.0] * self.num_hypotheses

    def extend(self, state: State, logits: Tensor, index: Tensor, limits: Limits) -> State:
        """Returns the state after the symbol at `index`."""
        ids = self._draw_symbols(state, logits, index, limits)
        log_probs = gather(ops.log_softmax(logits), ids, batch_dims=2)
        # Padding is drawn only where no symbol may follow.
        log_probs = ops.where(ids == PADDING_ID, IMPOSSIBLE, log_probs)
        live_log_probs = state.live_log_probs + log_probs
        live_ids = write_ids(state.live_ids, index, ids)
        ends = (ids == EOS_ID) & (state.live_log_probs > IMPOSSIBLE)
        scores = live_log_probs / length_penalty(ops.cast(index + 1, "float32"), self.alpha)
        return state._replace(
            live_ids=live_ids,
            previous_ids=ids,
            live_log_probs=ops.where(ends, IMPOSSIBLE, live_log_probs),
            finished_ids=ops.where(ends[:, :, None], live_ids, state.finished_ids),
            finished_scores=ops.where(ends, scores, state.finished_scores),
        )

    def _draw_symbols(self, state: State, logits: Tensor, index: Tensor, limits: Limits) -> Tensor:
        """Draws a symbol for each hypothesis, int32 [B, K]."""
        vocab_size = logits.shape[-1]
        allowed_logits = self.constraints.mask(logits, state.live_ids, index, limits)
        is_excluded = self.constraints.is_excluded(ops.arange(vocab_size), index)
        allowed_logits = ops.where(is_excluded, IMPOSSIBLE, allowed_logits)
        quantile = self._uniform(limits.line_ids, index)[:, :, None]
        if not self.top_k and self.top_p == 1:
            # Keep the order of ids: sorting the vocabulary would take most of the time.
            drawn_ids = _index_at(softmax(allowed_logits / self.temperature), quantile)
        else:
            best, ids = top_symbols(allowed_logits, min(self.top_k or vocab_size, vocab_size))
            probabilities = softmax(best / self.temperature)
            mass_before = exclusive_cumsum(probabilities, axis=2)
            rank = _index_at(ops.where(mass_before < self.top_p, probabilities, 0.0), quantile)
            drawn_ids = gather(ids, rank, batch_dims=2)
        forced = self.constraints.forced_ids(index, limits)[:, None]
        return ops.where(forced >= 0, forced, drawn_ids)

    def _uniform(self, line_ids: Tensor, index: Tensor) -> Tensor:
        """Returns a number in [0, 1) for each hypothesis of each sentence, float32 [B, K]."""
        bits = random_bits(self.seed, line_ids, index, self.num_hypotheses)
        bits = ops.bitwise_and(bits, 2**_RANDOM_BITS - 1)
        return ops.cast(bits, "float32") / 2**_RANDOM_BITS


def _index_at(probabilities: Tensor, quantile: Tensor) -> Tensor:
    """Returns the index where the running sum of `probabilities` passes a quantile [B, K, 1].

    The probabilities are [B, K, C]; the one at the index is above 0.
    """
    is_possible = probabilities > 0
    cumulative = ops.cumsum(probabilities, axis=2)
    is_past = is_possible & (cumulative > quantile * cumulative[:, :, -1:])
    indices = ops.arange(probabilities.shape[-1])
    first = ops.min(ops.where(is_past, indices, indices[-1]), axis=2)
    # Rounding may lead past the last possible index.
    return ops.minimum(first, ops.max(ops.where(is_possible, indices, 0), axis=2))


# A long word has very many spellings; a search never chooses one with many pieces.
_MAX_SPELLINGS = 1000
_MAX_CHARACTERS = 100  # limit for a phrase
_MAX_SEQUENCES = 100_000  # Each is compared with every hypothesis at every position.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def forbidden_sequences(
    phrases: Sequence[str], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], ...]:
    """Returns the sequences of ids that no output may contain, as `Constraints` takes them.

    A phrase can be spelled by different pieces, "▁house" or "▁hou" + "se". It can follow a space,
    or one of `word_boundaries` without a space. For both places, the 1,000 spellings with the
    fewest pieces are forbidden, except those that spell a letter in bytes although it is a piece.
    Longer words whose spelling begins with the phrase's pieces are forbidden too. Case matters.

    Raises:
      UserError: a phrase is blank, too long, or has a character that the vocabulary cannot spell;
        or the phrases have too many spellings together.
    """
    if phrases and not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(
            "Forbidden phrases need a SentencePiece vocabulary. Leave them out.",
            code="other_vocabulary_kind",
        )
    pieces = tokenizer.vocabulary() if phrases else {}
    sequences = []
    for phrase in phrases:
        text = SPACE.join(normalized(phrase).split())
        if not text:
            raise UserError("A forbidden phrase is blank: leave the line out.", code="blank")
        if len(text) > _MAX_CHARACTERS:
            raise UserError(
                f"A forbidden phrase must have at most {_MAX_CHARACTERS} characters, got "
                f"{len(text):,}: '{text[:_MAX_CHARACTERS]}...'. Forbid a part of it.",
                code="too_long",
            )
        spellings = _spellings(text, pieces)
        if not spellings:
            raise UserError(
                f"'{phrase}' cannot be spelled with this vocabulary, so no output contains it: "
                f"leave it out.",
                code="not_spelled",
            )
        sequences += _spellings(SPACE + text, pieces)
        sequences += [(BOUNDARY, *spelling) for spelling in spellings]
        if len(sequences) > _MAX_SEQUENCES:
            raise UserError(
                f"The {len(phrases):,} forbidden phrases have more than {_MAX_SEQUENCES:,} "
                f"spellings. Forbid fewer or shorter phrases.",
                code="too_many_values",
            )
    return tuple(dict.fromkeys(sequences))


def word_boundaries(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids after which a word can begin without a space, including padding.

    They are the pieces that do not end in a letter or digit. A piece of one byte may end a
    longer character, so it is included unless the byte is a letter or digit.
    """

    def is_boundary(piece: str) -> bool:
        byte = _BYTE.fullmatch(piece)
        return not (bytes.fromhex(byte[1]) if byte else piece[-1:]).isalnum()

    vocabulary = tokenizer.vocabulary().items()
    return PADDING_ID, *(i for piece, i in vocabulary if i and is_boundary(piece))


def _spellings(text: str, pieces: dict[str, int]) -> list[tuple[int, ...]]:
    """Returns the spellings of a text, those with the fewest pieces first."""
    longest = max(map(len, pieces))
    # The spellings of the text from each character on.
    spellings: dict[int, list[tuple[int, ...]]] = {len(text): [()]}
    for start in reversed(range(len(text))):
        ends = range(start + 1, min(start + longest, len(text)) + 1)
        piece_texts = {end: [text[start:end]] for end in ends if text[start:end] in pieces}
        # Characters that are not pieces are spelled in bytes.
        byte_pieces = [f"<0x{byte:02X}>" for byte in text[start].encode("utf-8")]
        if start + 1 not in piece_texts and pieces.keys() >= set(byte_pieces):
            piece_texts[start + 1] = byte_pieces
        candidates = (
            (*(pieces[piece] for piece in first), *ending)
            for end, first in piece_texts.items()
            for ending in spellings[end]
        )
        spellings[start] = heapq.nsmallest(_MAX_SPELLINGS, candidates, key=len)
        spellings.pop(start + longest, None)  # No piece that starts earlier reaches that far.
    return spellings[0]
