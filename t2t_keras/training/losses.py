"""Cross-entropy with label smoothing (section 5.4), and what is measured beside it."""

import keras
from keras import ops

_PADDING_ID = 0


def smoothed_cross_entropy(logits, targets, label_smoothing=0.0):
    """Cross-entropy against q = (1 - epsilon) · one-hot + epsilon / V over the whole vocabulary.

    Section 5.4, with the smoothing of the paper that it cites (Szegedy et al., 2015). With
    Z = log Σ exp(logits), it is Z - (1 - epsilon) · logit of the target - epsilon · mean logit, and
    its gradient softmax(logits) - q: neither needs a one-hot of the vocabulary.

    Args:
      logits: float32 [..., V].
      targets: integers [...].
      label_smoothing: epsilon.

    Returns:
      Per token, each float32 [...]: the smoothed cross-entropy in nats; and, only to be looked at
      (they have no gradient), the unsmoothed one (-log p of the target), and whether the target's
      logit is the largest (1.0 or 0.0).
    """
    shape, vocab_size = ops.shape(targets), logits.shape[-1]
    rows = ops.reshape(targets, (-1,))
    places = ops.stack([ops.arange(ops.shape(rows)[0], dtype=rows.dtype), rows], axis=-1)

    @ops.custom_gradient
    def losses(logits):
        largest, probabilities = ops.max(logits, axis=-1), ops.softmax(logits, axis=-1)
        # The largest probability is never 0, as that of the target may be.
        normalizer = largest - ops.log(ops.max(probabilities, axis=-1))
        target_logits = ops.take_along_axis(logits, rows[:, None], axis=-1)[:, 0]
        unsmoothed = normalizer - target_logits
        uniform = normalizer - ops.mean(logits, axis=-1)
        smoothed = (1 - label_smoothing) * unsmoothed + label_smoothing * uniform
        correct = ops.cast(target_logits >= largest, "float32")

        def gradient(*upstream):
            # One argument an output on TensorFlow, a tuple of them on JAX.
            share = keras.tree.flatten(upstream)[0]
            smoothing = label_smoothing / vocab_size
            elsewhere = (probabilities - smoothing) * share[:, None]
            at_target = share * (ops.exp(-unsmoothed) - smoothing - (1 - label_smoothing))
            return ops.scatter_update(elsewhere, places, at_target)

        return (smoothed, unsmoothed, correct), gradient

    found = losses(ops.reshape(logits, (-1, vocab_size)))
    return tuple(ops.reshape(each, shape) for each in found)


def token_sums(logits, targets, label_smoothing=0.0):
    """Sums over the target tokens that are not padding.

    Args:
      logits: float32 [batch, length, V].
      targets: integers [batch, length]; 0 is padding.
      label_smoothing: epsilon.

    Returns:
      {"loss": smoothed cross-entropy, "negative_log_likelihood": unsmoothed, "correct": tokens
      predicted right, "tokens": their number}, float32 scalars.
    """
    real = ops.cast(ops.not_equal(targets, _PADDING_ID), "float32")
    smoothed, unsmoothed, correct = smoothed_cross_entropy(logits, targets, label_smoothing)
    return {
        "loss": ops.sum(smoothed * real),
        "negative_log_likelihood": ops.sum(unsmoothed * real),
        "correct": ops.sum(correct * real),
        "tokens": ops.sum(real),
    }
