"""Leaves padding out of the work: the real tokens of a batch, one after the other."""

from keras import ops


class Packing:
    """Where the real tokens of a padded batch stand.

    Everything but attention treats each position alone, so it can run on the packed batch
    [tokens, ...], in which all sentences stand one after the other without padding. Attention
    unpacks queries, keys and values to [batch, length, ...], and packs its result.

    The number of tokens depends on the values of the mask: not for `jax.jit` nor XLA.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    def __init__(self, mask):
        places = ops.arange(ops.size(mask), dtype="int32")
        # In an empty row nothing can be looked up: a batch of padding alone keeps a position.
        self._shape = ops.shape(mask)
        self._mask = ops.logical_or(mask, ops.reshape(places == 0, self._shape))
        # Both directions are lookups, and each is the gradient of the other: none has to add rows.
        flat = ops.reshape(self._mask, (-1,))
        self._tokens = ops.nonzero(flat)[0]
        self._places = ops.cumsum(ops.cast(flat, "int32")) - 1

    def pack(self, x):
        """Keeps the real tokens of x.

        Args:
          x: [batch, length, ...].

        Returns:
          [tokens, ...]; of a batch without any token, its first position.
        """

        @ops.custom_gradient
        def packed(x):
            return self._kept(x), lambda upstream: self._spread(upstream, padding=0)

        return packed(x)

    def unpack(self, x):
        """Puts tokens back where they stood.

        Args:
          x: [tokens, ...].

        Returns:
          [batch, length, ...]. At padding stands another token's value, which must not be used:
          a gradient that comes from there is left out.
        """

        @ops.custom_gradient
        def unpacked(x):
            return self._spread(x), self._kept

        return unpacked(x)

    def _kept(self, x):
        rows = ops.reshape(x, (-1, *x.shape[2:]))
        return ops.take(rows, self._tokens, axis=0)

    def _spread(self, x, padding=None):
        rest = x.shape[1:]
        spread = ops.reshape(ops.take(x, self._places, axis=0), (*self._shape, *rest))
        if padding is None:
            return spread
        mask = ops.reshape(self._mask, (*self._shape, *[1] * len(rest)))
        return ops.where(mask, spread, ops.cast(padding, spread.dtype))
