"""Constraints of outputs: their length, their prefix, and what they must not contain."""

import dataclasses
import heapq
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID
from t2t_keras.text.files import normalized
from t2t_keras.text.sentence_pieces import SentencePieceTokenizer
from t2t_keras.text.tokenizer import SPACE, Tokenizer

IMPOSSIBLE = -float("inf")
# As the first symbol of a forbidden sequence, stands for each of `Constraints.boundaries`.
BOUNDARY = -2
_ANY = -1


class Limits(NamedTuple):
    """Constraints of each sentence."""

    max_lengths: tf.Tensor  # int32 [B], the most symbols of an output with its end; >= 1
    prefixes: tf.Tensor  # int32 [B, P], how an output begins, then padding
    numbers: tf.Tensor  # int32 [B], which tell sentences apart in sampling
    # float32 [B, S], attention that each source position already has: 1 at padding, else 0.
    # S = 0 without a coverage penalty.
    covered: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Constraints of all sentences."""

    # The fewest symbols of an output with its end, where its `Limits` allow them.
    min_length: int = 1
    # Sequences of symbols that no output may contain; one that begins with `BOUNDARY` is forbidden
    # only after one of `boundaries`.
    forbidden: tuple[tuple[int, ...], ...] = ()
    boundaries: tuple[int, ...] = ()  # Symbols; padding stands for the start of the output.

    def forced_ids(self, index: tf.Tensor, limits: Limits) -> tf.Tensor:
        """Returns the only symbol that is allowed at `index`, int32 [B]; -1 = any."""
        # One more column, for all positions after the longest prefix.
        prefixes = tf.pad(limits.prefixes, [[0, 0], [0, 1]], constant_values=PADDING_ID)
        column = tf.minimum(index, tf.shape(limits.prefixes)[1])
        begun = tf.gather(prefixes, column, axis=1)
        begun = tf.where(begun == PADDING_ID, _ANY, begun)
        return tf.where(index >= limits.max_lengths - 1, EOS_ID, begun)

    def excluded(self, ids: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns which symbols may not stand at `index`: padding, and the end too early."""
        too_early = index < self.min_length - 1
        return (ids == PADDING_ID) | ((ids == EOS_ID) & too_early)

    def without_forbidden(
        self, logits: tf.Tensor, live_ids: tf.Tensor, index: tf.Tensor
    ) -> tf.Tensor:
        """Returns logits [B, K, V] with -inf for what would complete a forbidden sequence.

        The symbols before `index`, int32 [], are those of live_ids, int32 [B, K, L].
        """
        if not self.forbidden:
            return logits
        longest = max(map(len, self.forbidden))
        # [phrases, longest - 1], what stands before the last symbol, _ANY where that is shorter.
        before = tf.constant(
            [[_ANY] * (longest - len(ids)) + list(ids[:-1]) for ids in self.forbidden], tf.int32
        )
        last = tf.constant([ids[-1] for ids in self.forbidden], tf.int32)
        # Before the first symbol stands padding.
        padding = [[0, 0], [0, 0], [longest - 1, 0]]
        padded = tf.pad(live_ids, padding, constant_values=PADDING_ID)
        window = tf.gather(padded, index + tf.range(longest - 1), axis=2)
        is_boundary = np.isin(np.arange(logits.shape[-1]), self.boundaries)
        after_one = tf.gather(tf.constant(is_boundary), window)[:, :, None] & (before == BOUNDARY)
        fits = (before == _ANY) | (window[:, :, None] == before) | after_one
        completes = tf.reduce_all(fits, axis=3)  # [B, K, phrases]
        batch_size, beam_size, phrases = tf.unstack(tf.shape(completes))
        rows = tf.repeat(tf.range(batch_size * beam_size), phrases)
        indices = tf.stack([rows, tf.tile(last, [batch_size * beam_size])], axis=1)
        highest = tf.reshape(tf.where(completes, IMPOSSIBLE, -IMPOSSIBLE), [-1])
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        return tf.reshape(tf.tensor_scatter_nd_min(flat, indices, highest), tf.shape(logits))


