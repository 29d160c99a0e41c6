"""The factor on the loss that float16 needs, so that small gradients do not vanish."""

from keras import ops

FIRST_LOSS_SCALE = 2.0**15
# Doubled after so many good steps in a row; halved when a gradient overflows.
_STEPS_TO_DOUBLE = 2000


def adapted_loss_scale(scale, good_steps, finite):
    """Returns the loss scale and the number of good steps after one more step.

    Args:
      scale: float32 scalar.
      good_steps: int32 scalar, steps since the scale changed.
      finite: boolean scalar, whether the step's gradient was finite.
    """
    good_steps = ops.where(finite, good_steps + 1, 0)
    grown = ops.where(good_steps >= _STEPS_TO_DOUBLE, scale * 2.0, scale)
    scale = ops.where(finite, grown, ops.maximum(scale / 2.0, 1.0))
    return scale, good_steps % _STEPS_TO_DOUBLE
