"""The gradient of the whole model's smoothed loss, against central differences of the reference's.

The reference computes in float64, so its differences are as good as its derivatives. The model
computes as every step may: on padding too, or without it.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import RaggedLayout
from t2t_keras.training.optimizer import token_sums

EPSILON = 0.1
STEP = 1e-5


def smoothed_cross_entropy(logits, target):
    """-Σ q log p, q = (1 - epsilon) · one-hot + epsilon / V, of one sentence."""
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    of_target = log_p[np.arange(len(target)), target]
    return -((1 - EPSILON) * of_target + EPSILON * log_p.mean(axis=1)).sum()


def loss_and_gradients(model, batch, packed):
    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        target = tf.convert_to_tensor(batch["target"])
        logits = model(batch, packed=packed)
        if packed:
            target = RaggedLayout(target != 0).pack(target)
        loss = token_sums(logits, target, EPSILON)["loss"]
    return loss, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]


@pytest.mark.parametrize("variant_model", ["base", "every option"], indirect=True)
def test_gradients_agree_with_central_differences(variant_model, make_reference, batch, pairs):
    loss, gradients = loss_and_gradients(variant_model, batch, packed=True)
    on_padding, not_packed = loss_and_gradients(variant_model, batch, packed=False)
    assert float(on_padding) == pytest.approx(float(loss), rel=1e-6)
    for gradient, other in zip(gradients, not_packed, strict=True):
        np.testing.assert_allclose(other, gradient, rtol=1e-3, atol=1e-4)

    def loss_with(changed):
        logits = make_reference(variant_model, changed).logits
        return sum(smoothed_cross_entropy(logits(*pair), pair[1]) for pair in pairs)

    assert float(loss) == pytest.approx(loss_with({}), rel=1e-6)
    random = np.random.default_rng(4)
    for path, array in make_reference(variant_model).weights.items():
        gradient = gradients.pop(0).numpy()
        # Between the gradient itself, where the loss rises by its norm, and another direction.
        directions = gradient, random.normal(size=array.shape)
        direction = sum(other / np.linalg.norm(other) for other in directions)
        step = STEP * direction.astype(np.float64)
        after, before = (loss_with({path: array + sign * step}) for sign in (1, -1))
        expected = (after - before) / 2 / STEP
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-3, abs=1e-4), path
