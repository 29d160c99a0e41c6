"""Cross-entropy with label smoothing (section 5.4), and what is measured beside it."""

from keras import ops

_PADDING_ID = 0


def smoothed_cross_entropy(logits, targets, label_smoothing=0.0):
    """Cross-entropy against (1 - epsilon) · one-hot + epsilon / V over the whole vocabulary.

    Section 5.4, with the smoothing of the paper that it cites (Szegedy et al., 2015).

    Args:
      logits: float32 [..., V].
      targets: integers [...].
      label_smoothing: epsilon.

    Returns:
      Per token, each float32 [...]: the smoothed cross-entropy in nats, the unsmoothed one
      (-log p of the target), and whether the target's logit is the largest (1.0 or 0.0).
    """
    largest = ops.max(logits, axis=-1, keepdims=True)
    normalizer = ops.log(ops.sum(ops.exp(logits - ops.stop_gradient(largest)), axis=-1))
    largest = largest[..., 0]
    normalizer = normalizer + ops.stop_gradient(largest)
    target_logits = ops.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    unsmoothed = normalizer - target_logits
    correct = ops.cast(target_logits >= largest, "float32")
    if label_smoothing == 0:
        return unsmoothed, unsmoothed, correct
    uniform = normalizer - ops.mean(logits, axis=-1)
    smoothed = (1 - label_smoothing) * unsmoothed + label_smoothing * uniform
    return smoothed, unsmoothed, correct


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
