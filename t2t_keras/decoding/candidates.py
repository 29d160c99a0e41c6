"""The best continuations of the hypotheses of a beam."""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.decoding.constraints import IMPOSSIBLE, Constraints, Limits

# A vocabulary is looked through in groups of at most so many symbols.
_LARGEST_GROUP = 128


class Candidates(NamedTuple):
    """Continuations of each sentence's live hypotheses, best first."""

    log_probs: tf.Tensor  # float32 [B, C]
    parents: tf.Tensor  # int32 [B, C], 0 .. K - 1
    ids: tf.Tensor  # int32 [B, C]


def best_candidates(
    logits: tf.Tensor,
    live_log_probs: tf.Tensor,
    live_ids: tf.Tensor,
    index: tf.Tensor,
    limits: Limits,
    constraints: Constraints,
) -> Candidates:
    """Returns the 2K best continuations of the K live hypotheses of each sentence.

    Args:
      logits: float32 [B, K, V].
      live_log_probs: float32 [B, K]; -inf: there is no such hypothesis.
      live_ids: int32 [B, K, L], the symbols before `index`.
      index: int32 [].
      limits: what holds for each sentence.
      constraints: what holds for all.
    """
    beam_size, vocab_size = live_log_probs.shape[1], logits.shape[-1]
    # What is excluded keeps its share of the probability.
    normaliser = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)  # [B, K, 1]
    allowed = constraints.without_forbidden(logits, live_ids, index)
    # A hypothesis's best 2K symbols besides padding and the end hold all that it can contribute.
    width = min(2 * beam_size + 2, vocab_size)
    best_logits, ids = top_symbols(allowed, width)  # [B, K, width]
    excluded = constraints.excluded(ids, index)
    log_probs = tf.where(excluded, IMPOSSIBLE, best_logits - normaliser)

    forced = constraints.forced_ids(index, limits)[:, None]  # [B, 1]
    chosen = tf.tile(tf.maximum(forced, 0), [1, beam_size])[:, :, None]
    forced_log_probs = tf.gather(logits, chosen, batch_dims=2) - normaliser  # [B, K, 1]
    forced = forced[:, :, None]
    first = tf.range(width) == 0
    log_probs = tf.where(forced >= 0, tf.where(first, forced_log_probs, IMPOSSIBLE), log_probs)
    ids = tf.where(forced >= 0, forced, ids)

    log_probs += live_log_probs[:, :, None]
    flat = [-1, beam_size * width]
    log_probs, chosen = tf.math.top_k(tf.reshape(log_probs, flat), 2 * beam_size)  # [B, 2K]
    ids = tf.gather(tf.reshape(ids, flat), chosen, batch_dims=1)
    return Candidates(log_probs, parents=chosen // width, ids=ids)


def top_symbols(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k` over a vocabulary, in less time where it is large.

    The `count` best symbols lie in the `count` groups of symbols whose best ones are best, and the
    best of each group is found faster than any order.

    Args:
      logits: float32 [..., V].
      count: how many to return, at most V.

    Returns:
      The logits, best first, and ids int32 of the best symbols, both [..., count]; of equal
      logits, the smaller id goes first.
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
