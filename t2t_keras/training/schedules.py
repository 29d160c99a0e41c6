"""The learning rate (section 5.3)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (section 5.3, equation 3).

    Args:
      d_model: width of the model.
      warmup_steps: steps of linear increase.
      multiplier: factor on the whole (1.0 in the paper).

    Call arguments:
      step: steps done so far, from 0; the formula counts from 1.
    """

    def __init__(self, d_model, warmup_steps=4000, multiplier=1.0):
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.multiplier = multiplier

    def __call__(self, step):
        """Returns the learning rate, a float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.multiplier * self.d_model**-0.5 * rate

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "multiplier": self.multiplier,
        }
