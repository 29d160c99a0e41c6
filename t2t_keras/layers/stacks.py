"""One layer of the encoder and one of the decoder (section 3.1)."""

import keras
from keras import ops

from t2t_keras.layers.attention import MultiHeadAttention
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.parameter_attention import ParameterAttention
from t2t_keras.layers.residual import Residual


class _TransformerLayer(keras.layers.Layer):
    """What the two kinds of layers share: their arguments and how their parts are made.

    The arguments are those of `EncoderLayer`.
    """

    def __init__(
        self,
        num_heads,
        d_k,
        d_ff,
        d_v=None,
        dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        self_attention_radius=0,
        parameter_attention_heads=0,
        pre_norm=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = dict(
            num_heads=num_heads,
            d_k=d_k,
            d_ff=d_ff,
            d_v=d_v or d_k,
            dropout=dropout,
            attention_dropout=attention_dropout,
            relu_dropout=relu_dropout,
            self_attention_radius=self_attention_radius,
            parameter_attention_heads=parameter_attention_heads,
            pre_norm=pre_norm,
        )
        self.supports_masking = True

    def _attention(self, name, radius=0):
        return MultiHeadAttention(
            self.config["num_heads"],
            self.config["d_k"],
            self.config["d_v"],
            dropout=self.config["attention_dropout"],
            radius=radius,
            dtype=self.dtype_policy,
            name=name,
        )

    def _self_attention(self):
        return self._attention("self_attention", self.config["self_attention_radius"])

    def _feed_forward(self):
        shared = dict(
            dropout=self.config["relu_dropout"], dtype=self.dtype_policy, name="feed_forward"
        )
        if not self.config["parameter_attention_heads"]:
            return FeedForward(self.config["d_ff"], **shared)
        return ParameterAttention(
            self.config["parameter_attention_heads"],
            self.config["d_ff"],
            self.config["d_k"],
            self.config["d_v"],
            **shared,
        )

    def _residual(self, name):
        return Residual(
            self.config["dropout"], self.config["pre_norm"], dtype=self.dtype_policy, name=name
        )

    def compute_mask(self, x, previous_mask=None):
        """Positions keep their mask."""
        return previous_mask

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self.config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class EncoderLayer(_TransformerLayer):
    """Self-attention, then feed-forward, each in a residual with layer normalisation.

    Section 3.1. The arguments after `dropout` are off in the paper's models.

    Args:
      num_heads: h.
      d_k: width of each head's queries and keys.
      d_ff: inner width of the feed-forward sub-layer.
      d_v: width of each head's values; default d_k.
      dropout: share of each sub-layer's output dropped.
      attention_dropout: share of attention weights dropped.
      relu_dropout: share of the feed-forward sub-layer's inner units dropped.
      self_attention_radius: how many positions away self-attention sees (section 4); 0 = all.
      parameter_attention_heads: h_p; the feed-forward network is replaced by attention over
        parameters of so many heads, each of d_ff keys of width d_k and values of width d_v.
      pre_norm: whether the sub-layers' inputs are normalised, not the sums; then a stack needs a
        layer normalisation at its end.

    Call arguments:
      x: [batch, length, d_model].
      mask: boolean [batch, length], True = a token (default: the Keras mask of x).
      packing: where the tokens stand, if x is packed (see `Packing`); then `mask` must be given.
      training: whether dropout acts.

    Returns:
      [batch, length, d_model], or packed as x is.
    """

    def build(self, x_shape):
        """Makes the two sub-layers."""
        self.self_attention = self._self_attention()
        self.feed_forward = self._feed_forward()
        self.residual_1 = self._residual("residual_1")
        self.residual_2 = self._residual("residual_2")
        for part in (self.self_attention, self.feed_forward, self.residual_1, self.residual_2):
            part.build(x_shape)

    def call(self, x, mask=None, packing=None, training=None):
        """See the class."""
        read = self.residual_1.sublayer_input(x)
        attended = self.self_attention(read, mask=mask, packing=packing, training=training)
        x = self.residual_1(x, attended, training=training)
        read = self.residual_2.sublayer_input(x)
        return self.residual_2(x, self.feed_forward(read, training=training), training=training)

    def compute_output_shape(self, x_shape):
        """The shape of the input."""
        return x_shape


@keras.saving.register_keras_serializable(package="t2t_keras")
class DecoderLayer(_TransformerLayer):
    """Causal self-attention, attention to the encoder's output, then feed-forward.

    Section 3.1; each sub-layer in a residual with layer normalisation. Arguments as `EncoderLayer`.

    Call arguments:
      x: [batch, target length, d_model].
      memory: the encoder's output [batch, source length, d_model].
      memory_mask: boolean [batch, source length], True = a token (default: memory's Keras mask).
      packing: where the target's tokens stand, if x is packed (see `Packing`).
      memory_packing: the same of `memory`; then `memory_mask` must be given.
      training: whether dropout acts.

    Returns:
      [batch, target length, d_model], or packed as x is.
    """

    def build(self, x_shape, memory_shape):
        """Makes the three sub-layers."""
        self.self_attention = self._self_attention()
        self.memory_attention = self._attention("memory_attention")
        self.feed_forward = self._feed_forward()
        self.residual_1 = self._residual("residual_1")
        self.residual_2 = self._residual("residual_2")
        self.residual_3 = self._residual("residual_3")
        self.self_attention.build(x_shape)
        self.memory_attention.build(x_shape, memory_shape)
        self.feed_forward.build(x_shape)
        for residual in (self.residual_1, self.residual_2, self.residual_3):
            residual.build(x_shape)

    def call(self, x, memory, memory_mask=None, packing=None, memory_packing=None, training=None):
        """See the class."""
        read = self.residual_1.sublayer_input(x)
        attended = self.self_attention(read, causal=True, packing=packing, training=training)
        x = self.residual_1(x, attended, training=training)
        read = self.residual_2.sublayer_input(x)
        attended = self.memory_attention(
            read,
            memory,
            mask=memory_mask,
            packing=packing,
            value_packing=memory_packing,
            training=training,
        )
        x = self.residual_2(x, attended, training=training)
        read = self.residual_3.sublayer_input(x)
        return self.residual_3(x, self.feed_forward(read, training=training), training=training)

    def step(self, x, past, recent, here, legal, memory, memory_mask):
        """Computes the next position of some hypotheses of each sentence.

        The keys and values of the positions before stand in slots, one for each hypothesis and
        position, in no order: which of them a hypothesis goes back to is told by `legal`.

        Args:
          x: [batch, hypotheses, d_model].
          past: {"key", "value"} of earlier positions, each [batch, heads, slots, width]; read only.
          recent: the same of the positions since, with room for more.
          here: boolean [slots of recent], True for the slots of the new position, which follow each
            other in the order of the hypotheses, from a multiple of their number on.
          legal: boolean [batch, hypotheses, slots of past + slots of recent]; it is True for the
            slots of a hypothesis's own positions, the new one included.
          memory: {"key", "value"} of the encoder's output.
          memory_mask: boolean [batch, 1, 1, source length].

        Returns:
          [batch, hypotheses, d_model], and `recent` with the new position.
        """
        read = self.residual_1.sublayer_input(x)
        new = self.self_attention.keys_and_values(read)
        recent = {name: _written(recent[name], here, new[name]) for name in recent}
        attended = self.self_attention.attend(read, [past, recent], legal[:, None])
        x = self.residual_1(x, attended)
        read = self.residual_2.sublayer_input(x)
        x = self.residual_2(x, self.memory_attention.attend(read, [memory], memory_mask))
        read = self.residual_3.sublayer_input(x)
        return self.residual_3(x, self.feed_forward(read)), recent

    def compute_output_shape(self, x_shape, memory_shape):
        """The shape of x."""
        return x_shape


def _written(kept, here, new):
    """Writes new [batch, heads, n, width] over the slots `here` of kept.

    `ops.slice_update` would be XLA's operator, which TensorFlow compiles even where nobody asked
    for XLA.
    """
    repeats = ops.shape(kept)[2] // ops.shape(new)[2]
    return ops.where(here[:, None], ops.tile(new, (1, 1, repeats, 1)), kept)
