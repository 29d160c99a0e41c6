"""What an output must be and must not: its length, its beginning, and what it may not hold."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

IMPOSSIBLE = -float("inf")
# As the first symbol of a forbidden sequence, stands for each of `Constraints.boundaries`.
BOUNDARY = -2
_ANY = -1


class Limits(NamedTuple):
    """What holds for each sentence.

    Attributes:
      max_lengths: int32 [B], the most symbols of an output, the end counted; >= 1.
      prefixes: int32 [B, P], how an output begins, filled up with padding.
      numbers: int32 [B], which tell sentences apart where chance is involved.
      covered: float32 [B, S], how much attention each source position needs no more: 1 at padding,
        else 0. S = 0 where coverage does not matter.
    """

    max_lengths: tf.Tensor
    prefixes: tf.Tensor
    numbers: tf.Tensor
    covered: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What holds for all sentences.

    Attributes:
      min_length: the fewest symbols of an output, the end counted, where its `Limits` allow them.
      forbidden: sequences of symbols that no output may hold; one that begins with `BOUNDARY` is
        forbidden only where one of `boundaries` stands before the rest of it.
      boundaries: symbols; padding stands for the start of the output.
      eos_id: the end of sentence.
      padding_id: never chosen as a symbol.
    """

    min_length: int = 1
    forbidden: tuple[tuple[int, ...], ...] = ()
    boundaries: tuple[int, ...] = ()
    eos_id: int = 1
    padding_id: int = 0

    def forced_ids(self, index: tf.Tensor, limits: Limits) -> tf.Tensor:
        """Returns the symbol that alone may stand at `index`, int32 [B]; -1 = any."""
        # One more column, for all positions after the longest prefix.
        prefixes = tf.pad(limits.prefixes, [[0, 0], [0, 1]], constant_values=self.padding_id)
        column = tf.minimum(index, tf.shape(limits.prefixes)[1])
        begun = tf.gather(prefixes, column, axis=1)
        begun = tf.where(begun == self.padding_id, _ANY, begun)
        return tf.where(index >= limits.max_lengths - 1, self.eos_id, begun)

    def excluded(self, ids: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns which symbols may not stand at `index`: padding, and the end too early."""
        too_early = index < self.min_length - 1
        return (ids == self.padding_id) | ((ids == self.eos_id) & too_early)

    def without_forbidden(
        self, logits: tf.Tensor, live_ids: tf.Tensor, index: tf.Tensor
    ) -> tf.Tensor:
        """Makes impossible what would complete a forbidden sequence.

        Args:
          logits: float32 [B, K, V].
          live_ids: int32 [B, K, L], the symbols before `index`.
          index: int32 [].

        Returns:
          float32 [B, K, V].
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
        padded = tf.pad(
            live_ids, [[0, 0], [0, 0], [longest - 1, 0]], constant_values=self.padding_id
        )
        window = tf.gather(padded, index + tf.range(longest - 1), axis=2)
        is_boundary = np.isin(np.arange(logits.shape[-1]), self.boundaries)
        behind_one = tf.gather(tf.constant(is_boundary), window)[:, :, None] & (before == BOUNDARY)
        fits = (before == _ANY) | (window[:, :, None] == before) | behind_one
        completes = tf.reduce_all(fits, axis=3)  # [B, K, phrases]
        batch_size, beam_size, phrases = tf.unstack(tf.shape(completes))
        rows = tf.repeat(tf.range(batch_size * beam_size), phrases)
        indices = tf.stack([rows, tf.tile(last, [batch_size * beam_size])], axis=1)
        highest = tf.reshape(tf.where(completes, IMPOSSIBLE, -IMPOSSIBLE), [-1])
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        return tf.reshape(tf.tensor_scatter_nd_min(flat, indices, highest), tf.shape(logits))
