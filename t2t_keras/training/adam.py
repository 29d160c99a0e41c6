"""Adam, exactly as Kingma and Ba define it, in one pass over each weight."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="t2t_keras")
class Adam(keras.optimizers.Adam):
    """Keras's Adam with TensorFlow's fused kernel and epsilon where the definition has it.

    Keras adds epsilon to sqrt(v) before the bias of v is corrected, Algorithm 1 of Kingma and Ba
    (2015) after. The fused kernel reads and writes weight and moments once, instead of once an
    operation.
    """

    def moments(self) -> tuple[list[keras.Variable], list[keras.Variable]]:
        """Returns m and v of each weight, in the order of the weights."""
        return self._momentums, self._velocities

    def update_step(self, gradient, variable, learning_rate):
        """Updates one weight, as Keras's own `apply` asks for it."""
        self.update_weights([gradient], [variable], learning_rate)

    def update_weights(self, gradients, variables, learning_rate):
        """Updates weights and their two moments in place.

        Args:
          gradients: dense, each of its weight's shape.
          variables: `tf.Variable`s, or a replica's parts of mirrored ones.
          learning_rate: float32 scalar.
        """
        step = tf.cast(self.iterations.value, tf.float32) + 1.0
        beta1_power, beta2_power = self.beta_1**step, self.beta_2**step
        epsilon = self.epsilon * tf.sqrt(1.0 - beta2_power)
        for gradient, variable in zip(gradients, variables, strict=True):
            index = self._get_variable_index(variable)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=self._momentums[index].value.handle,
                v=self._velocities[index].value.handle,
                beta1_power=beta1_power,
                beta2_power=beta2_power,
                lr=learning_rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=epsilon,
                grad=gradient,
            )
