"""Layouts: how the positions of a batch lie in memory while layers compute each of them alone."""

from keras import ops

from t2t_keras.special_ids import PADDING_ID


class Layout:
    """A batch as it is, [batch, length, ...]; other layouts arrange its positions in rows.

    Everything but attention treats each position alone, so it can run in any layout. Attention
    unpacks queries, keys and values to [batch, length, ...], and packs its result.

    Attributes:
      axes: names of the axes of states in this layout.
    """

    axes: tuple[str, ...] = ("batch", "length", "width")

    def pack(self, x, *shape):
        """Returns x [batch, length, ...] in this layout, or with positions of another shape."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x

    def unpack(self, x, *shape):
        """Returns x in this layout as [batch, length, ...], or with positions of another shape."""
        return ops.reshape(x, (*ops.shape(x)[:2], *shape)) if shape else x


AS_IS = Layout()


class DenseLayout(Layout):
    """All positions of a batch in rows, one sentence after the other: [batch · length, ...].

    A product of a matrix with [batch, length, width] makes TensorFlow read, cut and join shapes in
    two dozen operators, one with [batch · length, width] in none.

    Args:
      batch: number of sentences, -1 = as many as there are.
      length: number of positions in each.
    """

    axes = ("rows", "width")

    def __init__(self, batch, length):
        self._shape = (batch, length)

    def pack(self, x, *shape):
        """See `Layout`."""
        return ops.reshape(x, (-1, *(shape or x.shape[2:])))

    def unpack(self, x, *shape):
        """See `Layout`."""
        return ops.reshape(x, (*self._shape, *(shape or x.shape[1:])))


class RaggedLayout(Layout):
    """The real tokens of a padded batch in rows, without padding: [tokens, ...].

    The number of tokens depends on the values of the mask: not for `jax.jit` or XLA.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    axes = ("rows", "width")

    def __init__(self, mask):
        self._shape = ops.shape(mask)
        # Keep one position, so that a batch of nothing but padding is not empty.
        first = ops.equal(ops.arange(ops.size(mask), dtype="int32"), 0)
        self._mask = ops.logical_or(mask, ops.reshape(first, self._shape))
        # Both directions are lookups, and each is the gradient of the other: none has to add rows.
        flat = ops.reshape(self._mask, (-1,))
        self._positions = ops.nonzero(flat)[0]
        self._tokens = ops.cumsum(ops.cast(flat, "int32")) - 1

    def pack(self, x, *shape):
        """See `Layout`. For a batch without any token, its first position is kept."""

        @ops.custom_gradient
        def packed(x):
            return self._gather(x), lambda upstream: self._spread(upstream, zero_padding=True)

        tokens = packed(x)
        return ops.reshape(tokens, (-1, *shape)) if shape else tokens

    def unpack(self, x, *shape):
        """See `Layout`.

        Padding gets another token's value, which must not be used: the gradient from there is
        dropped.
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


def layout_of(ids, ragged=False):
    """Returns the layout to compute a batch of ids in.

    Args:
      ids: integers [batch, length].
      ragged: whether padding is left out.

    Returns:
      A `RaggedLayout` or a `DenseLayout`; `AS_IS` for Keras's symbols, whose sizes are unknown.
    """
    if ragged:
        return RaggedLayout(ops.not_equal(ids, PADDING_ID))
    sizes = ops.shape(ids)[:2]
    return AS_IS if any(size is None for size in sizes) else DenseLayout(*sizes)
