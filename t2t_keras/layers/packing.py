"""Batches as rows of tokens, one after the other: without padding, or with it."""

from keras import ops


class Rows:
    """All positions of a batch, one after the other; it is used as a `Packing` is.

    A product of a matrix with [batch, length, width] makes TensorFlow read, cut and join shapes in
    two dozen operators, one with [batch · length, width] in none.

    Args:
      batch: number of sentences, -1 = as many as there are.
      length: number of positions in each.
    """

    def __init__(self, batch, length):
        self._shape = (batch, length)

    @classmethod
    def of(cls, x):
        """Returns the rows of x [batch, length, ...]; None if it is Keras's symbol of any size."""
        shape = ops.shape(x)[:2]
        return None if any(size is None for size in shape) else cls(*shape)

    def pack(self, x):
        """Returns x [batch, length, ...] as [batch · length, ...]."""
        return ops.reshape(x, (-1, *x.shape[2:]))

    def unpack(self, x, *shape):
        """Returns rows [batch · length, ...] as [batch, length, ...], or each of another shape."""
        return ops.reshape(x, (*self._shape, *(shape or x.shape[1:])))


class Packing:
    """The positions of the real tokens in a padded batch.

    Everything but attention treats each position alone, so it can run on the packed batch
    [tokens, ...], in which the sentences follow each other without padding. Attention unpacks
    queries, keys and values to [batch, length, ...], and packs its result.

    The number of tokens depends on the values of the mask: not for `jax.jit` or XLA.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    def __init__(self, mask):
        self._shape = ops.shape(mask)
        # Nothing can be looked up among no tokens: a batch of padding keeps its first position.
        first = ops.equal(ops.arange(ops.size(mask), dtype="int32"), 0)
        self._mask = ops.logical_or(mask, ops.reshape(first, self._shape))
        # Both directions are lookups, and each is the gradient of the other: none has to add rows.
        flat = ops.reshape(self._mask, (-1,))
        self._positions = ops.nonzero(flat)[0]
        self._tokens = ops.cumsum(ops.cast(flat, "int32")) - 1

    def pack(self, x):
        """Keeps the real tokens of x [batch, length, ...].

        Returns:
          [tokens, ...]; for a batch without any token, its first position.
        """

        @ops.custom_gradient
        def packed(x):
            return self._gather(x), lambda upstream: self._spread(upstream, zero_padding=True)

        return packed(x)

    def unpack(self, x, *shape):
        """Puts tokens [tokens, ...] back to their positions, as they are or each of another shape.

        Returns:
          [batch, length, ...], or [batch, length, *shape]. Padding gets another token's value,
          which must not be used: the gradient from there is dropped.
        """

        @ops.custom_gradient
        def unpacked(x):
            return self._spread(x), self._gather

        return unpacked(ops.reshape(x, (-1, *shape)) if shape else x)

    def _gather(self, x):
        rows = ops.reshape(x, (-1, *x.shape[2:]))
        return ops.take(rows, self._positions, axis=0)

    def _spread(self, x, zero_padding=False):
        rest = x.shape[1:]
        spread = ops.reshape(ops.take(x, self._tokens, axis=0), (*self._shape, *rest))
        mask = ops.reshape(self._mask, (*self._shape, *[1] * len(rest)))
        return ops.where(mask, spread, ops.zeros_like(spread)) if zero_padding else spread
