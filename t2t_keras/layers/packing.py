"""Leaves padding out of the work: the real tokens of a batch as one long row."""

from keras import ops


class Packing:
    """Where the real tokens of a padded batch stand.

    Everything but attention treats each position alone, so it can run on the packed batch
    [1, tokens, ...], in which all sentences stand one after the other without padding. Attention
    unpacks queries, keys and values to [batch, length, ...], and packs its result.

    The number of tokens depends on the values of the mask: not for `jax.jit` nor XLA.

    Args:
      mask: boolean [batch, length], True = a token.
    """

    def __init__(self, mask):
        places = ops.arange(ops.size(mask), dtype="int32")
        # In an empty row nothing can be looked up: a batch of padding alone keeps a position.
        self._mask = ops.logical_or(mask, ops.reshape(places == 0, ops.shape(mask)))
        # Both directions are lookups, and each is the gradient of the other: none has to add rows.
        flat = ops.reshape(self._mask, (-1,))
        self._tokens = ops.nonzero(flat)[0]
        self._places = ops.cumsum(ops.cast(flat, "int32")) - 1

    def pack(self, x):
        """Keeps the real tokens of x.

        Args:
          x: [batch, length, ...].

        Returns:
          [1, tokens, ...]; of a batch without any token, its first position.
        """

        @ops.custom_gradient
        def packed(x):
            return self._kept(x), lambda upstream: self._spread(upstream, padding=0)

        return packed(x)

    def unpack(self, x):
        """Puts tokens back where they stood.

        Args:
          x: [1, tokens, ...].

        Returns:
          [batch, length, ...]. At padding stands another token's value, which must not be used:
          a gradient that comes from there is left out.
        """

        @ops.custom_gradient
        def unpacked(x):
            return self._spread(x), self._kept

        return unpacked(x)

    def _kept(self, x):
        rows = ops.reshape(x, (-1, *ops.shape(x)[2:]))
        return ops.take(rows, self._tokens, axis=0)[None]

    def _spread(self, x, padding=None):
        rest = ops.shape(x)[2:]
        spread = ops.take(x[0], self._places, axis=0)
        spread = ops.reshape(spread, (*ops.shape(self._mask), *rest))
        if padding is None:
            return spread
        mask = ops.reshape(self._mask, (*ops.shape(self._mask), *[1] * len(rest)))
        return ops.where(mask, spread, ops.cast(padding, spread.dtype))
