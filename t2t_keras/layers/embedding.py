"""Embeddings and the pre-softmax projection, of one matrix (section 3.4) or of several."""

from typing import Any, Self

import keras
from keras import ops

from t2t_keras.layers.base import (
    check_sizes,
    normal_initializer,
    product_of,
    refuse_other_names,
)
from t2t_keras.special_ids import PADDING_ID


@keras.saving.register_keras_serializable(package="t2t_keras")
class SharedEmbedding(keras.layers.Layer):
    """Embeds ids, multiplied by sqrt(d_model), and projects states to logits with the same matrix.

    Section 3.4; initialised with N(0, d_model^-0.5) as in tensor2tensor, so that embeddings enter
    the model with unit variance and logits leave it with unit variance.

    Args:
      vocab_size: number of ids.
      d_model: width.
      scale: whether embeddings are multiplied by sqrt(d_model).
      tied: whether logits are projected with the same matrix, or with one of their own.
      bias: whether each logit has a bias (none in the paper).

    Call arguments:
      ids: integers [batch, length]; 0 is padding, and masked for the layers that follow.

    Returns:
      [batch, length, d_model].
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Says ours where an argument has another library's name."""
        refuse_other_names(cls, kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        scale: bool = True,
        tied: bool = True,
        bias: bool = False,
        **kwargs: Any,
    ):
        # In a Sequential model ids arrive as float32, which must not become bfloat16.
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.scale = scale
        self.tied = tied
        self.use_bias = bias
        self.bias = None
        check_sizes(self, vocab_size=1, d_model=1)
        self.table = keras.layers.ReversibleEmbedding(
            vocab_size,
            d_model,
            tie_weights=tied,
            embeddings_initializer=normal_initializer(d_model),
            mask_zero=True,
            # Inside a model its matrix stays float32, and so would the largest product.
            reverse_dtype=self.compute_dtype,
            dtype=self.dtype_policy,
            name="table",
        )

    def build(self, ids_shape=None):
        """Makes the matrix [vocab_size, d_model], and what logits have of their own."""
        self.table.build()
        if self.use_bias:
            shape = (self.vocab_size,)
            self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros")

    def call(self, ids):
        """See the class."""
        embedded = self.table(ops.cast(ids, "int32"))
        return embedded * self.d_model**0.5 if self.scale else embedded

    def projection(self):
        """Returns the matrix that logits are computed with, [d_model, vocab_size].

        None where it is quantized.
        """
        if self.table.quantization_mode:
            return None
        if not self.tied:
            return ops.cast(self.table.reverse_embeddings, self.compute_dtype)
        return ops.transpose(ops.cast(self.table.embeddings, self.compute_dtype))

    def logits(self, x, projection=None):
        """Projects [..., d_model] to float32 logits [..., vocab_size].

        Args:
          x: states of the decoder.
          projection: a result of `projection()` to reuse.
        """
        if self.tied and (product := product_of(self.table)):
            logits = product(x, ops.convert_to_tensor(self.table.embeddings), transposed=True)
        elif projection is None:
            logits = ops.cast(self.table(x, reverse=True), "float32")
        else:
            logits = ops.cast(ops.matmul(x, projection), "float32")
        return logits if self.bias is None else logits + ops.cast(self.bias, "float32")

    def compute_mask(self, ids, previous_mask=None):
        """Returns the mask of the output: id 0 is padding."""
        return ops.not_equal(ids, PADDING_ID)

    def compute_output_shape(self, ids_shape):
        """Returns the shape of the ids with the width added."""
        return (*ids_shape, self.d_model)

    def get_config(self):
        """Returns the constructor's arguments."""
        sizes = {"vocab_size": self.vocab_size, "d_model": self.d_model}
        options = {"scale": self.scale, "tied": self.tied, "bias": self.use_bias}
        return {**super().get_config(), **sizes, **options}
