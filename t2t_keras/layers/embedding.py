"""One matrix for source embedding, target embedding and pre-softmax projection (section 3.4)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class SharedEmbedding(keras.layers.Layer):
    """Embeds ids, multiplied by sqrt(d_model), and projects states to logits with the same matrix.

    Section 3.4; initialised with N(0, d_model^-0.5) as in the lineage, so that embeddings enter the
    model with unit variance and logits leave it with unit variance.

    Args:
      vocab_size: number of ids.
      d_model: width.

    Call arguments:
      ids: integers [batch, length]; 0 is padding, and masked for the layers that follow.

    Returns:
      [batch, length, d_model].
    """

    def __init__(self, vocab_size, d_model, **kwargs):
        # In a Sequential model ids arrive as float32, which must not become bfloat16.
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model

    def build(self, input_shape=None):
        """Makes the matrix [vocab_size, d_model]."""
        self.matrix = self.add_weight(
            name="matrix",
            shape=(self.vocab_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
        )

    def call(self, ids):
        """See the class."""
        embedded = ops.take(self.matrix, ops.cast(ids, "int32"), axis=0)
        return ops.cast(embedded * self.d_model**0.5, self.compute_dtype)

    def projection(self):
        """Returns the shared matrix as logits are computed with, [d_model, vocab_size]."""
        return ops.transpose(ops.cast(self.matrix, self.compute_dtype))

    def logits(self, x, projection=None):
        """Projects [..., d_model] to float32 logits [..., vocab_size].

        Args:
          x: what is projected.
          projection: `projection()`, where it was computed before.
        """
        projection = self.projection() if projection is None else projection
        return ops.cast(ops.matmul(x, projection), "float32")

    def compute_mask(self, ids, previous_mask=None):
        """Id 0 is padding."""
        return ops.not_equal(ids, 0)

    def compute_output_shape(self, input_shape):
        """Adds the width."""
        return (*input_shape, self.d_model)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
        }
