"""Symbol dropout: ids fed to the embeddings replaced at random."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class SymbolDropout(keras.layers.Layer):
    """Replaces a random share of the ids by a sentinel; padding stays padding.

    An option that the paper's source mentions (off in its sets). It acts on what the embeddings
    read, never on the targets of the loss.

    Args:
      rate: share of ids replaced.
      sentinel: the id put in their place.

    Call arguments:
      ids: integers [batch, length].
      training: whether ids are replaced.

    Returns:
      Integers [batch, length].
    """

    def __init__(self, rate, sentinel, **kwargs):
        # In a Sequential model ids arrive as float32, which must not become bfloat16.
        super().__init__(autocast=False, **kwargs)
        self.rate = rate
        self.sentinel = sentinel
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(0)

    def call(self, ids, training=None):
        """See the class."""
        if not training or self.rate == 0:
            return ids
        draw = keras.random.uniform(ops.shape(ids), seed=self.seed_generator)
        replaced = ops.logical_and(draw < self.rate, ops.not_equal(ids, 0))
        return ops.where(replaced, ops.cast(self.sentinel, ids.dtype), ids)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return input_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "sentinel": self.sentinel}
