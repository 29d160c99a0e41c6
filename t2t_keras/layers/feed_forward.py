"""Position-wise feed-forward network (section 3.3)."""

import keras


@keras.saving.register_keras_serializable(package="t2t_keras")
class FeedForward(keras.layers.Layer):
    """max(0, x W_1 + b_1) W_2 + b_2, the same at every position (section 3.3, equation 2).

    Args:
      d_ff: inner width.
      dropout: share of the inner units dropped after the ReLU (0 in the paper).

    Call arguments:
      x: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    def __init__(self, d_ff, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.relu_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, input_shape):
        """Makes W_1, b_1, W_2 and b_2."""
        d_model = input_shape[-1]
        self.inner = keras.layers.Dense(
            self.d_ff, activation="relu", dtype=self.dtype_policy, name="inner"
        )
        self.outer = keras.layers.Dense(d_model, dtype=self.dtype_policy, name="outer")
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.d_ff))

    def call(self, x, training=None):
        """See the class."""
        return self.outer(self.relu_dropout(self.inner(x), training=training))

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return input_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "d_ff": self.d_ff, "dropout": self.relu_dropout.rate}
