"""Adam as Kingma and Ba define it, as a function: for backends without TensorFlow's kernel."""

from keras import ops


def adam_update(weight, momentum, velocity, gradient, step, learning_rate, beta_1, beta_2, epsilon):
    """One step of Algorithm 1 of Kingma and Ba (2015), on one weight.

    Args:
      weight: float32, of any shape.
      momentum: m of the step before, of the same shape; 0 before the first.
      velocity: v of the step before, of the same shape; 0 before the first.
      gradient: of the same shape.
      step: t, float32 scalar, 1 at the first step.
      learning_rate: alpha, float32 scalar.
      beta_1: decay of m.
      beta_2: decay of v.
      epsilon: added to the root of v when its bias is corrected, not before as Keras's Adam does.

    Returns:
      The new weight, m and v.
    """
    momentum = beta_1 * momentum + (1 - beta_1) * gradient
    velocity = beta_2 * velocity + (1 - beta_2) * ops.square(gradient)
    correction = ops.sqrt(1 - beta_2**step)
    rate = learning_rate * correction / (1 - beta_1**step)
    weight = weight - rate * momentum / (ops.sqrt(velocity) + epsilon * correction)
    return weight, momentum, velocity
