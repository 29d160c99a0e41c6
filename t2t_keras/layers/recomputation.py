"""Gradient checkpointing: a layer's activations are computed again for its gradient, not kept."""

import keras
from keras import ops

from t2t_keras.layers.base import seed_states


def recomputed(layer, *inputs, **options):
    """Calls a layer so that the backward pass computes it again, with the same dropout masks.

    Between the passes only its inputs are kept. Values and masks, on every device, are those of
    `layer(*inputs, **options)`.

    Args:
      layer: a built layer. Beside its weights it has seed generators, and draws from each once a
        call.
      *inputs: float tensors that gradients flow through.
      **options: its other arguments.

    Returns:
      The layer's output.
    """
    states, others = seed_states(layer), layer.non_trainable_variables
    # Tensors, not variables: in the backward pass the generators have moved on, and to a variable
    # that is an argument no gradient flows outside of a graph.
    seeds = [ops.copy(state) for state in states]
    weights = [ops.copy(weight) for weight in layer.trainable_variables]

    given = dict(zip(map(id, states), seeds, strict=True))
    others = [given.get(id(each), ops.convert_to_tensor(each)) for each in others]

    @keras.remat
    def call(*tensors):
        outputs, _ = layer.stateless_call(
            list(tensors[: len(weights)]), others, *tensors[len(weights) :], **options
        )
        return outputs

    outputs = call(*_gradients_together(*weights, *inputs))
    for state, seed in zip(states, seeds, strict=True):
        # As `SeedGenerator.next` does.
        state.assign(seed + ops.convert_to_tensor([0, 1], dtype=seed.dtype))
    return outputs


@ops.custom_gradient
def _gradients_together(*tensors):
    """Returns the tensors as they are; their gradients go on when all of them are computed.

    Left to itself, TensorFlow may go on to the layer before and put off the gradients of the
    weights, which keeps the activations of one layer after the other.
    """

    def together(*gradients):
        # JAX passes one tuple, TensorFlow one argument each.
        gradients = keras.tree.flatten(gradients)
        # 0, or NaN where a gradient is, so that no optimizer of graphs can leave it out.
        firsts = [ops.cast(ops.reshape(each, (-1,))[:1], "float32") for each in gradients]
        zero = ops.sum(ops.minimum(ops.abs(ops.concatenate(firsts)), 0.0))
        return tuple(each + ops.cast(zero, each.dtype) for each in gradients)

    return tensors, together