# A long word can be spelled in very many ways; those of many pieces are never chosen.
_MOST_SPELLINGS = 1000
_MOST_CHARACTERS = 100  # of a phrase
_MOST_SEQUENCES = 100_000  # Each is compared with every hypothesis at every position.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def forbidden_sequences(
    phrases: Sequence[str], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], ...]:
    """Returns the sequences of ids that no output may contain, as `Constraints` takes them.

    A phrase can be spelled by different pieces, "▁house" or "▁hou" + "se", and stand after a
    space, or, without one, after what `word_boundaries` returns. Of both kinds the 1,000 spellings
    of the fewest pieces are forbidden; no others, and none that spells a letter in bytes which is
    itself a piece. A longer word whose spelling begins with the phrase's pieces is forbidden too.
    Case matters.

    Raises:
      UserError: a phrase is blank, too long, or has a character that the vocabulary cannot spell;
        or all of them can be spelled in too many ways.
    """
    if phrases and not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(
            "Phrases can be forbidden with a SentencePiece vocabulary only.",
            code="other_vocabulary_kind",
        )
    pieces = tokenizer.vocabulary() if phrases else {}
    sequences = []
    for phrase in phrases:
        words = SPACE.join(normalized(phrase).split())
        if not words:
            raise UserError("A forbidden phrase is blank: leave the line out.", code="blank")
        if len(words) > _MOST_CHARACTERS:
            raise UserError(
                f"A forbidden phrase must have at most {_MOST_CHARACTERS} characters, got "
                f"{len(words):,}: '{words[:_MOST_CHARACTERS]}...'. Forbid a part of it.",
                code="too_long",
            )
        inside = _spellings(words, pieces)
        if not inside:
            raise UserError(
                f"'{phrase}' cannot be spelled with this vocabulary, so no output contains it: "
                f"leave it out.",
                code="not_spelled",
            )
        sequences += _spellings(SPACE + words, pieces)
        sequences += [(BOUNDARY, *spelling) for spelling in inside]
        if len(sequences) > _MOST_SEQUENCES:
            raise UserError(
                f"The {len(phrases):,} forbidden phrases can be spelled in more than "
                f"{_MOST_SEQUENCES:,} ways. Forbid fewer, or shorter ones.",
                code="too_many_values",
            )
    return tuple(dict.fromkeys(sequences))


def word_boundaries(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids after which a word can begin without a space, padding among them.

    These are the pieces that end in no letter or digit. A byte may be the last one of a sign, so
    it is among them unless it is itself a letter or digit.
    """

    def ends_in_a_sign(piece: str) -> bool:
        byte = _BYTE.fullmatch(piece)
        return not (bytes.fromhex(byte[1]) if byte else piece[-1:]).isalnum()

    vocabulary = tokenizer.vocabulary().items()
    return PADDING_ID, *(i for piece, i in vocabulary if i and ends_in_a_sign(piece))


def _spellings(text: str, pieces: dict[str, int]) -> list[tuple[int, ...]]:
    """Returns the ways to spell a text, those of the fewest pieces first."""
    longest = max(map(len, pieces))
    # Of what begins at each character, from the end on.
    spellings = {len(text): [()]}
    for start in reversed(range(len(text))):
        ends = range(start + 1, min(start + longest, len(text)) + 1)
        nexts = {end: [text[start:end]] for end in ends if text[start:end] in pieces}
        # A character that is no piece is spelled in bytes.
        in_bytes = [f"<0x{byte:02X}>" for byte in text[start].encode("utf-8")]
        if start + 1 not in nexts and pieces.keys() >= set(in_bytes):
            nexts[start + 1] = in_bytes
        spelled = (
            (*(pieces[piece] for piece in begun), *rest)
            for end, begun in nexts.items()
            for rest in spellings[end]
        )
        spellings[start] = heapq.nsmallest(_MOST_SPELLINGS, spelled, key=len)
        spellings.pop(start + longest, None)  # No piece reaches it any more.
    return spellings[0]
