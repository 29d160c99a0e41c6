"""What a graph refuses at run time: TensorFlow Serving answers INVALID_ARGUMENT with the text."""

import tensorflow as tf

from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID


def checked_utf8(text: tf.Tensor, name: str) -> tf.Tensor:
    """Returns strings [B]; each must be UTF-8."""
    replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    wrong = tf.where(replaced != text)[:, 0]
    return _checked(text, tf.size(wrong) == 0, f"{name} is not UTF-8 at (from 0)", wrong)


def checked_ids(ids: tf.Tensor, vocab_size: int) -> tf.Tensor:
    """Returns int32 [B, S]; each must be in the vocabulary, each row with its end, then padding."""
    wrong = tf.boolean_mask(ids, (ids < 0) | (ids >= vocab_size))
    what = f"ids that are not in the vocabulary, which has 0 to {vocab_size - 1}"
    ids = _checked(ids, tf.size(wrong) == 0, what, wrong)
    filled = tf.math.count_nonzero(ids != PADDING_ID, axis=1, dtype=tf.int32)
    # The first end of a row is its last id, and the rest is padding.
    until_end = tf.math.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1, exclusive=True) == 0
    length = tf.math.count_nonzero(until_end, axis=1, dtype=tf.int32)
    inner_padding = tf.reduce_any(until_end & (ids == PADDING_ID), axis=1)
    has_end = tf.reduce_any(ids == EOS_ID, axis=1)
    wrong = tf.where(~has_end | inner_padding | (length != filled))[:, 0]
    what = f"rows that are not ids, then one {EOS_ID} as their end, then {PADDING_ID}s (from 0)"
    return _checked(ids, tf.size(wrong) == 0, what, wrong)


def checked_alpha(alpha: tf.Tensor) -> tf.Tensor:
    """Returns float32 []; it must not be negative."""
    return _checked(alpha, alpha >= 0, "alpha must be 0 or more, not", alpha)


def checked_lengths(ids: tf.Tensor, most: int, name: str) -> tf.Tensor:
    """Returns int32 [B, S]; no row may have more than `most` ids."""
    length = tf.shape(ids)[1]
    return _checked(
        ids, length <= most, f"{name} may have {most} tokens, its end counted, not", length
    )


def same_size(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns strings [B]; there must be as many of `other`."""
    sizes = tf.stack([tf.size(one), tf.size(other)])
    return _checked(
        one, sizes[0] == sizes[1], "as many texts as translations are needed, not", sizes
    )


def _checked(tensor: tf.Tensor, condition: tf.Tensor, what: str, found: tf.Tensor) -> tf.Tensor:
    check = tf.debugging.Assert(condition, [what, found], summarize=8)
    with tf.control_dependencies([check]):
        return tf.identity(tensor)
