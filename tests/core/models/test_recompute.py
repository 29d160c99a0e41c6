"""A model that computes its layers again for their gradients has the same gradients."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.optimizer import token_sums

DROPOUT = dict(dropout=0.3, attention_dropout=0.2, relu_dropout=0.1)


@pytest.fixture
def gradients(make_model, batch):
    """Returns a function: two batches' gradients by weight, and the operations of the graph."""

    def gradients(**changes):
        model = make_model(num_layers=1, **DROPOUT, **changes)
        for number, state in enumerate(model.non_trainable_variables):
            state.assign([7, 100 * number])

        @tf.function(autograph=False)
        def of_batch(batch):
            with tf.GradientTape() as tape:
                logits = model(batch, packed=True, training=True)
                targets = tf.boolean_mask(batch["target"], batch["target"] != 0)[None]
                loss = token_sums(logits, targets)["loss"]
            weights = [weight.value for weight in model.trainable_variables]
            return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]

        batch_of_tensors = {side: tf.constant(ids) for side, ids in batch.items()}
        actual = [[tensor.numpy() for tensor in of_batch(batch_of_tensors)] for _ in range(2)]
        graph = of_batch.get_concrete_function(batch_of_tensors).graph
        return actual, [operation.type for operation in graph.get_operations()]

    return gradients


@pytest.mark.parametrize(
    ("changes", "tolerance"),
    # In bfloat16 a sum in another order differs by 2^-8.
    [({}, 1e-5), ({"dtype": "mixed_bfloat16", "pre_norm": True}, 2e-2)],
)
def test_gradients_are_the_same_with_dropout(gradients, changes, tolerance):
    activations, operations = gradients(**changes)
    again, more_operations = gradients(**changes, recompute=True)
    # Three attentions, and the loss, which is not computed again.
    assert (operations.count("Softmax"), more_operations.count("Softmax")) == (4, 7)
    assert more_operations.count("Relu") == 2 * operations.count("Relu") == 4
    for one, other in zip(activations, again, strict=True):
        for expected, actual in zip(one, other, strict=True):
            np.testing.assert_allclose(actual, expected, atol=tolerance * np.abs(expected).max())
    # The generators move on: the second time the masks are others.
    assert max(np.abs(a - b).max() for a, b in zip(*again, strict=True)) > 1e-1
